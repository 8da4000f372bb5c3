// SPDX-License-Identifier: Apache-2.0
// Prefix sums by one block of threads: where each piece of work begins.
#pragma once
#include "portable.h"

namespace kvc::gpu {

inline constexpr uint32_t kPlanThreads = 256;

// Inclusive prefix sums in place. Called by all kWidth threads of a block after each has written its element.
template <uint32_t kWidth, typename Sum>
KVC_DEVICE void inclusive_sum(Sum* sums) {
  sync_block();
  for (uint32_t step = 1; step < kWidth; step *= 2) {
    const Sum left = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
    sync_block();
    sums[threadIdx.x] += left;
    sync_block();
  }
}

// first[i + 1] = first[0] + value(0) + ... + value(i), in one block.
template <typename Value>
KVC_DEVICE uint64_t prefix_sums(uint64_t n, uint64_t* first, uint64_t* sums, Value&& value) {
  uint64_t before = 0;
  for (uint64_t chunk = 0; chunk < n; chunk += kPlanThreads) {
    const uint64_t i = chunk + threadIdx.x;
    sums[threadIdx.x] = i < n ? value(i) : 0;
    inclusive_sum<kPlanThreads>(sums);
    if (i < n) first[i + 1] = before + sums[threadIdx.x];
    before += sums[kPlanThreads - 1];
    sync_block();
  }
  if (threadIdx.x == 0) first[0] = 0;
  sync_block();
  return before;
}

}  // namespace kvc::gpu
