// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <sys/random.h>
#include <time.h>

#include <cstdlib>

#include "base/pages.h"

namespace kvc {
namespace {

void* allocate_aligned(void*, size_t size, size_t alignment) {
  if (!wants_huge_pages(size)) return allocate_pages(size, alignment);
  void* memory = map_pages(size, alignment < kHugePage ? kHugePage : alignment);
  if (memory != nullptr) ask_for_huge_pages(memory, size);  // without them it is only slower
  return memory;
}

void release_aligned(void*, void* memory, size_t size, size_t) {
  if (wants_huge_pages(size)) {
    unmap_pages(memory, size);
  } else {
    std::free(memory);
  }
}

uint64_t wall_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

bool random_bytes(void* out, size_t size) { return getrandom(out, size, 0) == static_cast<ssize_t>(size); }

}  // namespace

bool Env::gives_zeroes(size_t size) const {
  return !touches && allocate == allocate_aligned && wants_huge_pages(size);
}

Env default_env() {
  Env env;
  env.allocate = allocate_aligned;
  env.release = release_aligned;
  env.wall_clock_ns = wall_clock_ns;
  env.random_bytes = random_bytes;
  return env;
}

}  // namespace kvc
