// SPDX-License-Identifier: Apache-2.0
#include "prefix/copies.h"

namespace kvc {

void Copies::attach(NodeId id, size_t group, BlockId block) {
  pool_[block].node = id;
  ++quiet_arrivals_;
  ++counters_.published_blocks;
  ++counters_.duplicates;
  ring_.link_before(block, first(id, group));
}

void Copies::detach(BlockId block) {
  Block& record = pool_[block];
  const NodeId id = std::exchange(record.node, kNoNode);
  const BlockId next = record.next_copy;
  ring_.unlink(block);
  if (first(id, record.group) == block) set_first(id, record.group, next);
}

void Copies::make_idle(BlockId block) {
  const BlockId first = first_of(pool_[block]);
  if (block == first || pool_[first].next_copy == block) return;
  ring_.unlink(block);
  ring_.link_before(block, pool_[first].next_copy);
}

void Copies::move(BlockId from, BlockId to) {
  const Block& block = pool_[from];
  ++quiet_arrivals_;
  if (first(block.node, block.group) == from) set_first(block.node, block.group, to);
  if (block.next_copy == from) return;
  ring_.replace(from, to);
}

BlockId Copies::idle(BlockId block) const {
  const BlockId first = first_of(pool_[block]);
  for (const BlockId copy : {first, pool_[first].next_copy}) {
    if (copy != block && pool_[copy].list == List::kLru) return copy;
  }
  return kNoBlock;
}

bool Copies::intact(BlockId block) const {
  if (ring_.before(pool_[block].next_copy) != block) return false;
  const BlockId first = first_of(pool_[block]);
  return pool_[block].list != List::kLru || block == first || pool_[first].next_copy == block;
}

}  // namespace kvc
