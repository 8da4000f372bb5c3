// SPDX-License-Identifier: Apache-2.0
// Compaction, and pools that grow and shrink: contents of a pool's highest blocks go to its lowest free ones,
// and lists and prefix positions follow. It takes no memory, so that it cannot fail halfway. Under the
// manager's lock.
#pragma once
#include "manager/cached_blocks.h"

namespace kvc {

class Compactor {
 public:
  Compactor(BlockState& state, CachedBlocks& cached) : s_(state), cached_(cached) {}

  // Moves up to `capacity` contents from a pool's highest blocks to its lowest free ones. Until
  // end_compaction(), pool().moved_to() says where a table entry that names a free block has gone.
  size_t compact(PoolIndex pool, kvc_block_copy* moves, size_t capacity);
  void end_compaction(PoolIndex pool) { s_.pool.sort_free(pool); }
  // A pool gets `size` blocks, more than now, or fewer: check_shrink(), shrink(), which moves all contents of
  // blocks that leave, and end_shrink() once tables have followed, as after compact().
  void grow(PoolIndex pool, uint64_t size) { s_.pool.resize(pool, size); }
  // With BUFFER_TOO_SMALL *most_moves is a capacity that is enough.
  kvc_status check_shrink(PoolIndex pool, uint64_t size, size_t capacity, size_t* most_moves) const;
  size_t shrink(PoolIndex pool, uint64_t size, kvc_block_copy* moves);
  void end_shrink(PoolIndex pool, uint64_t size) {
    s_.pool.resize(pool, size);
    s_.pool.sort_free(pool);
  }
  // Entries that name a block of the pool that is free name where its content has gone.
  void follow_moves(PoolIndex pool, BlockId* entries, size_t count) const {
    for (size_t i = 0; i < count; ++i) {
      if (is_block(entries[i]) && s_.pool[entries[i]].pool == pool && s_.pool[entries[i]].list == List::kFree)
        entries[i] = s_.pool.moved_to(entries[i]);
    }
  }

 private:
  template <typename Movable>
  size_t move_down(PoolIndex pool, uint64_t begin, Movable&& movable, kvc_block_copy* moves, size_t capacity);

  BlockState& s_;
  CachedBlocks& cached_;
};

}  // namespace kvc
