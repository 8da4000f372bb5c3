// SPDX-License-Identifier: Apache-2.0
// kvc_storage_measure and kvc_storage_seal_blocks: what is particular to quantized storage.
#include "api/storage_handle.h"

using kvc::fail;

extern "C" {

kvc_status kvc_storage_measure(kvc_storage* s, const kvc_rows* rows, kvc_quant_metrics* keys,
                               kvc_quant_metrics* values) {
  return kvc::on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    kvc_rows own;
    if (const kvc_status status = kvc::read_rows(storage.layout, rows, &own); status != KVC_OK) return status;
    for (const kvc_quant_metrics* metrics : {keys, values}) {
      if (metrics == nullptr) continue;
      const kvc_status status = kvc::check_size<kvc_quant_metrics>(metrics->struct_size, "kvc_quant_metrics");
      if (status != KVC_OK) return status;
    }
    if (values != nullptr && storage.layout.latent)
      return fail(KVC_ERROR_INVALID_ARGUMENT, "values must be NULL: a latent storage has no value plane");
    kvc_quant_metrics of_keys, of_values;
    const kvc_status status = storage.backend->measure(
        storage.impl, &own, keys == nullptr ? nullptr : &of_keys, values == nullptr ? nullptr : &of_values);
    if (status != KVC_OK) return status;
    if (keys != nullptr) kvc::write_struct(of_keys, keys);
    if (values != nullptr) kvc::write_struct(of_values, values);
    return KVC_OK;
  });
}

kvc_status kvc_storage_seal_blocks(kvc_storage* s, const int32_t* blocks, size_t num_blocks,
                                   kvc_stream* stream) {
  return kvc::on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    if (const kvc_status status = kvc::check_blocks(storage.layout, blocks, num_blocks); status != KVC_OK)
      return status;
    return storage.backend->seal_blocks(storage.impl, blocks, num_blocks, kvc::impl_of(stream));
  });
}

}  // extern "C"
