// SPDX-License-Identifier: Apache-2.0
// The kernel that fills in schedules from the lengths of requests.
#pragma once
#include "kernels/attention_schedule.cuh"
#include "kernels/prefix_sums.cuh"

namespace kvc::gpu {

// Pieces of a request in a class.
KVC_DEVICE uint64_t pieces_of(const AttentionArgs& args, const Schedule& schedule, uint32_t request) {
  const RequestView view = view_request(args, request);
  if (view.queries == 0) return 0;
  if (!is_within(schedule.bounds, view)) return schedule.is_first;
  const uint64_t rows = rows_of(args, view);
  if (rows < schedule.min_rows || rows > schedule.max_rows) return 0;
  return (rows + schedule.tile_rows - 1) / schedule.tile_rows;
}

// One block per class.
KVC_KERNEL(kScheduleThreads, 1) make_schedule(AttentionArgs args, Schedules schedules) {
  KVC_SHARED(uint64_t, sums, kScheduleThreads);
  const Schedule schedule = schedules.of_class[blockIdx.x];
  uint64_t pieces =
      prefix_sums(args.num_requests, schedule.first_piece, sums, [&](uint64_t request) -> uint64_t {
        return pieces_of(args, schedule, static_cast<uint32_t>(request));
      });
  // Requests whose queries overlap may have more pieces than there is room for: nobody knows such a schedule.
  const bool fits = pieces <= schedule.max_pieces;
  if (!fits) pieces = 0;
  const uint64_t units = prefix_sums(pieces, schedule.first_unit, sums, [&](uint64_t piece) -> uint64_t {
    const uint64_t request = last_not_above(schedule.first_piece, args.num_requests, piece);
    schedule.request_of[piece] = static_cast<uint32_t>(request);
    return make_piece(args, schedule, static_cast<uint32_t>(request), piece - schedule.first_piece[request])
               .units *
           args.num_heads;
  });
  if (threadIdx.x == 0) {
    schedule.totals.words[0] = pieces;
    schedule.totals.words[1] = units;
    schedule.totals.words[2] = fits ? schedule.totals.key : ~schedule.totals.key;
  }
}

}  // namespace kvc::gpu
