// SPDX-License-Identifier: Apache-2.0
#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace kvc {
namespace {

size_t round_up(size_t size, size_t alignment) { return (size + alignment - 1) & ~(alignment - 1); }

}  // namespace

void* allocate_pages(size_t size, size_t alignment) {
  const size_t rounded = round_up(size, alignment);
  return rounded < size ? nullptr : std::aligned_alloc(alignment, rounded);
}

void* map_pages(size_t size, size_t alignment) {
  const size_t rounded = round_up(size, kHugePage), spanned = rounded + alignment;
  if (rounded < size || spanned < rounded) return nullptr;
  void* mapped = mmap(nullptr, spanned, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const size_t before =
      round_up(reinterpret_cast<size_t>(begin), alignment) - reinterpret_cast<size_t>(begin);
  if (before != 0) munmap(begin, before);
  munmap(begin + before + rounded, alignment - before);
  return begin + before;
}

void unmap_pages(void* memory, size_t size) { munmap(memory, round_up(size, kHugePage)); }

bool ask_for_huge_pages(void* memory, size_t size) {
  return madvise(memory, round_up(size, kHugePage), MADV_HUGEPAGE) == 0;
}

void touch_pages(void* memory, size_t size) {
  constexpr size_t kSmallestPage = 4096;
  auto* const bytes = static_cast<volatile char*>(memory);
  for (size_t i = 0; i < size; i += kSmallestPage) bytes[i] = 0;
}

size_t discard_pages(void* memory, size_t size) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<size_t>(memory);
  const size_t begin = round_up(at, page), end = (at + size) / page * page;
  if (begin >= end || madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) != 0) return 0;
  return end - begin;
}

}  // namespace kvc
