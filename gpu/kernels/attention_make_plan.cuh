// SPDX-License-Identifier: Apache-2.0
// The kernel that fills in plans from the lengths of requests.
#pragma once
#include "kernels/attention_plan.cuh"
#include "kernels/prefix_sums.cuh"

namespace kvc::gpu {

// Pieces of a request in a class.
KVC_DEVICE uint64_t pieces_of(const AttentionArgs& args, const Plan& plan, uint32_t request) {
  const RequestView view = view_request(args, request);
  if (view.queries == 0) return 0;
  if (!is_within(plan.bounds, view)) return plan.is_first;
  const uint64_t rows = rows_of(args, view);
  if (rows < plan.min_rows || rows > plan.max_rows) return 0;
  return (rows + plan.tile_rows - 1) / plan.tile_rows;
}

// One block per class.
KVC_KERNEL(kPlanThreads, 1) make_plan(AttentionArgs args, Plans plans) {
  KVC_SHARED(uint64_t, sums, kPlanThreads);
  const Plan plan = plans.of_class[blockIdx.x];
  uint64_t pieces = prefix_sums(args.num_requests, plan.first_piece, sums, [&](uint64_t request) -> uint64_t {
    return pieces_of(args, plan, static_cast<uint32_t>(request));
  });
  // Requests whose queries overlap may have more pieces than there is room for: the plan is then invalid.
  const bool fits = pieces <= plan.max_pieces;
  if (!fits) pieces = 0;
  const uint64_t units = prefix_sums(pieces, plan.first_unit, sums, [&](uint64_t piece) -> uint64_t {
    const uint64_t request = last_not_above(plan.first_piece, args.num_requests, piece);
    plan.request_of[piece] = static_cast<uint32_t>(request);
    return make_piece(args, plan, static_cast<uint32_t>(request), piece - plan.first_piece[request]).units *
           args.num_heads;
  });
  if (threadIdx.x == 0) {
    plan.totals.words[0] = pieces;
    plan.totals.words[1] = units;
    plan.totals.words[2] = fits ? plan.totals.key : ~plan.totals.key;
  }
}

}  // namespace kvc::gpu
