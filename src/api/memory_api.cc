// SPDX-License-Identifier: Apache-2.0
// C functions of memory on devices. Each piece is recorded with its owner until it is released.
#include <map>
#include <mutex>

#include "api/storage_handle.h"
#include "storage/host_memory.h"

using namespace kvc;

namespace {

constexpr uint32_t kAlignment = 256;

struct DeviceMemory {
  const kvc_backend* backend;
  uint32_t device;
  kvc_backend_memory memory;
};

struct Pieces {
  std::mutex mutex;
  std::map<void*, DeviceMemory> all;
};
Pieces& pieces() {
  static auto* const all = new Pieces;  // outlives the destructors of whoever still has memory
  return *all;
}

// Records the memory that take(backend, device, &memory) returns.
template <typename Take>
kvc_status keep_piece(const char* device, void** memory, Take&& take) {
  DeviceMemory piece = {};
  KVC_TRY(find_device(device, &piece.backend, &piece.device));
  KVC_TRY(take(*piece.backend, piece.device, &piece.memory));
  try {
    const std::lock_guard lock(pieces().mutex);
    pieces().all.emplace(piece.memory.data, piece);
  } catch (const std::bad_alloc&) {
    release_memory(piece.memory);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to remember a piece of memory");
  }
  *memory = piece.memory.data;
  return KVC_OK;
}

kvc_status unknown_memory() {
  return fail(KVC_ERROR_NOT_FOUND, "no such memory: it was not given out here, or has been given back");
}

kvc_status find_piece(void* memory, DeviceMemory* piece) {
  const std::lock_guard lock(pieces().mutex);
  const auto at = pieces().all.find(memory);
  if (at == pieces().all.end()) return unknown_memory();
  *piece = at->second;
  return KVC_OK;
}

}  // namespace

extern "C" {

kvc_status kvc_device_allocate(const char* device, uint32_t kind, uint64_t bytes, void** memory) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(memory);
    if (bytes == 0) return invalid("0 bytes; at least 1");
    return keep_piece(device, memory,
                      [&](const kvc_backend& backend, uint32_t index, kvc_backend_memory* out) {
                        return backend.allocate(index, nullptr, kind, bytes, kAlignment, out);
                      });
  });
}

kvc_status kvc_device_reserve_addresses(const char* device, uint64_t bytes, void** memory) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(memory);
    if (bytes == 0) return invalid("0 bytes; at least 1");
    return keep_piece(device, memory,
                      [&](const kvc_backend& backend, uint32_t index, kvc_backend_memory* out) -> kvc_status {
                        if (backend.reserve_memory == nullptr)
                          return fail(KVC_ERROR_UNSUPPORTED,
                                      "memory of %s does not grow; use kvc_device_allocate", backend.name);
                        return backend.reserve_memory(index, bytes, out);
                      });
  });
}

kvc_status kvc_device_map(void* memory, uint64_t offset, uint64_t bytes) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(memory);
    DeviceMemory piece;
    KVC_TRY(find_piece(memory, &piece));
    if (offset > piece.memory.bytes || bytes > piece.memory.bytes - offset)
      return invalid("%llu bytes from %llu on, of %llu", ull(bytes), ull(offset), ull(piece.memory.bytes));
    if (piece.backend->map_memory == nullptr) return unknown_memory();
    return piece.backend->map_memory(piece.device, &piece.memory, offset, bytes);
  });
}

kvc_status kvc_device_release(void* memory) {
  return guarded([&]() -> kvc_status {
    if (memory == nullptr) return KVC_OK;
    DeviceMemory piece;
    {
      const std::lock_guard lock(pieces().mutex);
      const auto at = pieces().all.find(memory);
      if (at == pieces().all.end()) return unknown_memory();
      piece = at->second;
      pieces().all.erase(at);
    }
    release_memory(piece.memory);
    return KVC_OK;
  });
}

kvc_status kvc_device_register(const char* device, void* memory, uint64_t bytes) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(memory);
    if (bytes == 0) return invalid("0 bytes; at least 1");
    const kvc_backend* backend;
    uint32_t index;
    KVC_TRY(find_device(device, &backend, &index));
    return backend->register_memory == nullptr ? kvc_status{KVC_OK}
                                               : backend->register_memory(index, memory, bytes);
  });
}

kvc_status kvc_device_unregister(const char* device, void* memory) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(memory);
    const kvc_backend* backend;
    uint32_t index;
    KVC_TRY(find_device(device, &backend, &index));
    return backend->unregister_memory == nullptr ? kvc_status{KVC_OK}
                                                 : backend->unregister_memory(index, memory);
  });
}

kvc_status kvc_device_export_memory(void* memory, kvc_memory_handle* handle) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(memory);
    KVC_REQUIRE_POINTER(handle);
    DeviceMemory piece;
    KVC_TRY(find_piece(memory, &piece));
    if (piece.backend->export_memory == nullptr)
      return fail(KVC_ERROR_UNSUPPORTED, "memory of %s stays in its process", piece.backend->name);
    kvc_memory_handle out = {};
    out.bytes = piece.memory.bytes;
    std::memcpy(out.device, piece.backend->name, std::strlen(piece.backend->name));
    KVC_TRY(piece.backend->export_memory(piece.device, &piece.memory, &out));
    *handle = out;
    return KVC_OK;
  });
}

kvc_status kvc_device_import_memory(const char* device, const kvc_memory_handle* handle, void** memory) {
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(handle);
    KVC_REQUIRE_POINTER(memory);
    return keep_piece(
        device, memory,
        [&](const kvc_backend& backend, uint32_t index, kvc_backend_memory* out) -> kvc_status {
          if (std::strncmp(handle->device, backend.name, sizeof handle->device) != 0)
            return invalid("a handle of \"%.16s\", not of \"%s\"", handle->device, backend.name);
          if (backend.import_memory == nullptr)
            return fail(KVC_ERROR_UNSUPPORTED, "%s takes no memory of other processes", backend.name);
          return backend.import_memory(index, handle, out);
        });
  });
}

}  // extern "C"
