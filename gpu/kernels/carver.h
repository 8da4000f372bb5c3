// SPDX-License-Identifier: Apache-2.0
// Arrays of plain elements carved out of a workspace, each aligned to 16.
#pragma once
#include <cstdint>

namespace kvc::gpu {

// Gives out arrays one after the other; without memory it only counts.
class Carver {
 public:
  explicit Carver(void* memory) : memory_(static_cast<char*>(memory)) {}
  template <typename T>
  void take(T** array, uint64_t count) {
    *array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += (count * sizeof(T) + 15) / 16 * 16;
  }
  uint64_t used() const { return used_; }

 private:
  char* memory_;
  uint64_t used_ = 0;
};

}  // namespace kvc::gpu
