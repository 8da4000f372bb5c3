// SPDX-License-Identifier: Apache-2.0
// The sizes that workspace comes in, so that pieces fit later calls.
#pragma once
#include <bit>
#include <cstdint>

namespace kvc::gpu {

inline constexpr uint64_t kLeastWorkspace = 4096;

// Four classes per power of two: at most a fifth is lost.
constexpr uint64_t size_class(uint64_t bytes) {
  if (bytes <= kLeastWorkspace) return kLeastWorkspace;
  const uint64_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

}  // namespace kvc::gpu
