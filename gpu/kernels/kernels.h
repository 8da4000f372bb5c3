// SPDX-License-Identifier: Apache-2.0
// Kernels that move keys, values and indices: what a device implementation calls. Results equal those of the
// CPU (storage/storage.h) bit by bit. Every function enqueues on `stream` and returns 0 or the runtime's
// error code; none synchronizes, allocates or keeps an argument, so all may be captured in a graph. Arguments
// are valid and complete; every array is in memory that the device reads, and stays until the work is done.
#pragma once
#include "backend/operations.h"
#include "layout/layout.h"
#include "portable.h"

namespace kvc::gpu {

// Why the functions below cannot serve storages of this layout, in words; nullptr: they can.
const char* unsupported(const Layout& layout);

// ---- rows: store.cu, gather.cu ----

// kvc_storage_store, of whichever of rows.k and rows.v is not NULL.
int store_rows(const Layout& layout, void* slab, const kvc_backend_rows& rows, Stream stream);
// kvc_storage_gather, likewise; without rope_table.
int gather_rows(const Layout& layout, const void* slab, const kvc_backend_rows& rows, Stream stream);

// How rows of the caller, [layers][tokens][heads][elements], differ from others, float32 without gaps: from
// what gather_rows() made of the same call. Tokens that it skips are left out. `sums` [2: keys, values]
// [num_layers][kCompareParts] are added to.
struct ErrorSums {
  uint64_t elements, finite;  // all; those of the caller that are finite, of which the rest speaks
  double signal, noise, max_error;
};
inline constexpr uint32_t kCompareParts = 64;
int compare_rows(const Layout& layout, const kvc_backend_rows& rows, const float* k, const float* v,
                 ErrorSums* sums, Stream stream);

// kvc_storage_key_bounds: bounds.cu.
int find_key_bounds(const Layout& layout, const void* slab, uint32_t layer, const int32_t* blocks,
                    size_t num_blocks, uint16_t* bounds, Stream stream);

// ---- whole blocks: blocks.cu ----

// kvc_storage_copy_blocks, all at once: no block is a destination twice, or source and destination.
int copy_blocks(const Layout& layout, void* slab, const kvc_block_copy* copies, size_t num_copies,
                Stream stream);
int zero_blocks(const Layout& layout, void* slab, const int32_t* blocks, size_t num_blocks, Stream stream);

// Moves blocks between a slab and pages that hold one block each, its parts one after the other. Pages are
// memory that the device can address: another slab, or pinned memory of the host. swap.copies and swap.pages
// are the device's addresses. At most `max_blocks` blocks of threads work on it, so that other kernels keep
// the rest of the device; 0 = no limit. page_bytes and addresses are multiples of 16. swap_choice.h chooses
// between this and the copy engine.
int swap_blocks(const Layout& layout, void* slab, const kvc_backend_swap& swap, uint32_t max_blocks,
                Stream stream);

// ---- indices that kernels read: indices.cu ----

// Writes changed entries into tables at a fixed address: [group][row][row_stride], `group_stride` entries
// apart.
int apply_table_changes(int32_t* tables, uint64_t group_stride, uint64_t row_stride,
                        const kvc_table_change* changes, size_t num_changes, Stream stream);

// Slots of tokens: token t is position positions[t] of the request in row rows[t] of `table`; rows NULL: row
// 0. A negative position, or one past the row, or an entry below 0, gives -1.
int build_slots(const int32_t* table, uint64_t row_stride, const int32_t* rows, const int64_t* positions,
                size_t num_tokens, uint32_t block_size, int64_t* slots, Stream stream);

// The blocks of requests of `lengths` tokens without gaps: offsets [num_rows + 1], blocks
// [offsets[num_rows]], and the tokens in each one's last block, 1 .. block_size (0 for an empty request),
// NULL = not wanted.
int build_csr(const int32_t* table, uint64_t row_stride, const int32_t* lengths, uint32_t num_rows,
              uint32_t block_size, int32_t* offsets, int32_t* blocks, int32_t* last_block_tokens,
              Stream stream);
}  // namespace kvc::gpu
