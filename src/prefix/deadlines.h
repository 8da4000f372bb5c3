// SPDX-License-Identifier: Apache-2.0
// When hints of positions end: a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, 1990). Time only goes forward,
// so a deadline waits in the bucket of the highest bit in which it differs from the present time. When the
// time passes that bit, the bucket's nodes move to lower ones: at most 64 moves for each deadline, and no
// comparison tree. Nodes of one bucket are a list in the order in which they were set; nodes of equal
// deadlines are always in one bucket, so they end in that order.
//
// Invariants: every deadline is later than the present time, and in its bucket. Not thread-safe.
#pragma once
#include "base/ids.h"
#include "base/memory.h"

namespace kvc {

class Deadlines {
 public:
  [[nodiscard]] bool create(Memory& memory, size_t max_nodes);

  uint64_t now() const { return now_; }
  // 0 = none.
  uint64_t of(NodeId node) const { return entries_.size() == 0 ? 0 : entries_[index(node)].deadline; }
  // A node without a deadline gets one, later than now().
  void set(NodeId node, uint64_t deadline);
  void clear(NodeId node);
  // The node that ends next if that is not after `until`, or kNoNode; the time goes up to its deadline, or to
  // `until`. Its deadline is cleared.
  NodeId next(uint64_t until);

  // visit(node, deadline): all, such that of equal deadlines the one set first comes first.
  template <typename Visit>
  void each(Visit&& visit) const {
    for (const int32_t first : first_) {
      for (int32_t i = first - 1; i >= 0; i = entries_[static_cast<size_t>(i)].next - 1)
        visit(NodeId{i}, entries_[static_cast<size_t>(i)].deadline);
    }
  }
  // Whether every deadline is in its bucket, and the lists are sound.
  bool intact() const;

 private:
  static constexpr size_t kBuckets = 65;
  struct Entry {
    uint64_t deadline;
    int32_t next, prev;  // index + 1, 0 = end of the list
  };
  static size_t index(NodeId node) { return static_cast<size_t>(raw(node)); }
  // 0: the present time itself.
  size_t bucket_of(uint64_t deadline) const {
    return deadline == now_ ? 0 : 64 - static_cast<size_t>(__builtin_clzll(deadline ^ now_));
  }
  size_t lowest_bucket() const;
  void append(NodeId node);
  void pass(size_t bucket, uint64_t to);

  Array<Entry> entries_;          // per node
  int32_t first_[kBuckets] = {};  // index + 1, 0 = empty
  int32_t last_[kBuckets] = {};
  uint64_t filled_ = 0;  // bit per bucket but the first, which is filled only inside next()
  uint64_t now_ = 0;
};

}  // namespace kvc
