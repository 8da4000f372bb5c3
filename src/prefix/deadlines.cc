// SPDX-License-Identifier: Apache-2.0
#include "prefix/deadlines.h"

namespace kvc {

bool Deadlines::create(Memory& memory, size_t max_nodes) { return entries_.create(memory, max_nodes); }

void Deadlines::append(NodeId node) {
  Entry& entry = entries_[index(node)];
  const size_t bucket = bucket_of(entry.deadline);
  const int32_t self = raw(node) + 1;
  entry.next = 0;
  entry.prev = last_[bucket];
  (entry.prev == 0 ? first_[bucket] : entries_[static_cast<size_t>(entry.prev - 1)].next) = self;
  last_[bucket] = self;
  if (bucket != 0) filled_ |= uint64_t{1} << (bucket - 1);
}

void Deadlines::set(NodeId node, uint64_t deadline) {
  entries_[index(node)].deadline = deadline;
  append(node);
}

void Deadlines::clear(NodeId node) {
  Entry& entry = entries_[index(node)];
  if (entry.deadline == 0) return;
  const size_t bucket = bucket_of(entry.deadline);
  (entry.prev == 0 ? first_[bucket] : entries_[static_cast<size_t>(entry.prev - 1)].next) = entry.next;
  (entry.next == 0 ? last_[bucket] : entries_[static_cast<size_t>(entry.next - 1)].prev) = entry.prev;
  if (first_[bucket] == 0 && bucket != 0) filled_ &= ~(uint64_t{1} << (bucket - 1));
  entry.deadline = 0;
}

size_t Deadlines::lowest_bucket() const {
  if (first_[0] != 0) return 0;
  return filled_ == 0 ? kBuckets : static_cast<size_t>(__builtin_ctzll(filled_)) + 1;
}

// The time goes to `to`, which no deadline of a lower bucket waits for: the nodes of this bucket move to
// lower ones.
void Deadlines::pass(size_t bucket, uint64_t to) {
  int32_t at = first_[bucket];
  first_[bucket] = last_[bucket] = 0;
  filled_ &= ~(uint64_t{1} << (bucket - 1));
  now_ = to;
  while (at != 0) {
    const NodeId node{at - 1};
    at = entries_[index(node)].next;
    append(node);
  }
}

NodeId Deadlines::next(uint64_t until) {
  for (;;) {
    const size_t bucket = lowest_bucket();
    if (bucket == 0) {
      const NodeId node{first_[0] - 1};
      clear(node);
      return node;
    }
    if (now_ == until) return kNoNode;
    if (bucket > bucket_of(until)) {  // none of them ends by then, and none changes its bucket
      now_ = until;
      return kNoNode;
    }
    uint64_t least = until;
    for (int32_t i = first_[bucket]; i != 0; i = entries_[static_cast<size_t>(i - 1)].next) {
      const uint64_t deadline = entries_[static_cast<size_t>(i - 1)].deadline;
      if (deadline < least) least = deadline;
    }
    pass(bucket, least);
  }
}

bool Deadlines::intact() const {
  size_t listed = 0, set = 0;
  for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
    int32_t before = 0;
    for (int32_t i = first_[bucket]; i != 0; i = entries_[static_cast<size_t>(i - 1)].next) {
      const Entry& entry = entries_[static_cast<size_t>(i - 1)];
      if (entry.deadline <= now_ || entry.prev != before || bucket_of(entry.deadline) != bucket) return false;
      if (++listed > entries_.size()) return false;
      before = i;
    }
    if (last_[bucket] != before) return false;
    if (bucket != 0 && (first_[bucket] != 0) != ((filled_ >> (bucket - 1) & 1) != 0)) return false;
  }
  for (size_t i = 0; i < entries_.size(); ++i) set += entries_[i].deadline != 0;
  return listed == set && first_[0] == 0;
}

}  // namespace kvc
