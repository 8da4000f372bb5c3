// SPDX-License-Identifier: Apache-2.0
// Holds blocks of read contents (contents.h) for a while, so that their bytes can be read while the manager
// goes on serving: a few at a time, each only if it still has the content that was read. A hold leaves no
// trace: what nobody else has used meanwhile goes back to where it was. No log has it: calls that are logged
// wait for its end.
#pragma once
#include "manager/contents.h"
#include "manager/manager.h"

namespace kvc {

class ContentsHolder {
 public:
  ContentsHolder(Manager& manager, const Contents& contents)
      : manager_(manager),
        blocks_(manager.blocks_),
        s_(blocks_.s_),
        contents_(contents),
        checked_(contents.positions.size(), 0) {}
  ~ContentsHolder() { release(); }
  ContentsHolder(const ContentsHolder&) = delete;
  ContentsHolder& operator=(const ContentsHolder&) = delete;

  // held[i]: whether the position of entry i still has its block in the group, which is held now, until
  // release(). entries[i].block becomes the block that has the bytes now: compaction may have moved them.
  // Returns how many of the entries were looked at, at least one: no more is visited under the lock than an
  // admission of the longest of these prefixes visits, or a slice.
  size_t hold(Contents::Cached* entries, size_t count, uint8_t* held);
  void release();
  // Positions and blocks that were visited under one hold of the lock.
  uint64_t longest_hold() const { return longest_; }

 private:
  bool is_there(uint32_t position);
  bool is_same(uint32_t position) const;
  void find_way(uint32_t position);

  // Holds end in the reverse order of their beginnings.
  struct Reading {
    BlockId block, before;  // before: what stood before it in its list, kNoBlock = nothing
    uint32_t mark;          // its fence, as long as nobody else has released it
    List list;              // where it was
    bool leaves_first;
  };
  void begin_reading(BlockId id);
  bool put_back(const Reading& reading);
  void end_reading(const Reading& reading) {
    if (s_.pool.drop_external(s_.pool[reading.block]) && !put_back(reading))
      blocks_.settle_or_fence(reading.block);
  }

  Manager& manager_;
  Blocks& blocks_;
  BlockState& s_;
  const Contents& contents_;
  std::vector<uint64_t> checked_;  // by position: twice the turn that looked at it, + 1 if it is the same
  uint64_t turn_ = 0;              // what was seen holds as long as nobody else changes the manager
  uint64_t changes_ = UINT64_MAX;
  uint64_t longest_ = 0;
  std::vector<uint32_t> way_;
  std::vector<Reading> readings_;
  std::unique_lock<std::mutex> log_order_;  // of a manager that is recorded, until release()
};

}  // namespace kvc
