// SPDX-License-Identifier: Apache-2.0
// One number over time: its moving average, Holt's level and trend, and a window of the last observations.
// create() takes all memory. Not thread-safe.
#pragma once
#include <kvcache/sizing.h>

#include "base/memory.h"

namespace kvc {

class Workload {
 public:
  static constexpr double kLargest = 1e15;
  static constexpr uint64_t kDefaultHalfLife = 60'000'000'000;
  static constexpr uint32_t kDefaultWindow = 64;

  [[nodiscard]] bool create(Memory& memory, uint64_t half_life_ns, uint32_t window);
  // `what` is what an error text calls the value.
  kvc_status check(uint64_t now_ns, double value, const char* what) const;
  void record(uint64_t now_ns, double value);  // checked

  void read(kvc_workload_info* info) const;
  double predict(uint64_t horizon_ns) const { return level_ + trend_ * seconds(horizon_ns); }

 private:
  struct Observation {
    uint64_t ns;
    double value;
  };
  static double seconds(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

  double half_life_ = 1;  // seconds
  uint64_t count_ = 0;
  double average_ = 0, level_ = 0, trend_ = 0;
  Observation last_ = {};
  Array<Observation> window_;  // observation n is at n % size
};

}  // namespace kvc
