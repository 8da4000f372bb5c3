// SPDX-License-Identifier: Apache-2.0
// How many blocks jobs hold now, and how many they will hold.
#pragma once
#include "scheduler/options.h"
#include "scheduler/waiting.h"

namespace kvc {

// Whether most blocks of the manager are held: from the high watermark on, until it falls to the low one.
class Pressure {
 public:
  // High watermark 0: there never is any.
  void create(double high_watermark, double low_watermark) {
    high_watermark_ = high_watermark;
    low_watermark_ = low_watermark;
  }
  bool is_high() const { return is_high_; }
  // True: it has begun.
  bool watch(const SchedulerCalls& calls);
  // Whether it has changed since the last call.
  bool take_change(bool* high, double* usage);

 private:
  double high_watermark_ = 0, low_watermark_ = 0;
  double usage_ = 0;
  bool is_high_ = false, told_ = false;
};

// Whether the pool of the first group has room for all running jobs and one more until they end.
// WORST: for all that they may ever get, at one time. PEAK: each gets a token a step until it has as many as
// expected, and then gives back its blocks; the most is held when one of them ends.
class Peak {
 public:
  [[nodiscard]] bool create(Memory& memory, size_t max_running) {
    return holdings_.create(memory, max_running + 1);
  }
  bool fits(const SchedulerCalls& calls, const SchedulerOptions& options, const JobTable& jobs,
            const Waiting& waiting, const JobIndex* running, size_t num_running, const Job& candidate);

 private:
  struct Holding {
    uint64_t now, rest;  // tokens
  };
  Array<Holding> holdings_;
};

}  // namespace kvc
