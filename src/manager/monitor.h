// SPDX-License-Identifier: Apache-2.0
// The manager's lock, and the counters that a call publishes when it has changed the state.
#pragma once
#include <algorithm>
#include <mutex>

#include "manager/requests.h"
#include "observe/counters.h"
#include "observe/event_ring.h"

namespace kvc {

class Monitor {
 public:
  // `own_bytes`: memory of the manager that `memory` does not count.
  Monitor(std::mutex& mutex, Counters& counters, EventRing& events, const Blocks& blocks,
          const Requests& requests, const Memory& memory, size_t own_bytes)
      : mutex_(mutex),
        counters_(counters),
        events_(events),
        blocks_(blocks),
        requests_(requests),
        memory_(memory),
        own_bytes_(own_bytes) {}

  std::mutex& mutex() const { return mutex_; }
  // Under the lock: how many calls have changed the state, or may have.
  uint64_t changes() const { return changes_; }
  void publish();
  void end_part() { events_.end_call(); }
  void count_change() { ++changes_; }
  Counters read() const { return snapshot_.read(); }

 private:
  std::mutex& mutex_;
  Counters& counters_;
  EventRing& events_;
  const Blocks& blocks_;
  const Requests& requests_;
  const Memory& memory_;
  const size_t own_bytes_;
  Snapshot snapshot_;
  uint64_t changes_ = 0;
};

// Items of a step between two releases of the lock, at most as many as a word has bits.
inline constexpr size_t kSlice = 64;

// The lock for a call that changes state.
class Guard {
 public:
  explicit Guard(Monitor& monitor) : monitor_(monitor) { monitor_.mutex().lock(); }
  ~Guard() {
    monitor_.publish();
    monitor_.mutex().unlock();
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Lets other threads in between two parts of a long call.
  void yield() {
    monitor_.end_part();
    monitor_.count_change();
    monitor_.mutex().unlock();
    monitor_.mutex().lock();
  }
  // Does so after each slice of items.
  void count_item() {
    if (++items_ % kSlice == 0) yield();
  }

 private:
  Monitor& monitor_;
  size_t items_ = 0;
};

// The lock for a call that reads much and changes nothing, a slice at a time: who reads counts what it visits
// (positions, blocks, other records), and ends a slice that is long.
class SlicedHold {
 public:
  // As much as a slice of a step. An admission of so many tokens' blocks takes as long.
  static constexpr uint64_t kSlice = kvc::kSlice;

  explicit SlicedHold(Monitor& monitor) : monitor_(monitor) {}
  ~SlicedHold() {
    if (held_) end();
  }
  SlicedHold(const SlicedHold&) = delete;
  SlicedHold& operator=(const SlicedHold&) = delete;

  void begin() {
    monitor_.mutex().lock();
    held_ = true;
    visited_ = 0;
    changes_ = monitor_.changes();
  }
  void end() {
    longest_ = std::max(longest_, visited_);
    held_ = false;
    monitor_.mutex().unlock();
  }
  void visit(uint64_t count = 1) { visited_ += count; }
  // Whether so many more would make this slice longer than one should be.
  bool is_long(uint64_t more) const { return visited_ != 0 && visited_ + more > kSlice; }
  // At the beginning of this slice, or of the last one.
  uint64_t changes() const { return changes_; }
  uint64_t longest() const { return longest_; }

 private:
  Monitor& monitor_;
  bool held_ = false;
  uint64_t visited_ = 0, longest_ = 0, changes_ = 0;
};

}  // namespace kvc
