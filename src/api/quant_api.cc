// SPDX-License-Identifier: Apache-2.0
// What is particular to quantization: of plain arrays; of a storage, the errors and the residual
// blocks.
#include "api/storage_handle.h"
#include "quant/metrics.h"
#include "quant/quantize.h"

using namespace kvc;

namespace {

void write_metrics(const kvc_backend_errors& e, kvc_quant_metrics* out) {
  const QuantMetrics m = QuantSums{e.bytes, e.elements, e.finite, e.signal, e.noise, e.max_error}.metrics();
  write_struct(kvc_quant_metrics{sizeof *out, m.elements, m.bytes, m.fp16_bytes, m.ratio, m.mse, m.snr_db,
                                 m.max_error},
               out);
}

// A complete, valid format of the quantizer; *own has the caller's other fields.
kvc_status read_format(const kvc_quant_format* format, kvc_quant_format* own, QuantFormat* out) {
  KVC_REQUIRE_POINTER(format);
  KVC_TRY(read_struct(format, own));
  if ((own->flags & ~uint32_t{KVC_QUANT_ASYMMETRIC | KVC_QUANT_CHANNELS}) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "kvc_quant_format.flags are %#x", own->flags);
  *out = {own->dtype, own->group, (own->flags & KVC_QUANT_ASYMMETRIC) != 0};
  if (!is_quantized(own->dtype) || !is_valid(*out)) {
    return invalid("kvc_quant_format.dtype is %d (%s)%s", own->dtype, dtype_name(own->dtype),
                   out->asymmetric ? ", asymmetric; int8 or int4" : "; int or fp8");
  }
  KVC_TRY(check_factor("kvc_quant_format.scale", own->scale));
  if (own->scale != 0 && (own->group != 0 || own->flags != 0))
    return invalid("kvc_quant_format.scale is given, with group %u and flags %#x; 0", own->group, own->flags);
  if ((own->flags & KVC_QUANT_CHANNELS) != 0 && own->group != 0)
    return invalid("kvc_quant_format.group is %u; 0 with channels", own->group);
  return KVC_OK;
}

}  // namespace

extern "C" {

kvc_status kvc_quantize(const kvc_quant_format* format, const float* in, size_t num_rows, size_t dim,
                        void* codes, float* scales) {
  return guarded([&]() -> kvc_status {
    kvc_quant_format own;
    QuantFormat of;
    KVC_TRY(read_format(format, &own, &of));
    if (num_rows == 0 || dim == 0) return KVC_OK;
    KVC_REQUIRE_MEMORY(in, product(num_rows, dim));
    KVC_REQUIRE_POINTER(codes);
    if (own.scale == 0) KVC_REQUIRE_POINTER(scales);
    const size_t bytes = code_bytes(of, dim), width = scales_of(of, dim);
    if ((own.flags & KVC_QUANT_CHANNELS) != 0) {
      quantize_channels(of, in, num_rows, dim, codes, bytes, scales);
      return KVC_OK;
    }
    for (size_t r = 0; r < num_rows; ++r) {
      char* row = static_cast<char*>(codes) + r * bytes;
      if (own.scale != 0) {
        quantize_with_scale(of, own.scale, in + r * dim, dim, row);
      } else {
        quantize_row(of, in + r * dim, dim, row, scales + r * width);
      }
    }
    return KVC_OK;
  });
}

kvc_status kvc_dequantize(const kvc_quant_format* format, const void* codes, const float* scales,
                          size_t num_rows, size_t dim, float* out) {
  return guarded([&]() -> kvc_status {
    kvc_quant_format own;
    QuantFormat of;
    KVC_TRY(read_format(format, &own, &of));
    if (num_rows == 0 || dim == 0) return KVC_OK;
    KVC_REQUIRE_POINTER(codes);
    KVC_REQUIRE_MEMORY(out, product(num_rows, dim));
    if (own.scale == 0) KVC_REQUIRE_POINTER(scales);
    const size_t bytes = code_bytes(of, dim), width = scales_of(of, dim);
    for (size_t r = 0; r < num_rows; ++r) {
      const char* row = static_cast<const char*>(codes) + r * bytes;
      if ((own.flags & KVC_QUANT_CHANNELS) != 0) {
        dequantize_channels(of, row, scales, dim, out + r * dim);
      } else {
        dequantize_row(of, row, own.scale != 0 ? &own.scale : scales + r * width, dim, out + r * dim);
      }
    }
    return KVC_OK;
  });
}

kvc_status kvc_storage_measure(kvc_storage* s, const kvc_rows* rows, kvc_quant_metrics* keys,
                               kvc_quant_metrics* values) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    kvc_backend_rows own;
    KVC_TRY(read_rows(storage.layout, rows, RowsUse::kMeasure, &own));
    for (const kvc_quant_metrics* metrics : {keys, values}) {
      if (metrics == nullptr) continue;
      KVC_TRY(check_size<kvc_quant_metrics>(metrics->struct_size));
    }
    if (values != nullptr && storage.layout.latent)
      return invalid("values must be NULL: a latent storage has no value plane");
    kvc_backend_errors of_keys = {}, of_values = {};
    KVC_TRY(storage.backend->measure(storage.impl, &own, keys != nullptr ? &of_keys : nullptr,
                                     values != nullptr ? &of_values : nullptr));
    if (keys != nullptr) write_metrics(of_keys, keys);
    if (values != nullptr) write_metrics(of_values, values);
    return KVC_OK;
  });
}

kvc_status kvc_storage_quantize_blocks(kvc_storage* s, const int32_t* blocks, size_t num_blocks,
                                       kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    KVC_TRY(check_blocks(storage.layout, blocks, num_blocks));
    return storage.backend->quantize_blocks(storage.impl, blocks, num_blocks, impl_of(stream));
  });
}

}  // extern "C"
