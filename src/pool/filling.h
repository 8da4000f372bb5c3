// SPDX-License-Identifier: Apache-2.0
// The blocks that steps in flight write: they are empty until the step is over. While they are held they are
// in a list of their own, ordered by step; FENCED ones become written when they leave FENCED. Only pools that
// were made for them have any. Not thread-safe.
#pragma once
#include "base/memory.h"
#include "pool/block.h"

namespace kvc {

class FillingBlocks {
 public:
  // The sentinels of the pools are blocks[sentinels ..].
  [[nodiscard]] bool create(Memory& memory, Block* blocks, PoolState* pools, size_t num_pools,
                            uint64_t num_ids, size_t sentinels);
  bool on() const { return steps_.size() != 0; }
  // How many there are, held or FENCED.
  uint64_t size() const { return size_; }
  BlockId head(size_t pool) const { return on() ? blocks_[sentinels_ + pool].next : kNoBlock; }
  // Whether a block may be what its content says.
  bool intact(const Block& block) const {
    return block.content != Content::kFilling || (on() && block.list != List::kLru);
  }
  uint32_t step(BlockId id) const { return steps_[static_cast<size_t>(raw(id))]; }
  // Whether the steps up to `retired` have written one: it may wait in FENCED for others.
  bool over(BlockId id, uint64_t retired) const {
    return static_cast<int32_t>(static_cast<uint32_t>(retired) - step(id)) >= 0;
  }

  // Step `step` will write all of a held block.
  void begin(BlockId id, uint64_t step);
  // One is held again, after it was taken out of FENCED.
  void resume(BlockId id, uint64_t retired) {
    if (over(id, retired)) return end_released(block(id), Content::kWritten);
    link(id);
  }
  // The caller says what a held one has from now on.
  void end(Block& block) {
    unlist(block);
    --size_;
  }
  // Nobody holds it any more: it is filling, but not in the list.
  void unlist(Block& block) {
    unlink(blocks_, block);
    --pools_[block.pool].counts.filling;
  }
  // One that nobody holds is written now, or never will be.
  void end_released(Block& block, Content content) {
    --size_;
    block.content = content;
  }
  // The held ones that the steps up to `retired` have written.
  void retire(size_t pool, uint64_t retired) {
    while (pools_[pool].counts.filling != 0) {
      const BlockId id = head(pool);
      if (!over(id, retired)) return;
      end(block(id));
      block(id).content = Content::kWritten;
    }
  }
  // A held one will not be written.
  void fail(BlockId id) {
    end(block(id));
    block(id).content = Content::kEmpty;
    ++pools_[block(id).pool].counts.reserved;
  }

 private:
  Block& block(BlockId id) { return blocks_[raw(id)]; }
  void link(BlockId id);

  Block* blocks_ = nullptr;
  PoolState* pools_ = nullptr;
  size_t sentinels_ = 0;
  Array<uint32_t> steps_;  // low bits of the step that writes a block
  uint64_t size_ = 0;
  BlockId last_[kMaxBlockPools];  // that was listed
};

}  // namespace kvc
