// SPDX-License-Identifier: Apache-2.0
// How often positions were used: while they have a block, and for a while after. Of the positions that lost
// their last block, the latest `capacity` are remembered; one that gets a block again takes its uses back.
//
// Invariants: uses are 0 exactly for positions without a block. The ring has the forgotten in the order in
// which they lost their blocks; an entry with 0 uses was taken back. An entry with uses is in its bucket's
// chain. No result depends on buckets. Not thread-safe.
#pragma once
#include "base/ids.h"
#include "base/memory.h"

namespace kvc {

class Uses {
 public:
  static constexpr uint32_t kMost = 255;  // more are not told apart

  // Capacity 0: nothing is counted.
  [[nodiscard]] bool create(Memory& memory, size_t max_nodes, size_t capacity, uint64_t secret);
  bool on() const { return ring_.size() != 0; }

  uint32_t of(NodeId node) const { return on() ? counts_[static_cast<size_t>(raw(node))] : 0; }
  // One more use of a node, which then has at most `limit`.
  void add(NodeId node, uint32_t limit) {
    const uint32_t more = of(node) + 1;
    counts_[static_cast<size_t>(raw(node))] = static_cast<uint8_t>(more < limit ? more : limit);
  }
  // The node has a block from now on, or no more. `key` is its content's; `tag` is for digests,
  // the same in every process.
  void begin(NodeId node, uint64_t key);
  void end(NodeId node, uint64_t key, uint32_t tag);
  // For loops: what begin() and end() read, in two stages.
  void prefetch(uint64_t key) const { __builtin_prefetch(&buckets_[key * spread_ >> shift_], 1); }
  void prefetch_entry(uint64_t key) const {
    if (const int32_t first = buckets_[key * spread_ >> shift_]; first >= 0)
      __builtin_prefetch(&ring_[static_cast<size_t>(first)], 1);
  }
  void end_stale(NodeId node) { counts_[static_cast<size_t>(raw(node))] = 0; }

  // visit(tag, uses): what is remembered, oldest first; 0 uses were taken back.
  template <typename Visit>
  void each_remembered(Visit&& visit) const {
    const uint64_t first = pushed_ < ring_.size() ? 0 : pushed_ - ring_.size();
    for (uint64_t i = first; i < pushed_; ++i) {
      const Entry& entry = ring_[i % ring_.size()];
      visit(entry.tag, entry.uses);
    }
  }
  // Whether every entry with uses is in its chain, and nothing else is in one.
  bool intact() const;

 private:
  static constexpr uint64_t kAhead = 8;
  struct Entry {
    uint64_t key;
    int32_t next;  // chain of its bucket, -1 = end
    uint32_t tag : 24, uses : 8;
  };
  int32_t& bucket(uint64_t key) { return buckets_[key * spread_ >> shift_]; }
  void unchain(int32_t index);

  Array<uint8_t> counts_;  // per node
  Array<Entry> ring_;
  Array<int32_t> buckets_;
  uint64_t pushed_ = 0;
  uint64_t spread_ = 1;
  int shift_ = 63;
};

}  // namespace kvc
