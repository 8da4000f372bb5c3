// SPDX-License-Identifier: Apache-2.0
#include "pool/filling.h"

namespace kvc {

bool FillingBlocks::create(Memory& memory, Block* blocks, PoolState* pools, size_t num_pools,
                           uint64_t num_ids, size_t sentinels) {
  blocks_ = blocks;
  pools_ = pools;
  sentinels_ = sentinels;
  for (size_t p = 0; num_ids != 0 && p < num_pools; ++p) {
    const BlockId self{static_cast<int32_t>(sentinels + p)};
    blocks[sentinels + p].prev = blocks[sentinels + p].next = self;
    last_[p] = kNoBlock;
  }
  return num_ids == 0 || steps_.create(memory, num_ids);
}

void FillingBlocks::begin(BlockId id, uint64_t step) {
  Block& block = blocks_[raw(id)];
  if (block.content == Content::kEmpty) --pools_[block.pool].counts.reserved;
  block.content = Content::kFilling;
  steps_[static_cast<size_t>(raw(id))] = static_cast<uint32_t>(step);
  ++size_;
  link(id);
}

// Behind those of earlier steps: nearly always at the end.
void FillingBlocks::link(BlockId id) {
  Block& block = blocks_[raw(id)];
  const uint32_t step = this->step(id);
  const BlockId end{static_cast<int32_t>(sentinels_ + block.pool)};
  BlockId next = end;
  BlockId& last = last_[block.pool];  // many of one step come one after the other
  if (is_block(last) && last != id && blocks_[raw(last)].content == Content::kFilling &&
      blocks_[raw(last)].list == List::kHeld && this->step(last) == step)
    next = blocks_[raw(last)].next;
  last = id;
  for (;;) {
    const BlockId before = blocks_[raw(next)].prev;
    if (before == end || static_cast<int32_t>(step - this->step(before)) >= 0) break;
    next = before;
  }
  block.next = next;
  block.prev = blocks_[raw(next)].prev;
  blocks_[raw(block.prev)].next = id;
  blocks_[raw(next)].prev = id;
  ++pools_[block.pool].counts.filling;
}

}  // namespace kvc
