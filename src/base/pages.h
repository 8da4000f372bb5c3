// SPDX-License-Identifier: Apache-2.0
// Memory straight from the system, in huge pages where that pays: random access to large arrays is bound by
// TLB misses otherwise. Thread-safe.
#pragma once
#include <cstddef>

namespace kvc {

inline constexpr size_t kHugePage = size_t{2} << 20;

inline bool wants_huge_pages(size_t size) { return size >= kHugePage / 2; }

// Rounded up to `alignment`, a power of two; for free(). nullptr: no memory.
void* allocate_pages(size_t size, size_t alignment);
// Fresh pages of the system, which are zero and take no memory until they are touched. `alignment` is a power
// of two, at least kHugePage. nullptr: no memory. unmap_pages() takes the same size.
void* map_pages(size_t size, size_t alignment);
void unmap_pages(void* memory, size_t size);
// For memory of map_pages(), or of allocate_pages(size, kHugePage) or aligned more. False, with errno: the
// system has none.
bool ask_for_huge_pages(void* memory, size_t size);

// Takes the pages of fresh memory from the system now: writes a zero into each.
void touch_pages(void* memory, size_t size);

// Gives the whole pages within a piece of allocate_pages() back, until they are touched again: they are zero
// then. Returns their bytes.
size_t discard_pages(void* memory, size_t size);

}  // namespace kvc
