// SPDX-License-Identifier: Apache-2.0
// Which blocks must be cleared before they are written again: it knows whose content each block has, and
// lists those that go to somebody else. Without KVC_MANAGER_ZERO_* flags it ignores what it is told. Takes no
// memory after create(). Not thread-safe.
#pragma once
#include "base/ids.h"
#include "base/memory.h"

namespace kvc {

class Zeroing {
 public:
  // Owners beside the ids of namespaces.
  static constexpr uint64_t kNobody = ~uint64_t{0};   // never handed out
  static constexpr uint64_t kExternal = kNobody - 1;  // by an external hold, or unknown: it may be anybody's

  [[nodiscard]] bool create(Memory& memory, uint32_t manager_flags, size_t num_ids);
  bool on() const { return owners_.size() != 0; }

  // The blocks are about to be written by `owner`.
  void hand_over(const BlockId* blocks, size_t count, uint64_t owner) {
    if (on()) [[unlikely]]
      list_foreign(blocks, count, owner);
  }
  // A copy is about to overwrite the whole block, or somebody has written it: clearing it is not needed, and
  // would come after that.
  void overwrite(BlockId block, uint64_t owner) {
    if (on()) [[unlikely]]
      take_off_list(block, owner);
  }
  // The content of the block is the owner's.
  void set_owner(BlockId block, uint64_t owner) {
    if (on()) [[unlikely]]
      owners_[index(block)] = ~owner;
  }
  void move(BlockId from, BlockId to) {
    if (on()) set_owner(to, owner(from));
  }
  uint64_t owner(BlockId block) const { return ~owners_[index(block)]; }

  // Blocks to be cleared, each once, in the order in which they were first handed over.
  size_t count() const { return count_; }
  const int32_t* blocks() const { return blocks_.data(); }
  bool listed(BlockId block) const { return listed_[index(block)] != 0; }
  void clear_list() {
    for (size_t i = 0; i < count_; ++i) listed_[static_cast<size_t>(blocks_[i])] = 0;
    count_ = 0;
  }

 private:
  void take_off_list(BlockId block, uint64_t owner);
  void list_foreign(const BlockId* blocks, size_t count, uint64_t owner);
  static size_t index(BlockId block) { return static_cast<size_t>(raw(block)); }

  Array<uint64_t> owners_;  // per block id, complemented: 0 = kNobody
  Array<uint8_t> listed_;
  Array<int32_t> blocks_;
  size_t count_ = 0;
  bool always_ = false;
};

}  // namespace kvc
