// SPDX-License-Identifier: Apache-2.0
// C functions of rotary embedding. They need no storage and take no lock.
#include <cmath>

#include "api/row_args.h"
#include "layout/layout.h"
#include "models/rope.h"
#include "storage/rotary.h"

using kvc::fail;

namespace {

using ull = unsigned long long;

constexpr int64_t kMaxPosition = int64_t{1} << 40;  // angles are exact to 2^-12 there, and far better below

// Checks everything and fills in defaults.
kvc_status read_rows(const kvc_rope_rows* rows, kvc_rope_rows* own) {
  KVC_REQUIRE_POINTER(rows);
  KVC_TRY(kvc::read_struct(rows, rows->struct_size, "kvc_rope_rows", own));
  if (own->dtype == 0) own->dtype = KVC_FLOAT32;
  if (own->rope_dim == 0) own->rope_dim = own->head_dim;
  if (own->head_stride == 0) own->head_stride = own->head_dim;
  if (own->token_stride == 0)  // what overflows is refused below
    static_cast<void>(__builtin_mul_overflow(own->head_stride, own->num_heads, &own->token_stride));
  if (!kvc::is_float(own->dtype))
    return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_rope_rows.dtype %d is no float type", own->dtype);
  if ((own->flags & ~uint32_t{KVC_ROPE_ROWS_INTERLEAVED}) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "rope flags %#x are not supported", own->flags);
  if (own->head_dim == 0 || own->head_dim > kvc::kMaxRowElements) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "kvc_rope_rows.head_dim is %u; 1 .. %u", own->head_dim,
                kvc::kMaxRowElements);
  }
  KVC_REQUIRE_ARRAY(own->x, own->num_tokens);
  KVC_REQUIRE_MEMORY(own->x,
                     kvc::product(own->num_tokens, size_t{own->num_heads} * own->head_dim * sizeof(float)));
  KVC_TRY(kvc::check_strides("kvc_rope_rows.x", 0, 1, own->token_stride, own->num_tokens, own->head_stride,
                             own->num_heads));
  return kvc::check_rotary(kvc::rotary_of(*own), own->head_dim, own->num_tokens, false);
}

}  // namespace

extern "C" {

kvc_status kvc_model_rope(const kvc_model* model, uint32_t layer, uint64_t length, const double* factors,
                          double* frequencies, size_t num_frequencies, double* attention_factor) {
  return kvc::guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(model);
    KVC_REQUIRE_ARRAY(frequencies, num_frequencies);
    KVC_REQUIRE_POINTER(attention_factor);
    kvc_model own;
    uint32_t dim;
    KVC_TRY(kvc::read_struct(model, model->struct_size, "kvc_model", &own));
    KVC_TRY(kvc::check_rope(own, layer, factors, &dim));
    if (num_frequencies != dim / 2) {
      return fail(KVC_ERROR_INVALID_ARGUMENT, "num_frequencies is %zu; it must be rope_dim / 2, %u",
                  num_frequencies, dim / 2);
    }
    *attention_factor = kvc::rope_frequencies(own, layer, length, factors, dim, frequencies);
    return KVC_OK;
  });
}

kvc_status kvc_rope_table(const double* frequencies, size_t num_frequencies, double attention_factor,
                          const int64_t* positions, size_t num_positions, float* table) {
  return kvc::guarded([&]() -> kvc_status {
    KVC_REQUIRE_MEMORY(frequencies, num_frequencies);
    KVC_REQUIRE_ARRAY(table, num_positions);
    KVC_REQUIRE_MEMORY(table, kvc::product(kvc::product(num_positions, 2), num_frequencies));
    if (!(std::abs(attention_factor) <= kvc::kMostRopeNumber)) {
      return fail(KVC_ERROR_INVALID_ARGUMENT,
                  "attention_factor is %g; it must be from %g to %g, such as 1 or that of kvc_model_rope",
                  attention_factor, -kvc::kMostRopeNumber, kvc::kMostRopeNumber);
    }
    for (size_t i = 0; i < num_frequencies; ++i) {
      if (std::abs(frequencies[i]) <= kvc::kMostRopeNumber) continue;
      return fail(KVC_ERROR_INVALID_ARGUMENT, "frequencies[%zu] is %g; it must be from %g to %g", i,
                  frequencies[i], -kvc::kMostRopeNumber, kvc::kMostRopeNumber);
    }
    for (size_t n = 0; positions != nullptr && n < num_positions; ++n) {
      if (positions[n] >= -kMaxPosition && positions[n] <= kMaxPosition) continue;
      return fail(KVC_ERROR_INVALID_ARGUMENT, "positions[%zu] is %lld; it must be from -2^40 to 2^40", n,
                  static_cast<long long>(positions[n]));
    }
    kvc::rope_table(frequencies, num_frequencies, attention_factor, positions, num_positions, table);
    return KVC_OK;
  });
}

kvc_status kvc_rope_apply(const kvc_rope_rows* rows) {
  return kvc::guarded([&] {
    kvc_rope_rows own;
    const kvc_status status = read_rows(rows, &own);
    if (status == KVC_OK) kvc::rotate_rows(own);
    return status;
  });
}

}  // extern "C"
