// SPDX-License-Identifier: Apache-2.0
// Host memory by kind, with its owner. Thread-safe.
#pragma once
#include <kvcache/device.h>

#include "backend/backend.h"

namespace kvc {

inline constexpr uint32_t kHostMemoryKinds = 1u << KVC_MEMORY_HOST | 1u << KVC_MEMORY_HOST_HUGE;

// `allocator` NULL: the system's; else only the kinds that leave the choice to it: default and host.
kvc_status allocate_host_memory(const kvc_backend_allocator* allocator, uint32_t kind, uint64_t bytes,
                                uint32_t alignment, kvc_backend_memory* memory);
void release_memory(const kvc_backend_memory& memory);

}  // namespace kvc
