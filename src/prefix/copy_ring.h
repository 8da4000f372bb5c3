// SPDX-License-Identifier: Apache-2.0
// The copies of one position in one group, in the order in which they were published, as a ring:
// Block::next_copy leads forward. Everything but count() is O(1), and no choice depends on the ids of blocks,
// which other namespaces decide. Not thread-safe.
#pragma once
#include "pool/block_pool.h"

namespace kvc {

class CopyRing {
 public:
  explicit CopyRing(BlockPool& pool) : pool_(pool) {}
  [[nodiscard]] bool create(Memory& memory) { return before_.create(memory, pool_.num_ids()); }

  BlockId before(BlockId block) const {
    return pool_[block].next_copy == block ? block : before_[static_cast<size_t>(raw(block))];
  }
  // A block that is alone comes before another one.
  void link_before(BlockId block, BlockId next) {
    join(before(next), block);
    join(block, next);
  }
  void unlink(BlockId block) {
    join(before(block), pool_[block].next_copy);
    pool_[block].next_copy = block;
  }
  // `to` takes the place of a block that has copies; the caller moves the record.
  void replace(BlockId from, BlockId to) {
    const BlockId earlier = before(from);
    join(to, pool_[from].next_copy);
    join(earlier, to);
  }
  size_t count(BlockId block) const {
    size_t count = 1;
    for (BlockId copy = pool_[block].next_copy; copy != block; copy = pool_[copy].next_copy) ++count;
    return count;
  }

 private:
  void join(BlockId block, BlockId next) {
    pool_[block].next_copy = next;
    before_[static_cast<size_t>(raw(next))] = block;
  }

  BlockPool& pool_;
  Array<BlockId> before_;  // backwards; of blocks that have others
};

}  // namespace kvc
