// SPDX-License-Identifier: Apache-2.0
// Everything a manager takes from the outside world, in one table that tests replace: memory, wall clock,
// randomness, failpoints, and what tests make small: a mask over the table hash, so that collisions are
// frequent. Passed by value at creation; functions may be called from any thread that calls the manager.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvc {

struct Env {
  void* allocator_data = nullptr;
  void* (*allocate)(void* data, size_t size, size_t alignment) = nullptr;
  void (*release)(void* data, void* memory, size_t size, size_t alignment) = nullptr;
  uint64_t (*wall_clock_ns)() = nullptr;
  bool (*random_bytes)(void* out, size_t size) = nullptr;
  bool (*failpoint)(const char* name) = nullptr;  // true = fail here; null in production
  uint64_t table_hash_mask = ~uint64_t{0};
  uint32_t near_tokens = 512;  // of Shape, which tests make small
  bool touches = false;        // all memory is taken from the system when it is allocated

  bool fails(const char* name) const { return failpoint != nullptr && failpoint(name); }
  // Whether allocate() gives this many bytes as zeroes.
  bool gives_zeroes(size_t size) const;
};

// The real world: aligned heap memory, fresh huge pages where they pay; CLOCK_REALTIME, getrandom.
Env default_env();

}  // namespace kvc
