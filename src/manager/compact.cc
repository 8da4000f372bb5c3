// SPDX-License-Identifier: Apache-2.0
// Compaction: contents of a pool's highest blocks go to its lowest free ones, and lists and prefix positions
// follow. It takes no memory, so that it cannot fail halfway.
#include "manager/blocks.h"

namespace kvc {

size_t Blocks::compact(uint32_t pool, kvc_block_copy* moves, size_t capacity) {
  free_stale(pool);
  const PoolCounts& counts = pool_.counts(pool);
  const auto id_of = [](uint64_t index) { return BlockId{static_cast<int32_t>(index)}; };
  const auto movable = [&](const Block& block) {
    return block.list == List::kLru || (block.refs != 0 && block.external == 0 && block.pins == 0);
  };
  uint64_t low = counts.first, high = pool_.first_unopened(pool);  // blocks outside [low, high) are done
  size_t num_moves = 0;
  while (num_moves < capacity) {
    while (low < high && pool_[id_of(low)].list != List::kFree) ++low;
    while (low < high && !movable(pool_[id_of(high - 1)])) --high;
    if (low >= high) break;
    const BlockId from = id_of(--high), to = id_of(low++);
    if (is_node(pool_[from].node)) tree_.move(from, to);
    pool_.move(from, to);
    if (zeroing_.on()) zeroing_.set_owner(to, zeroing_.owner(from));
    if (quotas_.on()) quotas_.move(from, to);
    moves[num_moves++] = {raw(from), raw(to)};
  }
  return num_moves;
}

// What a reset left in LRU is not worth moving.
void Blocks::free_stale(uint32_t pool) {
  for (uint32_t list = 0; list < pool_.num_lists(); ++list) {
    for (BlockId id = pool_.lru_head(pool, list); !pool_.at_end(id) && pool_.counts(pool).stale != 0;) {
      const BlockId next = pool_[id].next;
      if (tree_.stale(tree_[pool_[id].node])) free_evicted(id);
      id = next;
    }
  }
}

}  // namespace kvc
