// SPDX-License-Identifier: Apache-2.0
// C functions that move whole blocks between a storage and pages of the host. They check every block, page
// and address before they copy anything.
#include <algorithm>
#include <functional>
#include <vector>

#include "api/storage_handle.h"

using namespace kvc;

namespace {

constexpr uint64_t kPageAlignment = 16;  // of the vectors that kernels copy

// Checks the pages, fills in the default of page_bytes, and counts the pages.
kvc_status check_pages(const kvc_storage& storage, kvc_backend_swap* swap, uint64_t* num_pages) {
  const uint64_t block_bytes = storage.layout.block_bytes;
  if (swap->page_bytes == 0) swap->page_bytes = block_bytes;
  if (swap->page_bytes < block_bytes || swap->page_bytes % kPageAlignment != 0) {
    return invalid("page_bytes is %llu; at least the %llu bytes of a block, and a multiple of %llu",
                   ull{swap->page_bytes}, ull{block_bytes}, ull{kPageAlignment});
  }
  const void* const pages = swap->pages;
  const uint64_t pages_size = swap->pages_size;
  KVC_REQUIRE_MEMORY(pages, pages_size);
  const auto first = reinterpret_cast<uintptr_t>(pages);
  const auto slab = reinterpret_cast<uintptr_t>(storage.info.data);
  if (first % kPageAlignment != 0) return invalid("pages is not aligned to %llu bytes", ull{kPageAlignment});
  if (first < slab + storage.layout.slab_bytes && slab < first + pages_size)
    return invalid("pages overlaps the storage's slab; use kvc_storage_copy_blocks");
  *num_pages = pages_size < block_bytes ? 0 : (pages_size - block_bytes) / swap->page_bytes + 1;
  return KVC_OK;
}

kvc_status check_page(size_t entry, int32_t page, uint64_t num_pages) {
  if (page >= 0 && static_cast<uint64_t>(page) < num_pages) return KVC_OK;
  return invalid("entry %zu: no page %d; there is room for %llu", entry, page, ull{num_pages});
}

// Destinations must be unique: otherwise the result would depend on the order.
kvc_status check_destinations(const kvc_backend_swap& swap) {
  const auto rises = [](const kvc_block_copy& a, const kvc_block_copy& b) {
    return a.destination < b.destination;
  };
  const kvc_block_copy* const end = swap.copies + swap.num_copies;
  const auto none_twice = std::adjacent_find(swap.copies, end, std::not_fn(rises)) == end;
  if (none_twice) return KVC_OK;  // the usual order needs no memory
  std::vector<int32_t> places(swap.num_copies);
  std::transform(swap.copies, end, places.begin(), [](const kvc_block_copy& c) { return c.destination; });
  std::sort(places.begin(), places.end());
  const auto twice = std::adjacent_find(places.begin(), places.end());
  if (twice == places.end()) return KVC_OK;
  return invalid("%s %d is a destination twice", swap.out != 0 ? "page" : "block", *twice);
}

kvc_status swap_blocks(kvc_storage* s, kvc_backend_swap swap, kvc_stream* stream) {
  return on_storage(s, stream, [&](kvc_storage& storage) -> kvc_status {
    const kvc_block_copy* const copies = swap.copies;
    const size_t num_copies = swap.num_copies;
    const void* const pages = swap.pages;
    const bool out = swap.out != 0;
    uint64_t num_pages = 0;
    KVC_REQUIRE_MEMORY(copies, num_copies);
    KVC_REQUIRE_ARRAY(pages, num_copies);
    KVC_TRY(check_pages(storage, &swap, &num_pages));
    for (size_t i = 0; i < num_copies; ++i) {
      const auto [source, destination] = copies[i];
      KVC_TRY(check_block(storage.layout, i, out ? source : destination));
      KVC_TRY(check_page(i, out ? destination : source, num_pages));
    }
    KVC_TRY(check_destinations(swap));
    if (storage.backend->swap_blocks == nullptr)
      return fail(KVC_ERROR_UNSUPPORTED, "%s does not swap blocks", storage.backend->name);
    return storage.backend->swap_blocks(storage.impl, &swap, impl_of(stream));
  });
}

}  // namespace

extern "C" {

kvc_status kvc_storage_swap_out(kvc_storage* s, const kvc_block_copy* copies, size_t num_copies, void* pages,
                                size_t pages_size, uint64_t page_bytes, kvc_stream* stream) {
  return swap_blocks(s, {copies, num_copies, static_cast<char*>(pages), pages_size, page_bytes, 1, 0},
                     stream);
}

kvc_status kvc_storage_swap_in(kvc_storage* s, const kvc_block_copy* copies, size_t num_copies,
                               const void* pages, size_t pages_size, uint64_t page_bytes,
                               kvc_stream* stream) {
  char* const read = static_cast<char*>(const_cast<void*>(pages));
  return swap_blocks(s, {copies, num_copies, read, pages_size, page_bytes, 0, 0}, stream);
}

}  // extern "C"
