// SPDX-License-Identifier: Apache-2.0
// Rows that are given by addresses, not by the offsets of a tile.
#pragma once
#include "attention/kernels.h"

namespace kvc {

inline uint64_t address(const void* at) { return reinterpret_cast<uintptr_t>(at); }
inline const void* pointer(uint64_t address) { return reinterpret_cast<const void*>(address); }

inline Rows rows_at(const uint64_t* at, const uint64_t* scale_at, uint32_t per_scale) {
  return {0, at, 0, scale_at, false, per_scale};
}

}  // namespace kvc
