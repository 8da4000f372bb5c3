// SPDX-License-Identifier: Apache-2.0
#include "kernels/upload.h"

namespace kvc::gpu {
namespace {

struct alignas(16) Vector {
  uint32_t words[4];
};
constexpr uint32_t kThreads = kPacketBytes / sizeof(Vector);

KVC_KERNEL(kThreads, 1) write_packet(const Packet packet, Vector* to, uint32_t count) {
  if (threadIdx.x < count) to[threadIdx.x] = reinterpret_cast<const Vector*>(packet.bytes)[threadIdx.x];
}

}  // namespace

int upload(const Packet& packet, void* to, uint32_t bytes, Stream stream) {
  const uint32_t count = static_cast<uint32_t>((bytes + sizeof(Vector) - 1) / sizeof(Vector));
  return launch(write_packet, {1, 1, 1}, kThreads, 0, stream, packet, static_cast<Vector*>(to), count);
}

}  // namespace kvc::gpu
