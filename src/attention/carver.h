// SPDX-License-Identifier: Apache-2.0
// Arrays of plain records carved out of one run of bytes, as the scratch memory of a worker is.
#pragma once
#include <cstddef>
#include <type_traits>

namespace kvc {

// Gives out arrays one after the other, each from the start of a cache line; without memory it only counts.
class Carver {
 public:
  static constexpr size_t kLine = 64;
  explicit Carver(char* memory) : memory_(memory) {}
  template <class T>
  void take(T** array, size_t count) {
    static_assert(std::is_trivially_default_constructible_v<T> && alignof(T) <= kLine);
    if (memory_ != nullptr) *array = reinterpret_cast<T*>(memory_ + used_);
    used_ += (count * sizeof(T) + kLine - 1) / kLine * kLine;
  }
  size_t used() const { return used_; }

 private:
  char* memory_;
  size_t used_ = 0;
};

}  // namespace kvc
