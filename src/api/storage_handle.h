// SPDX-License-Identifier: Apache-2.0
// What stands behind the pointers of storages, streams and their events.
#pragma once
#include "api/guard.h"
#include "device/backend.h"
#include "layout/layout.h"

struct kvc_storage {
  const kvc_backend* backend;
  void* impl;  // the backend's
  kvc::Env env;
  kvc::Layout layout;
  kvc_storage_info info;

  char* slab() const { return static_cast<char*>(info.data); }
};

struct kvc_stream {
  const kvc_backend* backend;
  void* impl;
};

struct kvc_stream_event {
  const kvc_backend* backend;
  void* impl;
};

namespace kvc {

// Runs function(storage).
template <typename Function>
kvc_status on_storage(kvc_storage* s, Function&& function) noexcept {
  if (s == nullptr) return fail(KVC_ERROR_INVALID_ARGUMENT, "the storage is NULL");
  return guarded([&] { return function(*s); });
}

// Entry `entry` of an array of block ids.
inline kvc_status check_block(const Layout& layout, size_t entry, int64_t block) {
  if (block >= 0 && static_cast<uint64_t>(block) < layout.num_blocks) return KVC_OK;
  return fail(KVC_ERROR_INVALID_ARGUMENT, "entry %zu: no block %lld; the storage has %llu", entry,
              static_cast<long long>(block), static_cast<unsigned long long>(layout.num_blocks));
}

// The backend's stream; NULL stays NULL.
inline void* impl_of(kvc_stream* stream) { return stream == nullptr ? nullptr : stream->impl; }

// A device by its public name, NULL = the CPU: api/device_api.cc.
kvc_status find_device(const char* name, const kvc_backend** backend, uint32_t* device);

// What the CPU device lacks: api/cpu_attention.cc.
void add_cpu_attention(kvc_backend* backend);

}  // namespace kvc
