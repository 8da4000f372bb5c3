// SPDX-License-Identifier: Apache-2.0
#include "pool/block_pool.h"

#include <algorithm>

namespace kvc {
namespace {

Block fresh(uint64_t id, size_t pool) {
  Block block = {};
  block.prev = block.next = kNoBlock;
  block.node = kNoNode;
  block.next_copy = BlockId{static_cast<int32_t>(id)};
  block.list = List::kFree;
  block.group = UINT8_MAX;
  block.pool = static_cast<uint8_t>(pool);
  return block;
}

}  // namespace

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
    pools_[p].counts.size = pools_[p].counts.free = end - first;
    pools_[p].clock = 0;
    for (uint32_t shelf = 0; shelf < num_shelves_; ++shelf)
      pools_[p].bonus[shelf] = policy.bonus(shelf, weight, end - first);
    for (BlockId& recent : pools_[p].recent) recent = BlockId{static_cast<int32_t>(first)};
    unopened_[p] = end - first;
    open(p);
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

// Writes the records of the next blocks, while FREE has no others.
void BlockPool::open(size_t pool) {
  Pool& p = pools_[pool];
  const uint64_t begin = first_unopened(pool), count = std::min(unopened_[pool], kOpenedAtOnce);
  p.free_top = kNoBlock;
  for (uint64_t i = begin + count; i-- > begin;) {
    blocks_[i] = fresh(i, pool);
    blocks_[i].next = p.free_top;
    p.free_top = BlockId{static_cast<int32_t>(i)};
  }
  unopened_[pool] -= count;
}

Block BlockPool::read(BlockId id) const {
  const auto index = static_cast<uint64_t>(raw(id));
  size_t pool = 0;
  while (index >= end(pools_[pool])) ++pool;
  return index < first_unopened(pool) ? (*this)[id] : fresh(index, pool);
}

void BlockPool::sort_free(size_t pool) {
  Pool& p = pools_[pool];
  p.free_top = kNoBlock;
  for (uint64_t i = first_unopened(pool); i-- > p.counts.first;) {
    if (blocks_[i].list != List::kFree) continue;
    blocks_[i].next = p.free_top;
    p.free_top = BlockId{static_cast<int32_t>(i)};
  }
}

}  // namespace kvc
