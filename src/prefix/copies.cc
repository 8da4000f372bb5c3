// SPDX-License-Identifier: Apache-2.0
// The copies of one position in one group form a ring: Block::next_copy leads forward, copy_before_ back. The
// one in LRU, if any, is the lowest or directly behind it. Everything is O(1), except the search for the next
// lowest when the lowest leaves; so equal prompts in one batch cost no more than different ones.
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
  ++counters_.published_blocks;
  ++counters_.duplicates;
  const BlockId lowest = block_of(id, group);
  if (raw(block) > raw(lowest)) {
    link_before(block, lowest);
    return;
  }
  link_before(block, pool_[lowest].list == List::kLru ? lowest : pool_[lowest].next_copy);
  set_block(id, group, block);
}

void PrefixTree::detach_copy(BlockId block) {
  Block& record = pool_[block];
  const NodeId id = std::exchange(record.node, kNoNode);
  const BlockId next = record.next_copy;
  unlink(block);
  if (block_of(id, record.group) != block) return;
  BlockId lowest = next;
  for (BlockId copy = pool_[next].next_copy; copy != next; copy = pool_[copy].next_copy) {
    if (raw(copy) < raw(lowest)) lowest = copy;
  }
  set_block(id, record.group, lowest);
  if (pool_[next].list == List::kLru) make_idle(next);
}

void PrefixTree::make_idle(BlockId block) {
  const BlockId lowest = block_of(pool_[block].node, pool_[block].group);
  if (block == lowest || pool_[lowest].next_copy == block) return;
  unlink(block);
  link_before(block, pool_[lowest].next_copy);
}

void PrefixTree::move(BlockId from, BlockId to) {
  const Block& block = pool_[from];
  const BlockId lowest = block_of(block.node, block.group);
  if (raw(to) < raw(lowest)) {
    if (const BlockId idle = from == lowest ? kNoBlock : idle_copy(from); is_block(idle)) {
      unlink(idle);
      link_before(idle, block.next_copy);
    }
    set_block(block.node, block.group, to);
  }
  if (block.next_copy == from) return;
  const BlockId before = copy_before(from);
  join(to, block.next_copy);
  join(before, to);
}

BlockId PrefixTree::idle_copy(BlockId block) const {
  const BlockId lowest = block_of(pool_[block].node, pool_[block].group);
  for (const BlockId copy : {lowest, pool_[lowest].next_copy}) {
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
  const BlockId lowest = block_of(pool_[block].node, pool_[block].group);
  return pool_[block].list != List::kLru || block == lowest || pool_[lowest].next_copy == block;
}

}  // namespace kvc
