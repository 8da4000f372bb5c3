// SPDX-License-Identifier: Apache-2.0
// The kernel that fills in schedules from the lengths of requests.
#pragma once
#include "kernels/attention_schedule.cuh"

namespace kvc::gpu {

inline constexpr uint32_t kScheduleThreads = 256;

// first[i + 1] = first[0] + value(0) + ... + value(i), in one block.
template <typename Value>
KVC_DEVICE uint64_t prefix_sums(uint64_t n, uint64_t* first, uint64_t* sums, Value&& value) {
  uint64_t before = 0;
  for (uint64_t chunk = 0; chunk < n; chunk += kScheduleThreads) {
    const uint64_t i = chunk + threadIdx.x;
    sums[threadIdx.x] = i < n ? value(i) : 0;
    sync_block();
    for (uint32_t step = 1; step < kScheduleThreads; step *= 2) {
      const uint64_t left = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
      sync_block();
      sums[threadIdx.x] += left;
      sync_block();
    }
    if (i < n) first[i + 1] = before + sums[threadIdx.x];
    before += sums[kScheduleThreads - 1];
    sync_block();
  }
  if (threadIdx.x == 0) first[0] = 0;
  sync_block();
  return before;
}

// One block per class.
KVC_KERNEL(kScheduleThreads, 1) make_schedule(AttentionArgs args, Schedules schedules) {
  KVC_SHARED(uint64_t, sums, kScheduleThreads);
  const Schedule schedule = schedules.of_class[blockIdx.x];
  const uint64_t pieces =
      prefix_sums(args.num_requests, schedule.first_piece, sums, [&](uint64_t request) -> uint64_t {
        const uint64_t rows = rows_of(args, view_request(args, static_cast<uint32_t>(request)));
        const bool mine = rows != 0 && rows >= schedule.min_rows && rows <= schedule.max_rows;
        return mine ? (rows + schedule.tile_rows - 1) / schedule.tile_rows : 0;
      });
  const uint64_t units = prefix_sums(pieces, schedule.first_unit, sums, [&](uint64_t piece) -> uint64_t {
    const uint64_t request = last_not_above(schedule.first_piece, args.num_requests, piece);
    schedule.request_of[piece] = static_cast<uint32_t>(request);
    return make_piece(args, schedule, static_cast<uint32_t>(request), piece - schedule.first_piece[request])
               .units *
           args.num_heads;
  });
  if (threadIdx.x == 0) {
    schedule.totals[0] = pieces;
    schedule.totals[1] = units;
  }
}

}  // namespace kvc::gpu
