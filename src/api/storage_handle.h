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

// Runs function(storage) on a storage whose stream is the CPU's.
template <typename Function>
kvc_status on_storage(kvc_storage* s, void* stream, Function&& function) noexcept {
  if (s == nullptr) return fail(KVC_ERROR_INVALID_ARGUMENT, "the storage is NULL");
  if (stream != nullptr)
    return fail(KVC_ERROR_UNSUPPORTED, "this storage is in host memory: stream must be NULL");
  return guarded([&] { return function(*s->impl); });
}

// Entry `entry` of an array of block ids.
inline kvc_status check_block(const Layout& layout, size_t entry, int64_t block) {
  if (block >= 0 && static_cast<uint64_t>(block) < layout.num_blocks) return KVC_OK;
  return fail(KVC_ERROR_INVALID_ARGUMENT, "entry %zu: no block %lld; the storage has %llu", entry,
              static_cast<long long>(block), static_cast<unsigned long long>(layout.num_blocks));
}

}  // namespace kvc
