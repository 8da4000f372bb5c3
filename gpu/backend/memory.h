// SPDX-License-Identifier: Apache-2.0
// Memory of a device: device memory, pinned host memory, managed memory, and memory of other processes. Each
// piece has an owner that releases it. The kind of memory is always the one asked for. Any thread.
#pragma once
#include <kvcache/device.h>

#include "backend/backend.h"

namespace kvc::gpu {

inline constexpr uint32_t kMemoryKinds =
    1u << KVC_MEMORY_DEVICE | 1u << KVC_MEMORY_PINNED | 1u << KVC_MEMORY_EXTERNAL;

kvc_status allocate(uint32_t device, const kvc_backend_allocator* allocator, uint32_t kind, uint64_t bytes,
                    uint32_t alignment, kvc_backend_memory* memory);
// Large memory piece by piece: registered.h.
kvc_status register_memory(uint32_t device, void* memory, uint64_t bytes);
kvc_status unregister_memory(uint32_t device, void* memory);
kvc_status export_memory(uint32_t device, const kvc_backend_memory* memory, kvc_memory_handle* handle);
kvc_status import_memory(uint32_t device, const kvc_memory_handle* handle, kvc_backend_memory* memory);

// The device's address of the caller's memory `name`, which the device must be able to read. nullptr stays
// nullptr.
kvc_status find_address(uint32_t device, const void* memory, const char* name, void** on_device);
// Whether the memory was pinned, registered or allocated by the runtime; whether its pages move. For the
// current device.
bool is_known(const void* memory);
bool is_managed(const void* memory);

}  // namespace kvc::gpu
