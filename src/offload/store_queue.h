// SPDX-License-Identifier: Apache-2.0
// The published blocks that wait to be stored: each once for the position at which it is. A bounded ring.
#pragma once
#include "manager/offload_view.h"

namespace kvc {

class StoreQueue {
 public:
  [[nodiscard]] bool create(Memory& memory, size_t num_ids, size_t capacity) {
    return ring_.create(memory, capacity) && marks_.create(memory, num_ids);
  }
  size_t size() const { return count_; }
  size_t room() const { return ring_.size() - count_; }
  // False: there is no room. One that was added at its position before is not added again.
  bool add(const StoredBlock& block) {
    uint64_t& mark = mark_of(block);
    if (mark == block.serial) return true;
    if (room() == 0) return false;
    mark = block.serial;
    put_back(block);
    return true;
  }
  // It may be added again: whatever it was added for; at its position.
  void forget_all(const StoredBlock& block) { mark_of(block) = 0; }
  void forget(const StoredBlock& block) {
    if (mark_of(block) == block.serial) mark_of(block) = 0;
  }
  StoredBlock take() {
    const StoredBlock block = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    return block;
  }
  // One that was taken goes to the end.
  void put_back(const StoredBlock& block) { ring_[(first_ + count_++) % ring_.size()] = block; }

 private:
  uint64_t& mark_of(const StoredBlock& block) { return marks_[static_cast<size_t>(raw(block.block))]; }

  Array<StoredBlock> ring_;
  size_t first_ = 0, count_ = 0;
  Array<uint64_t> marks_;  // by block: the serial of the position for which it was added
};

}  // namespace kvc
