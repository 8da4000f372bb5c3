// SPDX-License-Identifier: Apache-2.0
#include "observe/histogram.h"

#include <algorithm>
#include <cmath>

namespace kvc {

Histogram::Reading::Reading(const Histogram& from) : sum_(from.sum_.load(std::memory_order_relaxed)) {
  for (size_t i = 0; i < kBuckets; ++i) {
    counts_[i] = from.counts_[i].load(std::memory_order_relaxed);
    count_ += counts_[i];
  }
  max_ = from.max_.load(std::memory_order_relaxed);
}

uint64_t Histogram::Reading::percentile(double share) const {
  const double wanted = std::ceil(share * static_cast<double>(count_));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (counts_[i] == 0 || static_cast<double>(seen) < wanted) continue;
    const size_t power = i < (size_t{2} << kLinear) ? 0 : (i >> kLinear) - 1;
    const uint64_t lower = (i - (power << kLinear)) << power, width = uint64_t{1} << power;
    return std::min(lower + (width + 1) / 2, max_);
  }
  return 0;
}

uint64_t Histogram::Reading::count_up_to(uint32_t power) const {
  const size_t end = std::min(index_of((uint64_t{1} << power) + 1), kBuckets);
  uint64_t count = 0;
  for (size_t i = 0; i < end; ++i) count += counts_[i];
  return count;
}

}  // namespace kvc
