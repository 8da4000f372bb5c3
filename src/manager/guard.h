// SPDX-License-Identifier: Apache-2.0
// The manager's lock for calls that change state: publishes the counters for stats readers before it is
// released.
#pragma once
#include "manager/manager.h"

namespace kvc {

class Manager::Guard {
 public:
  explicit Guard(Manager& manager) : manager_(manager) { manager.mutex_.lock(); }
  ~Guard() {
    manager_.publish_stats();
    manager_.mutex_.unlock();
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Lets other threads in between two parts of a long call.
  void yield() {
    manager_.mutex_.unlock();
    manager_.mutex_.lock();
  }

 private:
  Manager& manager_;
};

}  // namespace kvc
