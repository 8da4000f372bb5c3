// SPDX-License-Identifier: Apache-2.0
#include "base/pages.h"

#include <sys/mman.h>

#include <cstdlib>

namespace kvc {
namespace {

size_t round_up(size_t size, size_t alignment) { return (size + alignment - 1) & ~(alignment - 1); }

}  // namespace

void* allocate_pages(size_t size, size_t alignment) {
  const size_t rounded = round_up(size, alignment);
  return rounded < size ? nullptr : std::aligned_alloc(alignment, rounded);
}

bool ask_for_huge_pages(void* memory, size_t size) {
  return madvise(memory, round_up(size, kHugePage), MADV_HUGEPAGE) == 0;
}

}  // namespace kvc
