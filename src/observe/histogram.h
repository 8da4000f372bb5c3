// SPDX-License-Identifier: Apache-2.0
// Durations in log-linear buckets, as HdrHistogram has them: 64 buckets between powers of two, so that the
// middle of a bucket is within 0.8 % of what it holds. A bucket holds the durations above its lower bound up
// to its upper one. Fixed memory; recording is two atomic additions. Any threads record while any read.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvc {

class Histogram {
  static constexpr uint32_t kLinear = 6;  // 2^6 buckets between powers of two
  static constexpr size_t kBuckets = (42 - kLinear + 1) << kLinear;

 public:
  static constexpr uint64_t kMostNs = uint64_t{1} << 42;  // 73 minutes; longer ones count as that

  void record(uint64_t ns) {
    if (ns > kMostNs) ns = kMostNs;
    counts_[index_of(ns)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(ns, std::memory_order_relaxed);
    uint64_t most = max_.load(std::memory_order_relaxed);
    while (ns > most && !max_.compare_exchange_weak(most, ns, std::memory_order_relaxed)) {
    }
  }

  // A copy of the counts, for several questions about the same durations.
  class Reading {
   public:
    explicit Reading(const Histogram& from);
    uint64_t count() const { return count_; }
    uint64_t sum() const { return sum_; }
    uint64_t max() const { return max_; }
    // The least duration, but for the width of a bucket, that this share of all are not above; 0 if there are
    // none. share: above 0, at most 1.
    uint64_t percentile(double share) const;
    // Durations of at most 2^power ns, exactly. power: at most 42.
    uint64_t count_up_to(uint32_t power) const;

   private:
    uint64_t counts_[kBuckets];
    uint64_t count_ = 0, sum_, max_;
  };

 private:
  static size_t index_of(uint64_t ns) {
    const uint64_t below = ns == 0 ? 0 : ns - 1;
    if (below >> kLinear == 0) return below;
    const auto power = static_cast<uint32_t>(63 - __builtin_clzll(below));
    return ((power - kLinear) << kLinear) + (below >> (power - kLinear));
  }

  std::atomic<uint64_t> counts_[kBuckets] = {}, sum_{0}, max_{0};
};

}  // namespace kvc
