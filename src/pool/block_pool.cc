// SPDX-License-Identifier: Apache-2.0
#include "pool/block_pool.h"

namespace kvc {

bool BlockPool::create(Memory& memory, const uint64_t* pool_sizes, size_t num_pools, bool null_block) {
  num_pools_ = num_pools;
  num_ids_ = 0;
  for (size_t p = 0; p < num_pools; ++p) num_ids_ += pool_sizes[p];
  first_id_ = null_block ? 1 : 0;
  if (!blocks_.create(memory, num_ids_ + 2 * num_pools)) return false;

  uint64_t first = 0;
  for (size_t p = 0; p < num_pools; ++p) {
    for (size_t list = 0; list < 2; ++list) {
      const BlockId self{static_cast<int32_t>(sentinel(p, list))};
      (*this)[self].prev = (*this)[self].next = self;
    }
    const uint64_t end = first + pool_sizes[p];
    if (p == 0 && null_block) blocks_[first++].node = kNoNode;
    pools_[p].counts = {};
    pools_[p].counts.first = first;
    pools_[p].counts.size = end - first;
    pools_[p].free_top = kNoBlock;
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
