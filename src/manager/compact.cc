// SPDX-License-Identifier: Apache-2.0
// Compaction, and pools that shrink: contents of a pool's highest blocks go to its lowest free ones, and
// lists and prefix positions follow. It takes no memory, so that it cannot fail halfway.
#include "manager/blocks.h"

namespace kvc {
namespace {

BlockId block_at(uint64_t index) { return BlockId{static_cast<int32_t>(index)}; }

}  // namespace

// Moves blocks from `begin` on down, the highest first, to the lowest free ones.
template <typename Movable>
size_t Blocks::move_down(uint32_t pool, uint64_t begin, Movable&& movable, kvc_block_copy* moves,
                         size_t capacity) {
  uint64_t low = pool_.counts(pool).first, high = pool_.first_unopened(pool);  // outside [low, high): done
  size_t num_moves = 0;
  while (num_moves < capacity) {
    while (low < high && pool_[block_at(low)].list != List::kFree) ++low;
    while (begin < high && low < high && !movable(pool_[block_at(high - 1)])) --high;
    if (low >= high || begin >= high) break;
    const BlockId from = block_at(--high), to = block_at(low++);
    if (is_node(pool_[from].node)) tree_.move(from, to);
    pool_.move(from, to);
    if (zeroing_.on()) zeroing_.set_owner(to, zeroing_.owner(from));
    if (quotas_.on()) quotas_.move(from, to);
    moves[num_moves++] = {raw(from), raw(to)};
  }
  return num_moves;
}

size_t Blocks::compact(uint32_t pool, kvc_block_copy* moves, size_t capacity) {
  free_stale(pool);
  const auto movable = [](const Block& block) {
    return block.list == List::kLru || (block.refs != 0 && block.external == 0 && block.pins == 0);
  };
  return move_down(pool, 0, movable, moves, capacity);
}

kvc_status Blocks::check_shrink(uint32_t pool, uint64_t size, size_t capacity, size_t* most_moves) const {
  const PoolCounts& counts = pool_.counts(pool);
  const uint64_t null_blocks = shape_.null_blocks(pool);
  const uint64_t promised = quotas_.on() ? quotas_.lacking(pool) : 0;
  if (counts.held() + promised > size) {
    return fail(KVC_ERROR_NO_SPACE,
                "num_blocks is %llu; %llu blocks of pool %u are held and %llu promised to quotas: give at "
                "least %llu, or free or preempt requests, end pins and holds, or lower minimums",
                ull(size) + null_blocks, ull(counts.held()), pool, ull(promised),
                ull(counts.held()) + promised + null_blocks);
  }
  size_t moving = 0;
  for (uint64_t i = counts.first + size; i < pool_.first_unopened(pool); ++i) {
    const Block& block = pool_[block_at(i)];
    if (block.external != 0) {
      return fail(KVC_ERROR_BUSY,
                  "block %llu has %u external holds and cannot move; release it first, or give at least %llu "
                  "blocks",
                  ull(i), block.external, ull(i) + 1 - counts.first + null_blocks);
    }
    moving += block.held() || (block.list == List::kLru && !tree_.stale(tree_[block.node]));
  }
  if (moving <= capacity) return KVC_OK;
  *most_moves = moving;
  return fail(KVC_ERROR_BUFFER_TOO_SMALL, "up to %zu blocks move; moves has room for %zu", moving, capacity);
}

// What remains is never more than what quotas promise: while something must leave, a class that has more than
// its minimum has cached blocks.
size_t Blocks::shrink(uint32_t pool, uint64_t size, kvc_block_copy* moves) {
  free_stale(pool);
  const PoolCounts& counts = pool_.counts(pool);
  while (counts.held() + counts.lru > size)
    free_evicted(pool_.victim(pool, quotas_.on() ? quotas_.above(pool) : BlockPool::kAllClasses));
  const auto movable = [](const Block& block) { return block.list != List::kFree; };
  return move_down(pool, counts.first + size, movable, moves, counts.size - size);
}

void Blocks::end_shrink(uint32_t pool, uint64_t size) {
  pool_.resize(pool, size);
  pool_.sort_free(pool);
}

void Blocks::follow_moves(uint32_t pool, BlockId* entries, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    if (is_block(entries[i]) && pool_[entries[i]].pool == pool && pool_[entries[i]].list == List::kFree)
      entries[i] = pool_.moved_to(entries[i]);
  }
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
