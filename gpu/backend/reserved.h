// SPDX-License-Identifier: Apache-2.0
// Reserved addresses of a device. Memory is mapped to a part of them and grows chunk by chunk. Any thread.
#pragma once
#include "backend/backend.h"

namespace kvc::gpu {

inline constexpr uint64_t kLeastChunk = uint64_t{64} << 20;

kvc_status reserve_memory(uint32_t device, uint64_t bytes, kvc_backend_memory* memory);
// Maps all that is missing, or nothing.
kvc_status map_memory(uint32_t device, const kvc_backend_memory* memory, uint64_t offset, uint64_t bytes);
// Whether the address is reserved. The runtime does not know reserved addresses without memory.
bool is_reserved(const void* memory);

}  // namespace kvc::gpu
