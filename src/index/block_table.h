// SPDX-License-Identifier: Apache-2.0
// From the digest of a block to its holders. Chained hashing over a fixed array of entries.
//
// One writer, any number of readers, which wait for nothing. An entry's state is one word: the id of its set
// and a count of its changes. The writer takes an entry out of its chain before it clears the state, and puts
// it into one after it has set the state; so a reader that meets a cleared entry, an entry of another chain,
// or a state that changed while it read, starts again, and is never waiting for the writer to go on.
//
// Eviction is CLOCK: a match and a store mark an entry, the hand takes the first one without a mark and
// clears marks on its way. create() takes all memory.
#pragma once
#include <cstring>

#include "base/memory.h"
#include "index/holder_sets.h"

namespace kvc {

// The first 128 bits of the digest of a position (kvc_event.digest).
struct BlockKey {
  uint64_t low, high;
  bool operator==(const BlockKey&) const = default;

  static BlockKey of(const uint8_t* digest) {
    BlockKey key;
    std::memcpy(&key, digest, sizeof key);
    return key;
  }
};

class BlockTable {
 public:
  using Index = uint32_t;  // of an entry; 0 = none
  // What a reader found: compare again with state() to see whether the entry has changed since.
  struct Found {
    Index entry = 0;
    uint64_t state = 0;
    SetId set() const { return static_cast<SetId>(state); }
  };

  [[nodiscard]] bool create(Memory& memory, size_t max_blocks);

  size_t num_blocks() const { return num_blocks_; }
  size_t max_blocks() const { return entries_.size() - 1; }
  uint64_t bytes_used() const { return used_ * sizeof(Entry) + heads_.size() * sizeof(Index); }

  // ---- readers
  void prefetch_head(BlockKey key) const { __builtin_prefetch(&heads_[bucket(key)]); }
  void prefetch_entry(BlockKey key) const { __builtin_prefetch(&entries_[load(heads_[bucket(key)])]); }
  Found find(BlockKey key) const;
  // The entry behind `entry`, if it has this key: blocks of one prefix are often stored together.
  Found find_behind(Index entry, BlockKey key) const;
  uint64_t state(Index entry) const { return load(entries_[entry].state); }
  void mark(Index entry) {
    uint32_t& mark = entries_[entry].mark;
    if (__atomic_load_n(&mark, __ATOMIC_RELAXED) == 0) __atomic_store_n(&mark, 1, __ATOMIC_RELAXED);
  }

  // ---- the writer
  bool is_full() const { return num_blocks_ == max_blocks(); }
  Index look_up(BlockKey key) const;
  SetId set_of(Index entry) const { return static_cast<SetId>(entries_[entry].state); }
  BlockKey key_of(Index entry) const { return {entries_[entry].low, entries_[entry].high}; }
  void insert(BlockKey key, SetId set);  // not full; the key is new; `set` is not empty
  void change(Index entry, SetId set);   // `set` is not empty
  void remove(Index entry);
  Index limit() const { return used_; }  // entries are below; those with an empty set are free
  Index choose_victim(Index except);     // 0 = there is no other entry

 private:
  struct Entry {
    uint64_t low, high;
    uint64_t state;  // changes << 32 | set
    Index next;      // in the chain, or the next free one
    uint32_t mark;
  };
  static_assert(sizeof(Entry) == 32);

  size_t bucket(BlockKey key) const {
    return ((key.low ^ key.high >> 7) * 0x9E3779B97F4A7C15u >> 32) * heads_.size() >> 32;
  }
  void set_state(Entry& entry, SetId set) { store(entry.state, ((entry.state >> 32) + 1) << 32 | set); }

  Array<Entry> entries_;
  Array<Index> heads_;
  Index used_ = 1, free_ = 0, hand_ = 0;
  size_t num_blocks_ = 0;
};

}  // namespace kvc
