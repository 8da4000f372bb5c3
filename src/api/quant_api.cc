// SPDX-License-Identifier: Apache-2.0
// kvc_storage_measure and kvc_storage_seal_blocks: what is particular to quantized storage.
#include "api/storage_handle.h"

namespace kvc {
namespace {

kvc_status check_metrics(const kvc_quant_metrics* metrics) {
  return metrics == nullptr ? KVC_OK
                            : check_size<kvc_quant_metrics>(metrics->struct_size, "kvc_quant_metrics");
}

void measure_kind(Storage& storage, const kvc_rows& rows, bool keys, kvc_quant_metrics* out) {
  if (out == nullptr) return;
  QuantMeter meter;
  storage.measure(rows, keys, &meter);
  const QuantMetrics m = meter.metrics();
  write_struct(kvc_quant_metrics{sizeof(kvc_quant_metrics), m.elements, m.bytes, m.fp16_bytes, m.ratio, m.mse,
                                 m.snr_db, m.max_error},
               out);
}

}  // namespace
}  // namespace kvc

extern "C" {

kvc_status kvc_storage_measure(kvc_storage* s, const kvc_rows* rows, kvc_quant_metrics* keys,
                               kvc_quant_metrics* values, void* stream) {
  return kvc::on_storage(s, stream, [&](kvc::Storage& storage) -> kvc_status {
    kvc_rows own;
    if (const kvc_status status = kvc::read_rows(storage.layout(), rows, &own); status != KVC_OK)
      return status;
    for (const kvc_quant_metrics* metrics : {keys, values}) {
      if (const kvc_status status = kvc::check_metrics(metrics); status != KVC_OK) return status;
    }
    if (values != nullptr && storage.layout().latent) {
      return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                       "values must be NULL: a latent storage has no value plane");
    }
    kvc::measure_kind(storage, own, true, keys);
    kvc::measure_kind(storage, own, false, values);
    return KVC_OK;
  });
}

kvc_status kvc_storage_seal_blocks(kvc_storage* s, const int32_t* blocks, size_t num_blocks, void* stream) {
  return kvc::on_storage(s, stream, [&](kvc::Storage& storage) {
    const kvc_status status = kvc::check_blocks(storage.layout(), blocks, num_blocks);
    if (status == KVC_OK) storage.seal_blocks(blocks, num_blocks);
    return status;
  });
}

}  // extern "C"
