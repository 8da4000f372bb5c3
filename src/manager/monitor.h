// SPDX-License-Identifier: Apache-2.0
// The manager's lock, and the counters that a call publishes when it has changed the state.
#pragma once
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
  void publish();
  void end_part() { events_.end_call(); }
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
};

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
    monitor_.mutex().unlock();
    monitor_.mutex().lock();
  }

 private:
  Monitor& monitor_;
};

}  // namespace kvc
