// SPDX-License-Identifier: Apache-2.0
// The copies of a position. In their ring they stand in the order in which they were published, except that
// the one in LRU, if any, is the first or directly behind it.
#include "prefix/prefix_tree.h"

namespace kvc {

// Another block at a position that has one in this group.
void PrefixTree::attach_copy(NodeId id, size_t group, BlockId block) {
  pool_[block].node = id;
  ++quiet_arrivals_;
  ++counters_.published_blocks;
  ++counters_.duplicates;
  copies_.link_before(block, block_of(id, group));
}

void PrefixTree::detach_copy(BlockId block) {
  Block& record = pool_[block];
  const NodeId id = std::exchange(record.node, kNoNode);
  const BlockId next = record.next_copy;
  copies_.unlink(block);
  if (block_of(id, record.group) == block) set_block(id, record.group, next);
}

void PrefixTree::make_idle(BlockId block) {
  const BlockId first = block_of(pool_[block].node, pool_[block].group);
  if (block == first || pool_[first].next_copy == block) return;
  copies_.unlink(block);
  copies_.link_before(block, pool_[first].next_copy);
}

void PrefixTree::move(BlockId from, BlockId to) {
  const Block& block = pool_[from];
  ++quiet_arrivals_;
  if (block_of(block.node, block.group) == from) set_block(block.node, block.group, to);
  if (block.next_copy == from) return;
  copies_.replace(from, to);
}

BlockId PrefixTree::idle_copy(BlockId block) const {
  const BlockId first = block_of(pool_[block].node, pool_[block].group);
  for (const BlockId copy : {first, pool_[first].next_copy}) {
    if (copy != block && pool_[copy].list == List::kLru) return copy;
  }
  return kNoBlock;
}

bool PrefixTree::in_ring(BlockId block) const {
  if (copies_.before(pool_[block].next_copy) != block) return false;
  const BlockId first = block_of(pool_[block].node, pool_[block].group);
  return pool_[block].list != List::kLru || block == first || pool_[first].next_copy == block;
}

}  // namespace kvc
