// SPDX-License-Identifier: Apache-2.0
// Buffers of changing size (tables, tokens, hashes of requests) in power-of-two classes. A returned buffer
// waits in its class for the next taker, so that a steady state takes nothing from the heap. Chunks go back
// only with the arena. Not thread-safe.
#pragma once
#include "base/memory.h"

namespace kvc {

class Arena {
 public:
  explicit Arena(Memory& memory) : memory_(memory) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  // Bytes that a buffer of at least `size` bytes really has: what must be given to release().
  static size_t rounded(size_t size) { return size <= kSmallest ? kSmallest : next_power_of_two(size); }

  // Takes a chunk up front so that the first `size` bytes of buffers cost nothing later.
  [[nodiscard]] bool reserve(size_t size) { return add_chunk(size); }
  [[nodiscard]] void* allocate(size_t rounded_size);
  void release(void* buffer, size_t rounded_size);

 private:
  static constexpr size_t kSmallest = 64;
  static constexpr size_t kChunk = size_t{64} << 10;
  static constexpr int kClasses = 40;
  struct Free {
    Free* next;
  };
  struct Chunk {  // at the start of each chunk
    Chunk* next;
    size_t size;
  };
  static int class_of(size_t rounded_size) { return __builtin_ctzll(rounded_size); }
  bool add_chunk(size_t payload);

  Memory& memory_;
  Chunk* chunks_ = nullptr;
  char* bump_ = nullptr;  // unused part of the newest chunk
  char* end_ = nullptr;
  Free* free_[kClasses] = {};
};

// A growable array of plain values in an arena. Owned by a record that returns it explicitly.
template <typename T>
struct Buffer {
  T* data;
  uint32_t capacity;  // elements

  static bool fits(size_t count) { return count <= UINT32_MAX / 2; }
  // Makes room for `count` elements, keeping the first `used`; on false nothing has changed.
  [[nodiscard]] bool reserve(Arena& arena, size_t count, size_t used) {
    if (count <= capacity) return true;
    const size_t size = Arena::rounded(count * sizeof(T));
    void* memory = arena.allocate(size);
    if (memory == nullptr) return false;
    if (used != 0) std::memcpy(memory, data, used * sizeof(T));
    clear(arena);
    data = static_cast<T*>(memory);
    capacity = static_cast<uint32_t>(size / sizeof(T));
    return true;
  }
  void clear(Arena& arena) {
    if (data != nullptr) arena.release(data, Arena::rounded(capacity * sizeof(T)));
    data = nullptr;
    capacity = 0;
  }
};

}  // namespace kvc
