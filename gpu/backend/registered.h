// SPDX-License-Identifier: Apache-2.0
// Host memory that the runtime knows because it was registered: piece by piece, by several threads. No copy
// of the runtime's may go across the end of a piece. Any thread.
#pragma once
#include "backend/error.h"

namespace kvc::gpu {

// All of it or nothing; no part of it may be registered already. `fresh`: its pages are nobody's yet, and are
// touched first, which takes longest. kvc_device_unregister gives back only what is not `fresh`.
kvc_status register_pieces(uint32_t device, void* memory, uint64_t bytes, bool fresh);
kvc_status unregister_pieces(uint32_t device, void* memory, bool fresh);

// The piece that an address lies in; of memory that was not registered here, everything.
struct MemoryPiece {
  uintptr_t begin = 0, end = UINTPTR_MAX;

  bool contains(const void* memory) const {
    return reinterpret_cast<uintptr_t>(memory) >= begin && reinterpret_cast<uintptr_t>(memory) < end;
  }
};
MemoryPiece piece_of(const void* memory);

}  // namespace kvc::gpu
