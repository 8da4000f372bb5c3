// SPDX-License-Identifier: Apache-2.0
// Bytes of the host that travel inside a launch: they are read at the call, and a graph keeps them.
#pragma once
#include <cstdint>

#include "portable.h"

namespace kvc::gpu {

inline constexpr uint32_t kPacketBytes = 3072;
struct alignas(16) Packet {
  unsigned char bytes[kPacketBytes];
};

// Writes the packet's first `bytes` bytes to `to`, which is aligned to 16 and has room for the next multiple
// of 16.
int upload(const Packet& packet, void* to, uint32_t bytes, Stream stream);

}  // namespace kvc::gpu
