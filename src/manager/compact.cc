// SPDX-License-Identifier: Apache-2.0
#include "manager/compact.h"

namespace kvc {
namespace {

BlockId block_at(uint64_t index) { return BlockId{static_cast<int32_t>(index)}; }

}  // namespace

// Moves blocks from `begin` on down, the highest first, to the lowest free ones.
template <typename Movable>
size_t Compactor::move_down(PoolIndex pool, uint64_t begin, Movable&& movable, kvc_block_copy* moves,
                            size_t capacity) {
  uint64_t low = s_.pool.counts(pool).first,
           high = s_.pool.first_unopened(pool);  // outside [low, high): done
  size_t num_moves = 0;
  while (num_moves < capacity) {
    while (low < high && s_.pool[block_at(low)].list != List::kFree) ++low;
    while (begin < high && low < high && !movable(s_.pool[block_at(high - 1)])) --high;
    if (low >= high || begin >= high) break;
    const BlockId from = block_at(--high), to = block_at(low++);
    if (is_node(s_.pool[from].node)) s_.tree.copies().move(from, to);
    s_.pool.move(from, to);
    s_.zeroing.move(from, to);
    s_.quotas.move(from, to);
    moves[num_moves++] = {raw(from), raw(to)};
  }
  return num_moves;
}

size_t Compactor::compact(PoolIndex pool, kvc_block_copy* moves, size_t capacity) {
  cached_.free_stale(pool);
  const auto movable = [](const Block& block) {
    return block.list == List::kLru || (block.refs != 0 && block.external == 0 && block.pins == 0);
  };
  return move_down(pool, 0, movable, moves, capacity);
}

kvc_status Compactor::check_shrink(PoolIndex pool, uint64_t size, size_t capacity, size_t* most_moves) const {
  const PoolCounts& counts = s_.pool.counts(pool);
  const uint64_t null_blocks = s_.shape.null_blocks(pool);
  const uint64_t promised = s_.quotas.lacking(pool);
  if (counts.held() + promised > size) {
    return fail(KVC_ERROR_NO_SPACE,
                "num_blocks is %llu; %llu blocks of pool %u are held and %llu promised to quotas: give at "
                "least %llu, or free or preempt requests, end pins and holds, or lower minimums",
                ull(size) + null_blocks, ull(counts.held()), raw(pool), ull(promised),
                ull(counts.held()) + promised + null_blocks);
  }
  size_t moving = 0;
  for (uint64_t i = counts.first + size; i < s_.pool.first_unopened(pool); ++i) {
    const Block& block = s_.pool[block_at(i)];
    if (block.external != 0) {
      return fail(KVC_ERROR_BUSY,
                  "block %llu has %u external holds and cannot move; release it first, or give at least %llu "
                  "blocks",
                  ull(i), block.external, ull(i) + 1 - counts.first + null_blocks);
    }
    moving += block.held() || (block.list == List::kLru && !s_.tree.stale(s_.tree[block.node]));
  }
  if (moving <= capacity) return KVC_OK;
  *most_moves = moving;
  return fail(KVC_ERROR_BUFFER_TOO_SMALL, "up to %zu blocks move; moves has room for %zu", moving, capacity);
}

// What remains is never more than what quotas promise: while something must leave, a class that has more than
// its minimum has cached blocks.
size_t Compactor::shrink(PoolIndex pool, uint64_t size, kvc_block_copy* moves) {
  cached_.free_stale(pool);
  const PoolCounts& counts = s_.pool.counts(pool);
  while (counts.held() + counts.lru > size) cached_.free_evicted(s_.pool.victim(pool, s_.quotas.above(pool)));
  const auto movable = [](const Block& block) { return block.list != List::kFree; };
  return move_down(pool, counts.first + size, movable, moves, counts.size - size);
}

}  // namespace kvc
