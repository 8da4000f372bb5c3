// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include <cstdlib>

namespace kvc {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Large arrays are aligned to huge pages and ask for them: random access to nodes is bound by TLB misses
// otherwise.
void* allocate_aligned(void*, size_t size, size_t alignment) {
  const bool huge = size >= kHugePage / 2;
  if (huge && alignment < kHugePage) alignment = kHugePage;
  const size_t rounded = (size + alignment - 1) & ~(alignment - 1);
  if (rounded < size) return nullptr;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory != nullptr && huge) madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}

void release_aligned(void*, void* memory, size_t, size_t) { std::free(memory); }

uint64_t wall_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

bool random_bytes(void* out, size_t size) { return getrandom(out, size, 0) == static_cast<ssize_t>(size); }

}  // namespace

Env default_env() {
  Env env;
  env.allocate = allocate_aligned;
  env.release = release_aligned;
  env.wall_clock_ns = wall_clock_ns;
  env.random_bytes = random_bytes;
  return env;
}

}  // namespace kvc
