// SPDX-License-Identifier: Apache-2.0
// C functions of rotary embedding. They need no storage and take no lock.
#include <cmath>

#include "api/row_args.h"
#include "layout/layout.h"
#include "models/rope.h"
#include "storage/rotary.h"

using namespace kvc;

namespace {

constexpr int64_t kMaxPosition = int64_t{1} << 40;  // angles are exact to 2^-12 there, and far better below

// Checks everything and fills in defaults.
kvc_status read_rows(const kvc_rope_rows* rows, kvc_rope_rows* own) {
  KVC_REQUIRE_POINTER(rows);
  KVC_TRY(read_struct(rows, own));
  if (own->dtype == 0) own->dtype = KVC_FLOAT32;
  if (own->rope_dim == 0) own->rope_dim = own->head_dim;
  if (own->head_stride == 0) own->head_stride = own->head_dim;
  if (own->token_stride == 0)  // what overflows is refused below
    static_cast<void>(__builtin_mul_overflow(own->head_stride, own->num_heads, &own->token_stride));
  if (!is_float(own->dtype))
    return invalid("kvc_rope_rows.dtype is %d (%s); it must be float32, float16 or bfloat16", own->dtype,
                   dtype_name(own->dtype));
  if ((own->flags & ~uint32_t{KVC_ROPE_ROWS_INTERLEAVED}) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "rope flags %#x are not supported", own->flags);
  if (own->head_dim == 0 || own->head_dim > kMaxRowElements)
    return invalid("kvc_rope_rows.head_dim is %u; 1 .. %u", own->head_dim, kMaxRowElements);
  KVC_REQUIRE_ARRAY(own->x, own->num_tokens);
  KVC_REQUIRE_MEMORY(own->x,
                     product(own->num_tokens, size_t{own->num_heads} * own->head_dim * sizeof(float)));
  KVC_TRY(check_strides("kvc_rope_rows.x", 0, 1, own->token_stride, own->num_tokens, own->head_stride,
                        own->num_heads));
  return check_rotary(rotary_of(*own), own->head_dim, own->num_tokens, false);
}

}  // namespace

extern "C" {

kvc_status kvc_model_rope(const kvc_model* model, uint32_t layer, uint64_t length, const double* factors,
                          double* frequencies, size_t num_frequencies, double* attention_factor) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(model);
    KVC_REQUIRE_ARRAY(frequencies, num_frequencies);
    KVC_REQUIRE_POINTER(attention_factor);
    kvc_model own;
    uint32_t dim;
    KVC_TRY(read_struct(model, &own));
    KVC_TRY(check_rope(own, layer, factors, &dim));
    if (num_frequencies != dim / 2)
      return invalid("num_frequencies is %zu; it must be rope_dim / 2, %u", num_frequencies, dim / 2);
    *attention_factor = rope_frequencies(own, layer, length, factors, dim, frequencies);
    return KVC_OK;
  });
}

kvc_status kvc_rope_table(const double* frequencies, size_t num_frequencies, double attention_factor,
                          const int64_t* positions, size_t num_positions, float* table) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_MEMORY(frequencies, num_frequencies);
    KVC_REQUIRE_ARRAY(table, num_positions);
    KVC_REQUIRE_MEMORY(table, product(product(num_positions, 2), num_frequencies));
    if (!(std::abs(attention_factor) <= kMostRopeNumber)) {
      return invalid("attention_factor is %g; it must be from %g to %g, such as 1 or that of kvc_model_rope",
                     attention_factor, -kMostRopeNumber, kMostRopeNumber);
    }
    for (size_t i = 0; i < num_frequencies; ++i) {
      if (std::abs(frequencies[i]) <= kMostRopeNumber) continue;
      return invalid("frequencies[%zu] is %g; it must be from %g to %g", i, frequencies[i], -kMostRopeNumber,
                     kMostRopeNumber);
    }
    for (size_t n = 0; positions != nullptr && n < num_positions; ++n) {
      if (positions[n] >= -kMaxPosition && positions[n] <= kMaxPosition) continue;
      return invalid("positions[%zu] is %lld; it must be from -2^40 to 2^40", n,
                     static_cast<long long>(positions[n]));
    }
    rope_table(frequencies, num_frequencies, attention_factor, positions, num_positions, table);
    return KVC_OK;
  });
}

kvc_status kvc_rope_apply(const kvc_rope_rows* rows) {
  return guarded([&] {
    kvc_rope_rows own;
    const kvc_status status = read_rows(rows, &own);
    if (status == KVC_OK) rotate_rows(own);
    return status;
  });
}

}  // extern "C"
