// SPDX-License-Identifier: Apache-2.0
// Host memory that is registered with the runtime, piece by piece and by several threads. A copy of the
// runtime must not cross the end of a piece. Any thread.
#pragma once
#include "backend/error.h"

namespace kvc::gpu {

// All of it or nothing; no part of it may be registered already. `fresh`: the pages are new and must be
// touched first, which takes longest. kvc_device_unregister releases only memory that is not `fresh`.
kvc_status register_pieces(uint32_t device, void* memory, uint64_t bytes, bool fresh);
kvc_status unregister_pieces(uint32_t device, void* memory, bool fresh);

// The piece that holds an address. Memory that was not registered here is one piece.
struct MemoryPiece {
  uintptr_t begin = 0, end = UINTPTR_MAX;

  bool contains(const void* memory) const {
    return reinterpret_cast<uintptr_t>(memory) >= begin && reinterpret_cast<uintptr_t>(memory) < end;
  }
};
MemoryPiece piece_of(const void* memory);

}  // namespace kvc::gpu
