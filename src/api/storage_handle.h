// SPDX-License-Identifier: Apache-2.0
// What stands behind a kvc_storage pointer.
#pragma once
#include "api/guard.h"
#include "device/storage.h"

struct kvc_storage {
  kvc::Storage* impl;
  kvc::Env env;
  kvc_storage_info info;
};

namespace kvc {

// What a configuration whose other fields are in range says about quantization. (storage_quant.cc)
kvc_status read_quantization(const kvc_storage_config& config, LayoutShape* shape);
uint32_t open_blocks_of(const kvc_storage_config& config, const Layout& layout);

// Checks of arguments. (storage_api.cc)
kvc_status check_blocks(const Layout& layout, const int32_t* blocks, size_t num_blocks);
// Fills in defaults as well: *out is ready for the functions of Storage.
kvc_status read_rows(const Layout& layout, const kvc_rows* rows, kvc_rows* out);

// Runs function(storage) on a storage whose stream is the CPU's.
template <typename Function>
kvc_status on_storage(kvc_storage* s, void* stream, Function&& function) noexcept {
  if (s == nullptr) return fail(KVC_ERROR_INVALID_ARGUMENT, "the storage is NULL");
  if (stream != nullptr)
    return fail(KVC_ERROR_UNSUPPORTED, "this storage is in host memory: stream must be NULL");
  return guarded([&] { return function(*s->impl); });
}

}  // namespace kvc
