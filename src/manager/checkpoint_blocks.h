// SPDX-License-Identifier: Apache-2.0
// Blocks whose content is being saved, and blocks that get the content of a checkpoint. Under the manager's
// lock.
#pragma once
#include "manager/blocks.h"

namespace kvc {

class CheckpointBlocks {
 public:
  explicit CheckpointBlocks(Blocks& blocks) : blocks_(blocks), s_(blocks.s_), cached_(blocks.cached_) {}

  // A hold for reading a block's content that leaves no trace: what nobody else has used meanwhile goes back
  // to where it was. Holds end in the reverse order of their beginnings.
  struct Reading {
    BlockId block, before;  // before: what stood before it in its list, kNoBlock = nothing
    uint32_t mark;          // its fence, as long as nobody else has released it
    List list;              // where it was
    bool leaves_first;
  };
  void begin_reading(BlockId id, Reading* reading);
  void end_reading(const Reading& reading);

  // Blocks of an empty pool for contents to come, as held externally by nobody: all of them come first to
  // take_all(), others by give_back(), which makes them the first to be taken.
  void take_for_contents(PoolIndex pool, size_t count, BlockId* out);
  void give_back(BlockId id);
  // Positions::carry_external() attaches one; this makes it a cached one.
  void end_taken(BlockId id) { blocks_.release_external(id); }
  // With several lists, which are empty: see Shelves.
  void begin_clock(size_t pool, uint64_t clock) { s_.pool.shelves().begin_clock(pool, clock); }
  void set_age(BlockId id, uint64_t age) { s_.pool.shelves().set_age(id, age); }

 private:
  bool put_back(const Reading& reading);

  Blocks& blocks_;
  BlockState& s_;
  CachedBlocks& cached_;
};

}  // namespace kvc
