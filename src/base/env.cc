// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <sys/random.h>
#include <time.h>

#include <cstdlib>

#include "base/account.h"
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

void* allocate_counted(void* account, size_t size, size_t alignment) {
  auto& counted = *static_cast<Account*>(account);
  void* memory = counted.inner().allocate(counted.inner().allocator_data, size, alignment);
  if (memory != nullptr) counted.add(size);
  return memory;
}

void release_counted(void* account, void* memory, size_t size, size_t alignment) {
  auto& counted = *static_cast<Account*>(account);
  counted.subtract(size);
  counted.inner().release(counted.inner().allocator_data, memory, size, alignment);
}

uint64_t wall_clock_ns() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

bool random_bytes(void* out, size_t size) { return getrandom(out, size, 0) == static_cast<ssize_t>(size); }

}  // namespace

Env Account::env() {
  Env env = inner_;
  env.allocator_data = this;
  env.allocate = allocate_counted;
  env.release = release_counted;
  return env;
}

bool Env::gives_zeroes(size_t size) const {
  if (allocate == allocate_counted) {
    const Env& inner = static_cast<const Account*>(allocator_data)->inner();
    return inner.allocate == allocate_aligned && wants_huge_pages(size);
  }
  return allocate == allocate_aligned && wants_huge_pages(size);
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
