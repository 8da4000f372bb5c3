// SPDX-License-Identifier: Apache-2.0
// The copies of one position in one group form a ring: Block::next_copy leads forward, copy_before_ back.
// They stand in the order in which they were published, except that the one in LRU, if any, is the first or
// directly behind it. Everything is O(1), and no choice depends on the ids of blocks, which other namespaces
// decide.
#include "prefix/prefix_tree.h"

namespace kvc {

inline BlockId PrefixTree::copy_before(BlockId block) const {
  return pool_[block].next_copy == block ? block : copy_before_[static_cast<size_t>(raw(block))];
}

inline void PrefixTree::join(BlockId block, BlockId next) {
  pool_[block].next_copy = next;
  copy_before_[static_cast<size_t>(raw(next))] = block;
}

inline void PrefixTree::link_before(BlockId block, BlockId next) {
  join(copy_before(next), block);
  join(block, next);
}

inline void PrefixTree::unlink(BlockId block) {
  join(copy_before(block), pool_[block].next_copy);
  pool_[block].next_copy = block;
}

// Another block at a position that has one in this group.
void PrefixTree::attach_copy(NodeId id, size_t group, BlockId block) {
  pool_[block].node = id;
  ++quiet_arrivals_;
  ++counters_.published_blocks;
  ++counters_.duplicates;
  link_before(block, block_of(id, group));
}

void PrefixTree::detach_copy(BlockId block) {
  Block& record = pool_[block];
  const NodeId id = std::exchange(record.node, kNoNode);
  const BlockId next = record.next_copy;
  unlink(block);
  if (block_of(id, record.group) == block) set_block(id, record.group, next);
}

void PrefixTree::make_idle(BlockId block) {
  const BlockId first = block_of(pool_[block].node, pool_[block].group);
  if (block == first || pool_[first].next_copy == block) return;
  unlink(block);
  link_before(block, pool_[first].next_copy);
}

void PrefixTree::move(BlockId from, BlockId to) {
  const Block& block = pool_[from];
  ++quiet_arrivals_;
  if (block_of(block.node, block.group) == from) set_block(block.node, block.group, to);
  if (block.next_copy == from) return;
  const BlockId before = copy_before(from);
  join(to, block.next_copy);
  join(before, to);
}

BlockId PrefixTree::idle_copy(BlockId block) const {
  const BlockId first = block_of(pool_[block].node, pool_[block].group);
  for (const BlockId copy : {first, pool_[first].next_copy}) {
    if (copy != block && pool_[copy].list == List::kLru) return copy;
  }
  return kNoBlock;
}

size_t PrefixTree::num_copies(BlockId block) const {
  size_t count = 1;
  for (BlockId copy = pool_[block].next_copy; copy != block; copy = pool_[copy].next_copy) ++count;
  return count;
}

bool PrefixTree::in_ring(BlockId block) const {
  if (copy_before(pool_[block].next_copy) != block) return false;
  const BlockId first = block_of(pool_[block].node, pool_[block].group);
  return pool_[block].list != List::kLru || block == first || pool_[first].next_copy == block;
}

}  // namespace kvc
