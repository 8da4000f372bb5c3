// SPDX-License-Identifier: Apache-2.0
// Histograms of the latencies of one object, off until enable(). What measures asks find() first: null is one
// predicted branch, and no clock is read. enable() and disable() run beside
// nothing else; all else is thread-safe.
#pragma once
#include <time.h>

#include <new>

#include "base/env.h"
#include "observe/histogram.h"

namespace kvc {

inline uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

class Latencies {
 public:
  // KVC_LATENCY_*, `count` of them from `first` on. `env` must be there until the end.
  Latencies(const Env& env, uint32_t first, uint32_t count) : env_(env), first_(first), count_(count) {}
  ~Latencies() { disable(); }
  Latencies(const Latencies&) = delete;
  Latencies& operator=(const Latencies&) = delete;

  // False: no memory.
  [[nodiscard]] bool enable() {
    if (histograms_ != nullptr) return true;
    void* memory = env_.allocate(env_.allocator_data, count_ * sizeof(Histogram), alignof(Histogram));
    if (memory == nullptr) return false;
    auto* const made = static_cast<Histogram*>(memory);
    for (uint32_t i = 0; i < count_; ++i) new (made + i) Histogram;
    histograms_ = made;
    return true;
  }
  void disable() {
    if (histograms_ != nullptr) {
      env_.release(env_.allocator_data, histograms_, count_ * sizeof(Histogram), alignof(Histogram));
    }
    histograms_ = nullptr;
  }
  bool is_on() const { return histograms_ != nullptr; }
  bool has(uint32_t latency) const { return latency - first_ < count_; }
  uint32_t first() const { return first_; }
  uint32_t count() const { return count_; }
  // One that it has; nullptr: off.
  Histogram* find(uint32_t latency) const {
    if (histograms_ == nullptr) [[likely]]
      return nullptr;
    return histograms_ + (latency - first_);
  }

 private:
  const Env& env_;
  const uint32_t first_, count_;
  Histogram* histograms_ = nullptr;
};

// Records the time from here to the end of the scope, by CLOCK_MONOTONIC.
class Timed {
 public:
  explicit Timed(Histogram* histogram) : histogram_(histogram) {
    if (histogram_ != nullptr) [[unlikely]]
      begun_ns_ = monotonic_ns();
  }
  ~Timed() {
    if (histogram_ != nullptr) [[unlikely]]
      histogram_->record(monotonic_ns() - begun_ns_);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  Histogram* const histogram_;
  uint64_t begun_ns_ = 0;
};

}  // namespace kvc
