// SPDX-License-Identifier: Apache-2.0
// The memory of one manager: every byte comes from the Env's allocator and is counted. Array is a fixed-size
// array of plain records from it. Not thread-safe: creation, or under the manager's lock.
#pragma once
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/checked.h"
#include "base/env.h"
#include "base/pages.h"

namespace kvc {

class Memory {
 public:
  explicit Memory(const Env& env) : env_(env) { touch_first(0); }
  // From now on so many bytes at the beginning of each piece are taken from the system at once, or all; the
  // others when they are first used, when a call waits for a page: a huge one takes 0.1 ms.
  void touch_first(size_t bytes) { touched_ = env_.touches ? SIZE_MAX : bytes; }
  // So many bytes at the beginning of each piece: records there may be written now, which costs no page.
  size_t touched_first() const { return touched_; }

  [[nodiscard]] void* allocate(size_t size, size_t alignment) {
    if (env_.fails("memory")) return nullptr;
    void* memory = env_.allocate(env_.allocator_data, size, alignment);
    if (memory == nullptr) return nullptr;
    bytes_ += size;
    if (touched_ != 0) touch_pages(memory, std::min(size, touched_));
    return memory;
  }
  void release(void* memory, size_t size, size_t alignment) {
    if (memory == nullptr) return;
    bytes_ -= size;
    env_.release(env_.allocator_data, memory, size, alignment);
  }
  uint64_t bytes() const { return bytes_; }
  bool gives_zeroes(size_t size) const { return env_.gives_zeroes(size); }

 private:
  Env env_;
  uint64_t bytes_ = 0;
  size_t touched_ = 0;  // of each piece
};

template <typename T>
class Array {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() {
    if (memory_ != nullptr) memory_->release(data_, size_ * sizeof(T), kAlignment);
  }

  // Takes `size` zeroed elements; false if there is no memory or the size overflows. A large array takes
  // fresh pages of the system: none is touched before its first use, but those of Memory::touch_first().
  [[nodiscard]] bool create(Memory& memory, size_t size) {
    size_t bytes;
    if (!checked_mul(size, sizeof(T), &bytes)) return false;
    void* data = memory.allocate(bytes, kAlignment);
    if (data == nullptr) return false;
    if (!memory.gives_zeroes(bytes)) std::memset(data, 0, bytes);
    memory_ = &memory;
    data_ = static_cast<T*>(data);
    size_ = size;
    return true;
  }
  // Grows to `size` elements, keeping the old ones; on false nothing has changed.
  [[nodiscard]] bool grow(Memory& memory, size_t size) {
    Array larger;
    if (!larger.create(memory, size)) return false;
    if (size_ != 0) std::memcpy(larger.data_, data_, size_ * sizeof(T));
    swap(larger);
    return true;
  }
  void swap(Array& other) {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kAlignment = 64;
  Memory* memory_ = nullptr;
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kvc
