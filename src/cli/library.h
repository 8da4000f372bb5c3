// SPDX-License-Identifier: Apache-2.0
// What the command uses of kvcache/types.hpp, and a stopwatch for the time inside calls.
#pragma once
#include <kvcache/manager.h>
#include <kvcache/storage.h>

#include <algorithm>
#include <chrono>
#include <kvcache/types.hpp>
#include <vector>

#include "cli/errors.h"

namespace kvcli {

using kvc::ask;
using kvc::check;
using kvc::make;
using Manager = kvc::Owner<kvc_manager, kvc_manager_destroy>;
using Storage = kvc::Owner<kvc_storage, kvc_storage_destroy>;

/// Sums the time between start() and stop(). A pair reads the clock twice: measure calls, not tokens.
class Stopwatch {
 public:
  void start() { started_ = Clock::now(); }
  /// Returns the seconds since start().
  double stop() {
    const Clock::duration elapsed = Clock::now() - started_;
    total_ += elapsed;
    return std::chrono::duration<double>(elapsed).count();
  }
  double seconds() const { return std::chrono::duration<double>(total_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point started_{};
  Clock::duration total_{};
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace kvcli
