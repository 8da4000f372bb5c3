// SPDX-License-Identifier: Apache-2.0
// The changes of one batch, until it is written. A block that is stored and removed in it, or removed and
// stored, leaves no trace, unless a block that is told of names it as its parent. Order is kept otherwise:
// a parent comes before its children.
#pragma once
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/memory.h"
#include "events/encode.h"

namespace kvc {

struct BlockChange {
  uint32_t kind = 0;  // KVC_EVENT_STORED or REMOVED
  uint32_t group = 0;
  const Digest256* digest = nullptr;         // identity in the manager
  const Digest256* parent_digest = nullptr;  // null: the first block of a prompt
  const Digest256* hash = nullptr;           // name on the wire
  const Digest256* parent_hash = nullptr;    // with parent_digest
  const Digest256* extra = nullptr;
  const int32_t* tokens = nullptr;  // of STORED
  std::string_view lora_name;       // must stay until clear()
};

class Changes {
 public:
  [[nodiscard]] bool create(Memory& memory, size_t max_blocks, uint32_t block_size, uint32_t num_groups);

  bool full() const { return count_ == entries_.size(); }
  // Whether a batch is to be written; a clear alone is one too.
  bool any() const { return cleared_ || alive_ != 0; }
  uint64_t cancelled() const { return cancelled_; }  // events, from creation on

  void add(const BlockChange& change);  // not full
  // Everything is gone, and what was added before with it. Runs begin with an ALL_CLEARED then.
  void add_clear();

  // Blocks that follow each other, in order. Valid until the next add() or clear().
  std::span<const WireRun> runs();
  void clear();

 private:
  struct Entry {
    Digest256 digest;
    Digest256 parent_hash;
    uint32_t kind, group;
    int32_t earlier;    // entry of the same block that is told of; -1 = none
    int32_t parent;     // [of STORED] an entry that stored its parent; -1 = none
    uint32_t children;  // entries that have it as `parent`
    bool alive, has_parent;
    std::string_view lora_name;
  };

  int32_t* slot_of(const Digest256& digest, GroupIndex group);
  int32_t find_stored(const Digest256& digest);
  void drop(int32_t i);
  void compact();
  bool continues(size_t i) const;

  uint32_t block_size_ = 0, num_groups_ = 0;
  size_t count_ = 0, alive_ = 0;
  uint64_t cancelled_ = 0;
  bool cleared_ = false;
  Array<Entry> entries_;
  Array<Digest256> hashes_, extras_;  // [entry]
  Array<int32_t> tokens_;             // [entry * block_size]
  Array<int32_t> slots_;              // newest entry of a digest and group, + 1; 0 = free
  Array<uint32_t> taken_;             // of slots_
  size_t num_taken_ = 0;
  Array<WireRun> runs_;
};

}  // namespace kvc
