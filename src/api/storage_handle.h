// SPDX-License-Identifier: Apache-2.0
// What stands behind the pointers of storages, streams and their events.
#pragma once
#include <atomic>

#include "api/guard.h"
#include "device/backend.h"
#include "layout/layout.h"

struct kvc_storage {
  const kvc_backend* backend;
  void* impl;  // the backend's
  kvc::Env env;
  kvc::Layout layout;
  kvc_storage_info info;
  std::atomic<uint32_t> num_users{1};  // who created it, and exported tensors

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

// Drops one user; the last one frees it.
void release_storage(kvc_storage* s);

// The backend's stream; NULL stays NULL.
inline void* impl_of(kvc_stream* stream) { return stream == nullptr ? nullptr : stream->impl; }

// A device by its public name, NULL = the CPU: api/device_api.cc.
kvc_status find_device(const char* name, const kvc_backend** backend, uint32_t* device);

// What the CPU device lacks: api/attention_api.cc.
kvc_status cpu_attend(void* storage, const kvc_attention* attention, void* stream);

}  // namespace kvc
