// SPDX-License-Identifier: Apache-2.0
#include "kernels/swap_choice.h"

#include <algorithm>

namespace kvc::gpu {
namespace {

// The middle one of three: a measurement may be disturbed, but seldom two.
double measure_thrice(const SwapChoice::Measure& measure, SwapPath path, const Swap& swap) {
  uint64_t times[3];
  for (uint64_t& time : times) time = measure(path, swap);
  std::sort(times, times + 3);
  return static_cast<double>(times[1]);
}

}  // namespace

SwapChoice::Cost SwapChoice::measure_cost(const Measure& measure, SwapPath path, bool out) {
  Cost cost = {};
  for (size_t i = 0; i < kNumSizes; ++i) {
    const uint64_t many = std::min<uint64_t>(64, kMostBytes / kSizes[i]);
    const double one = measure_thrice(measure, path, {out, kSizes[i], 1});
    const double all = measure_thrice(measure, path, {out, kSizes[i], many});
    if (one == 0 || all == 0) return {};
    cost.run[i] = std::max(0.0, all - one) / static_cast<double>(many - 1);
    if (i == 0) cost.fixed = std::max(0.0, one - cost.run[0]);
  }
  cost.possible = true;
  return cost;
}

void SwapChoice::calibrate(const Measure& measure) {
  for (const SwapPath path : {SwapPath::kCopyEngine, SwapPath::kKernel}) {
    for (const bool out : {false, true})
      costs_[path == SwapPath::kKernel][out] = measure_cost(measure, path, out);
  }
  measured_ = true;
}

double SwapChoice::nanoseconds(SwapPath path, const Swap& swap) const {
  const Cost& of = cost(path, swap.out);
  const auto bytes = static_cast<double>(swap.run_bytes);
  // Between two measured sizes on the line through both; outside of them on that of the nearest two, but
  // never less than the smallest.
  size_t i = 0;
  while (i + 2 < kNumSizes && swap.run_bytes > kSizes[i + 1]) ++i;
  const auto low = static_cast<double>(kSizes[i]), high = static_cast<double>(kSizes[i + 1]);
  const double slope = std::max(0.0, of.run[i + 1] - of.run[i]) / (high - low);
  const double run = of.run[i] + slope * (std::max(bytes, static_cast<double>(kSizes[0])) - low);
  return of.fixed + static_cast<double>(swap.num_runs) * run;
}

SwapPath SwapChoice::choose(const Swap& swap) const {
  const bool engine = cost(SwapPath::kCopyEngine, swap.out).possible;
  const bool kernel = cost(SwapPath::kKernel, swap.out).possible;
  if (!measured_ || (!engine && !kernel))
    return swap.run_bytes < kLargeRun ? SwapPath::kKernel : SwapPath::kCopyEngine;
  if (!engine || !kernel) return engine ? SwapPath::kCopyEngine : SwapPath::kKernel;
  // The copy engine leaves the processors to other kernels: it is the choice where both are the same.
  return nanoseconds(SwapPath::kKernel, swap) < nanoseconds(SwapPath::kCopyEngine, swap)
             ? SwapPath::kKernel
             : SwapPath::kCopyEngine;
}

uint64_t SwapChoice::kernel_below(bool out) const {
  constexpr uint64_t kLeast = 512, kMany = 1024;
  for (uint64_t bytes = kLeast; bytes <= kSizes[kNumSizes - 1]; bytes *= 2) {
    if (choose({out, bytes, kMany}) == SwapPath::kCopyEngine) return bytes == kLeast ? 0 : bytes;
  }
  return UINT64_MAX;
}

}  // namespace kvc::gpu
