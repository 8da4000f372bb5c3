// SPDX-License-Identifier: Apache-2.0
// What stands behind the pointers of storages, streams and their events.
#pragma once
#include <kvcache/attention.h>
#include <kvcache/storage.h>

#include <atomic>

#include "api/guard.h"
#include "backend/backend.h"
#include "layout/layout.h"
#include "storage/residual_keys.h"

struct kvc_storage {
  explicit kvc_storage(const kvc::Env& from);  // api/storage_api.cc

  kvc::Account account;  // without the slab
  const kvc::Env env;
  const kvc_backend* backend = nullptr;
  void* impl = nullptr;  // the backend's
  uint32_t device = 0;
  kvc::Layout layout = {};
  kvc_storage_info info = {};
  std::atomic<uint32_t> num_users{1};        // who created it, and exported tensors
  kvc_attention_kernel attention = nullptr;  // of the caller, tried before the backend's
  void* attention_data = nullptr;
  kvc::Latencies latencies;

  char* slab() const { return static_cast<char*>(info.data); }
};

struct kvc_stream {
  const kvc_backend* backend;
  void* impl;
  uint32_t device;
};

struct kvc_stream_event {
  const kvc_backend* backend;
  void* impl;
  uint32_t device;
};

namespace kvc {

// A configuration as the calls below take it: *out with defaults, in range. (storage_config.cc)
kvc_status read_storage_config(const kvc_storage_config* config, kvc_storage_config* out);
kvc_status lay_out(const kvc_storage_config& config, Layout* out);
// Gives num_blocks by memory_fraction.
kvc_status count_blocks(const kvc_backend& backend, uint32_t device, kvc_storage_config* config);

// What a configuration whose other fields are in range says about quantization. (storage_quant.cc)
inline constexpr float kLeastFactor = 1e-30f, kMostFactor = 1e30f;
kvc_status check_factor(const char* name, float factor);  // a scale or cap that is given, or 0
kvc_status read_quantization(const kvc_storage_config& config, LayoutShape* shape);
uint32_t residual_blocks_of(const kvc_storage_config& config, const Layout& layout);

// Checks of arguments. (storage_blocks_api.cc)
kvc_status check_blocks(const Layout& layout, const int32_t* blocks, size_t num_blocks);
// Translates rows for backends, with defaults filled in.
enum class RowsUse { kStore, kGather, kMeasure };
kvc_status read_rows(const Layout& layout, const kvc_rows* rows, RowsUse use, kvc_backend_rows* out);

// Runs function(storage).
template <typename Function>
kvc_status on_storage(kvc_storage* s, Function&& function) noexcept {
  if (s == nullptr) return invalid("the storage is NULL");
  return guarded([&] { return function(*s); });
}

// The same with a stream, NULL or of the storage's device.
template <typename Function>
kvc_status on_storage(kvc_storage* s, const kvc_stream* stream, Function&& function) noexcept {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    if (stream != nullptr && (stream->backend != storage.backend || stream->device != storage.device)) {
      return invalid("a stream of %s:%u with a storage of %s:%u", stream->backend->name, stream->device,
                     storage.backend->name, storage.device);
    }
    return function(storage);
  });
}

// Entry `entry` of an array of block ids.
inline kvc_status check_block(const Layout& layout, size_t entry, int64_t block) {
  if (block >= 0 && static_cast<uint64_t>(block) < layout.num_blocks) return KVC_OK;
  return invalid("entry %zu: no block %lld; the storage has %llu", entry, static_cast<long long>(block),
                 ull(layout.num_blocks));
}

// Drops one user; the last one frees it.
void release_storage(kvc_storage* s);

// The backend's stream; NULL stays NULL.
inline void* impl_of(kvc_stream* stream) { return stream == nullptr ? nullptr : stream->impl; }

// A device by its public name, NULL = the CPU: api/device_api.cc.
kvc_status find_device(const char* name, const kvc_backend** backend, uint32_t* device);

}  // namespace kvc
