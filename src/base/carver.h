// SPDX-License-Identifier: Apache-2.0
// Arrays of plain elements in one piece of memory, each aligned to kAlignment.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kvc {

// Gives out arrays one after the other. Without memory it only counts bytes.
template <size_t kAlignment>
class Carver {
 public:
  explicit Carver(void* memory) : memory_(static_cast<char*>(memory)) {}
  template <class T>
  void take(T** array, uint64_t count) {
    static_assert(std::is_trivially_default_constructible_v<T> && alignof(T) <= kAlignment);
    *array = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }
  uint64_t used() const { return used_; }

 private:
  char* memory_;
  uint64_t used_ = 0;
};

}  // namespace kvc
