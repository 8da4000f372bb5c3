// SPDX-License-Identifier: Apache-2.0
// A caller's struct made of the input: any struct_size and any content, in memory of exactly the size that it
// claims, with pointers that are NULL or lead to an array.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace kvc_fuzz {

constexpr size_t kArray = 1 << 18;  // bytes of every array
alignas(64) inline unsigned char array_[kArray];

// The caller's struct: `size` bytes that begin with struct_size, not one more.
class Claimed {
 public:
  Claimed(const uint8_t* data, size_t size) {
    uint64_t claimed = 0;
    std::memcpy(&claimed, data, std::min<size_t>(size, 2));  // two bytes reach past 4096
    if (size > 2 && data[2] >= 250) claimed = ~uint64_t{0} >> (data[2] - 250);
    size_ = std::clamp<size_t>(claimed, 8, 4096);
    bytes_.reset(static_cast<unsigned char*>(std::aligned_alloc(16, (size_ + 15) / 16 * 16)));
    unsigned char* const end = bytes_.get() + (size_ + 15) / 16 * 16;
    std::memset(bytes_.get(), 0, static_cast<size_t>(end - bytes_.get()));
    if (size > 3) std::memcpy(bytes_.get(), data + 3, std::min(size - 3, size_));
    std::memcpy(bytes_.get(), &claimed, 8);
  }
  // Field of a struct that lies inside of what is claimed; null if it does not.
  template <typename S, typename T>
  T* field(T S::*member) {
    S* const typed = static_cast<S*>(static_cast<void*>(bytes_.get()));
    T* const found = &(typed->*member);
    const auto end = static_cast<size_t>(reinterpret_cast<unsigned char*>(found + 1) - bytes_.get());
    return end <= size_ ? found : nullptr;
  }
  // An array, or NULL.
  template <typename S, typename T>
  void point(T* S::*member, const void* array = array_) {
    T** const pointer = field(member);
    if (pointer == nullptr) return;
    uintptr_t bits;
    std::memcpy(&bits, pointer, sizeof bits);
    const void* const target = bits % 4 == 3 ? nullptr : array;
    std::memcpy(pointer, &target, sizeof target);
  }
  template <typename S, typename T>
  void cut(T S::*member, uint64_t most) {
    if (T* const number = field(member); number != nullptr) *number = static_cast<T>(*number % (most + 1));
  }
  template <typename S, typename T>
  void set(T S::*member, T value) {
    if (T* const found = field(member); found != nullptr) *found = value;
  }
  template <typename S>
  S* as() {
    return static_cast<S*>(static_cast<void*>(bytes_.get()));
  }

 private:
  struct Free {
    void operator()(unsigned char* memory) const { std::free(memory); }
  };
  std::unique_ptr<unsigned char, Free> bytes_;
  size_t size_ = 0;
};

}  // namespace kvc_fuzz
