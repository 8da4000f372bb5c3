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
  block.pool = static_cast<uint8_t>(pool) & 0x7f;
  return block;
}

}  // namespace

bool BlockPool::create(Memory& memory, const uint64_t* pool_sizes, size_t num_pools, bool null_block,
                       const Policy& policy, double weight, Division division, const uint64_t* rooms) {
  if (rooms == nullptr) rooms = pool_sizes;
  num_pools_ = num_pools;
  num_ids_ = 0;
  shelves_.set_policy(policy, weight, division);
  for (size_t p = 0; p < num_pools; ++p) num_ids_ += rooms[p];
  const size_t num_lists = shelves_.num_lists(), fills = num_ids_ + (1 + num_lists) * num_pools;
  if (!blocks_.create(memory, fills + num_pools * division.fills) ||
      !filling_.create(memory, blocks_.data(), pools_, num_pools, division.fills ? num_ids_ : 0, fills) ||
      (shelves_.on() && !shelves_.create(memory, blocks_.data(), pools_, num_pools, num_ids_))) {
    return false;
  }

  uint64_t first = 0;
  for (size_t p = 0; p < num_pools; ++p) {
    const auto begin_list = [&](size_t index) {
      const BlockId self{static_cast<int32_t>(index)};
      blocks_[index].prev = blocks_[index].next = self;
    };
    begin_list(sentinel(p, 0));
    begin_list(sentinel(p, 1));
    const uint64_t end = first + pool_sizes[p], end_of_room = first + rooms[p];
    if (p == 0 && null_block) blocks_[first++].node = kNoNode;
    pools_[p].counts = {};
    pools_[p].counts.first = first;
    pools_[p].counts.size = pools_[p].counts.free = end - first;
    pools_[p].counts.room = end_of_room - first;
    pools_[p].recent.count = 0;
    for (BlockId& block : pools_[p].recent.blocks) block = BlockId{static_cast<int32_t>(first)};
    if (shelves_.on()) shelves_.begin(p, BlockId{static_cast<int32_t>(first)});
    shelves_.resize(p, end - first);
    unopened_[p] = end - first;
    const uint64_t touched = memory.touched_first() / sizeof(Block);
    open(p, std::max(kOpenedAtOnce, touched - std::min(touched, first)));
    first = end_of_room;
  }
  return true;
}

void BlockPool::resize(size_t pool, uint64_t size) {
  PoolCounts& counts = pools_[pool].counts;
  const uint64_t opened = counts.size - unopened_[pool];
  unopened_[pool] = size > opened ? size - opened : 0;
  counts.free += size - counts.size;
  counts.size = size;
  shelves_.resize(pool, size);
}

bool BlockPool::put_back(BlockId id, BlockId before, Place place) {
  Block& block = (*this)[id];
  const bool shelved = shelves_.on();
  const BlockId end{static_cast<int32_t>(lru_sentinel(block.pool, shelved ? shelves_.list_of(place) : 0))};
  if (!is_block(before)) before = end;
  const BlockId after = (*this)[before].next;
  if (shelved) {
    if (!shelves_.fits_between(id, before, after)) return false;
    shelves_.mark(block.pool, place);
  }
  link_behind(blocks_.data(), id, block, before);
  block.list = List::kLru;
  block.fence = static_cast<uint32_t>(raw(id));  // nothing is known of what leaves next
  ++pools_[block.pool].counts.lru;
  return true;
}

bool BlockPool::put_back_fenced(BlockId id, BlockId before) {
  Block& block = (*this)[id];
  if (!is_block(before)) before = BlockId{static_cast<int32_t>(sentinel(block.pool, 1))};
  const BlockId after = (*this)[before].next;
  const auto fence = [&](BlockId other) { return uint64_t{(*this)[other].fence}; };
  if ((!at_end(before) && !fence_passed((*this)[before], fence(id))) ||
      (!at_end(after) && !fence_passed(block, fence(after))))
    return false;
  link_behind(blocks_.data(), id, block, before);
  block.list = List::kFenced;
  ++pools_[block.pool].counts.fenced;
  return true;
}

void BlockPool::take(BlockId id, uint8_t group) {
  Block& block = (*this)[id];
  remove(id);
  become_held(block, group);
  ++pools_[block.pool].counts.reserved;
}

// Writes the records of the next blocks, while FREE has no others.
void BlockPool::open(size_t pool, uint64_t at_most) {
  PoolState& p = pools_[pool];
  const uint64_t begin = first_unopened(pool), count = std::min(unopened_[pool], at_most);
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
  while (index >= pools_[pool].counts.first + pools_[pool].counts.room) ++pool;
  return index < first_unopened(pool) ? (*this)[id] : fresh(index, pool);
}

void BlockPool::sort_free(size_t pool) {
  PoolState& p = pools_[pool];
  p.free_top = kNoBlock;
  for (uint64_t i = first_unopened(pool); i-- > p.counts.first;) {
    if (blocks_[i].list != List::kFree) continue;
    blocks_[i].next = p.free_top;
    p.free_top = BlockId{static_cast<int32_t>(i)};
  }
}

}  // namespace kvc
