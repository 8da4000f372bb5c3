// SPDX-License-Identifier: Apache-2.0
#include "pool/block_pool.h"

namespace kvc {

bool BlockPool::create(Memory& memory, const uint64_t* pool_sizes, size_t num_pools, bool null_block,
                       const Policy& policy, double weight) {
  num_pools_ = num_pools;
  num_shelves_ = policy.num_shelves(weight);
  num_ids_ = 0;
  for (size_t p = 0; p < num_pools; ++p) num_ids_ += pool_sizes[p];
  first_id_ = null_block ? 1 : 0;
  if (!blocks_.create(memory, num_ids_ + num_pools * (1 + num_shelves_))) return false;
  if (has_shelves() && !came_.create(memory, num_ids_)) return false;

  uint64_t first = 0;
  for (size_t p = 0; p < num_pools; ++p) {
    const auto begin_list = [&](size_t index) {
      const BlockId self{static_cast<int32_t>(index)};
      blocks_[index].prev = blocks_[index].next = self;
    };
    for (size_t shelf = 0; shelf < num_shelves_; ++shelf) begin_list(shelf_sentinel(p, shelf));
    begin_list(sentinel(p, 1));
    const uint64_t end = first + pool_sizes[p];
    if (p == 0 && null_block) blocks_[first++].node = kNoNode;
    pools_[p].counts = {};
    pools_[p].counts.first = first;
    pools_[p].counts.size = end - first;
    pools_[p].free_top = kNoBlock;
    pools_[p].clock = 0;
    for (uint32_t shelf = 0; shelf < num_shelves_; ++shelf)
      pools_[p].bonus[shelf] = policy.bonus(shelf, weight, end - first);
    for (BlockId& recent : pools_[p].recent) recent = BlockId{static_cast<int32_t>(first)};
    for (uint64_t i = end; i-- > first;) {  // so that the lowest id is on top
      const BlockId id{static_cast<int32_t>(i)};
      Block& block = (*this)[id];
      block.prev = kNoBlock;
      block.node = kNoNode;
      block.next_copy = id;
      block.group = UINT8_MAX;
      block.pool = static_cast<uint8_t>(p);
      push_free(id);
    }
    first = end;
  }
  return true;
}

void BlockPool::push_shelf(BlockId id, uint32_t shelf) {
  Block& block = (*this)[id];
  Pool& pool = pools_[block.pool];
  link_last(id, block, shelf_sentinel(block.pool, shelf));
  block.list = List::kLru;
  came_[static_cast<size_t>(raw(id))] = pool.clock++;
  ++pool.counts.lru;
}

void BlockPool::reshelve(BlockId id, uint32_t shelf) {
  Block& block = (*this)[id];
  unlink(block);
  link_last(id, block, shelf_sentinel(block.pool, shelf));
}

BlockId BlockPool::victim(size_t of_pool) const {
  if (!has_shelves()) return lru_head(of_pool);
  const Pool& pool = pools_[of_pool];
  BlockId best = kNoBlock;
  uint64_t least = UINT64_MAX;
  for (size_t shelf = 0; shelf < num_shelves_; ++shelf) {
    const BlockId head = lru_head(of_pool, shelf);
    if (at_end(head)) continue;
    const uint64_t score = came_[static_cast<size_t>(raw(head))] + pool.bonus[shelf];
    if (score < least) least = score, best = head;
  }
  return best;
}

void BlockPool::take(BlockId id, uint8_t group) {
  Block& block = (*this)[id];
  remove(id);
  become_held(block, group);
  ++pools_[block.pool].counts.reserved;
}

void BlockPool::sort_free(size_t pool) {
  Pool& p = pools_[pool];
  p.free_top = kNoBlock;
  for (uint64_t i = p.counts.first + p.counts.size; i-- > p.counts.first;) {
    if (blocks_[i].list != List::kFree) continue;
    blocks_[i].next = p.free_top;
    p.free_top = BlockId{static_cast<int32_t>(i)};
  }
}

}  // namespace kvc
