// SPDX-License-Identifier: Apache-2.0
// The newest events, in a ring that is allocated at creation. The tree writes it; any number of readers poll
// it, each with its own cursor. A reader that falls behind sees a gap in the sequence numbers. An event names
// a position of the tree, which keeps its place until the event has left the ring (PrefixTree). Used under
// the manager's lock.
#pragma once
#include "base/ids.h"
#include "base/memory.h"

namespace kvc {

// EventRecord.kind as the prefix tree writes it: of KVC_EVENT_*.
inline constexpr uint32_t kEventStored = 1, kEventRemoved = 2;

struct EventRecord {
  uint64_t time_ns;
  uint64_t epoch;
  NodeId position;  // the root of a namespace that was cleared, or kNoNode = all were
  BlockId block;
  uint32_t kind;
  uint32_t group;
};
static_assert(sizeof(EventRecord) == 32);

class EventRing {
 public:
  // capacity 0 = off.
  [[nodiscard]] bool create(Memory& memory, const Env& env, size_t capacity);
  bool enabled() const { return capacity_ != 0; }
  size_t capacity() const { return capacity_; }

  void add(uint32_t kind, uint64_t epoch, NodeId position, size_t group, BlockId block) {
    if (now_ == 0) now_ = wall_clock_ns_();
    if (next_ - oldest_ == capacity_) drop_before(oldest_ + 1);
    records_[at_] = {now_, epoch, position, block, kind, static_cast<uint32_t>(group)};
    ++next_;
    if (++at_ == capacity_) at_ = 0;
  }
  // Later events have a later time. Called at the end of a call, and where a call lets others in between.
  void end_call() { now_ = 0; }

  uint64_t next_sequence() const { return next_; }
  uint64_t oldest() const { return oldest_; }
  bool holds(uint64_t sequence) const { return sequence < next_ && sequence >= oldest_; }
  const EventRecord& operator[](uint64_t sequence) const {
    const size_t back = next_ - sequence;
    return records_[back <= at_ ? at_ - back : at_ + capacity_ - back];
  }

  // A reader has read the events before `sequence`.
  void note_read(uint64_t sequence) {
    if (read_ < sequence) read_ = sequence;
  }
  // The events before `sequence`, which is not above next_sequence(), leave the ring.
  void drop_before(uint64_t sequence) {
    const uint64_t unread = oldest_ < read_ ? read_ : oldest_;
    if (unread < sequence) dropped_ += sequence - unread;
    if (oldest_ < sequence) oldest_ = sequence;
  }
  uint64_t dropped() const { return dropped_; }  // that left before any reader had read them

 private:
  Array<EventRecord> records_;
  uint64_t (*wall_clock_ns_)() = nullptr;
  size_t capacity_ = 0;
  size_t at_ = 0;  // place of the next event
  uint64_t next_ = 0;
  uint64_t oldest_ = 0;
  uint64_t read_ = 0;  // what the foremost reader reads next
  uint64_t dropped_ = 0;
  uint64_t now_ = 0;  // 0 = to be asked for
};

}  // namespace kvc
