// SPDX-License-Identifier: Apache-2.0
// The blocks of positions: the first copy of each position in each group, and the ring of the others. In
// their ring they stand in the order in which they were published, except that the one in LRU, if any, is the
// first or directly behind it. Not thread-safe.
#pragma once
#include "observe/counters.h"
#include "prefix/copy_ring.h"
#include "prefix/node.h"

namespace kvc {

class Copies {
 public:
  Copies(BlockPool& pool, Counters& counters) : pool_(pool), counters_(counters), ring_(pool) {}
  [[nodiscard]] bool create(Memory& memory, Node* nodes, size_t num_places, size_t num_groups) {
    nodes_ = nodes;
    num_more_ = num_groups - 1;
    return ring_.create(memory) && (num_more_ == 0 || more_.create(memory, num_places * num_more_));
  }
  // First copy of a position in a group; kNoBlock if none.
  BlockId first(NodeId id, size_t group) const {
    return group == 0 ? nodes_[raw(id)].block : more_[static_cast<size_t>(raw(id)) * num_more_ + group - 1];
  }
  void set_first(NodeId id, size_t group, BlockId block) {
    (group == 0 ? nodes_[raw(id)].block : more_[static_cast<size_t>(raw(id)) * num_more_ + group - 1]) =
        block;
  }
  // Another block at a position that has one in this group; and one of several leaves it.
  void attach(NodeId id, size_t group, BlockId block);
  void detach(BlockId block);
  // `to`, which is not published, takes the place of a published block; the caller moves the record.
  void move(BlockId from, BlockId to);
  // Another copy of the block's position that waits in LRU, or kNoBlock.
  BlockId idle(BlockId block) const;
  // A block with copies has come to LRU, where none of them is.
  void make_idle(BlockId block);
  // How often a block has come to a position that another one serves, or served: no event tells of it.
  uint64_t quiet_arrivals() const { return quiet_arrivals_; }
  // Whether the ring of copies is intact at the block.
  bool intact(BlockId block) const;
  size_t count(BlockId block) const { return ring_.count(block); }

 private:
  BlockId first_of(const Block& block) const { return first(block.node, block.group); }

  BlockPool& pool_;
  Counters& counters_;
  Node* nodes_ = nullptr;
  size_t num_more_ = 0;
  Array<BlockId> more_;  // first copies of groups 1.. per node
  CopyRing ring_;
  uint64_t quiet_arrivals_ = 0;
};

}  // namespace kvc
