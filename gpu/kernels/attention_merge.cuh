// SPDX-License-Identifier: Apache-2.0
// Parts become results: sums weighted by exp(lse - largest lse), in the order of their tokens.
#pragma once
#include "kernels/attention_part.cuh"

namespace kvc::gpu {

inline constexpr uint32_t kMergeThreads = 128;

// Natural log-sum-exp of parts of which `top` is the largest one, and whose weights are `total` in sum.
KVC_DEVICE float merged_lse(float top, float total) {
  return total == 0 ? minus_infinity() : top + log2_fast(total) * kLn2;
}

// Slots of a (piece, head) that was cut: units [begin, end) of all.
struct CutSlots {
  const Schedule& schedule;
  uint64_t begin, units;  // units: of the whole class
  uint32_t first_owner;

  KVC_DEVICE uint64_t slot(uint64_t i) const {
    if (schedule.invariant != 0) return begin + i;
    return 2 * (first_owner + i) + (i == 0 ? 1 : 0);
  }
};

// Parts whose loads are under way together.
inline constexpr uint32_t kMergeInFlight = 8;

// Blocks with the same x and y share the elements of a (piece, head).
KVC_KERNEL(kMergeThreads, 8) merge_parts(AttentionArgs args, Schedules schedules) {
  const Schedule schedule = schedules.of_class[blockIdx.y];
  const uint64_t pieces = schedule.totals[0], units = schedule.totals[1];
  for (uint64_t i = blockIdx.x; i < pieces * args.num_heads; i += gridDim.x) {
    const uint64_t index = i / args.num_heads;
    const uint64_t first = schedule.first_unit[index];
    const uint64_t of_head = (schedule.first_unit[index + 1] - first) / args.num_heads;
    Part part;
    part.head = static_cast<uint32_t>(i % args.num_heads);
    const uint64_t begin = first + part.head * of_head;
    const uint32_t first_owner = owner_of(units, schedule.num_blocks, begin);
    const uint64_t parts = schedule.invariant != 0
                               ? of_head
                               : owner_of(units, schedule.num_blocks, begin + of_head - 1) - first_owner + 1;
    if (parts == 1) continue;
    const CutSlots slots{schedule, begin, units, first_owner};
    const uint32_t request = schedule.request_of[index];
    part.piece = make_piece(args, schedule, request, index - schedule.first_piece[request]);
    part.slot = -1;
    const PartOutput output{args, schedule, part};
    for (uint32_t at = blockIdx.z * kMergeThreads + threadIdx.x; at < part.piece.rows * args.v_dim;
         at += gridDim.z * kMergeThreads) {
      const uint32_t r = at / args.v_dim, e = at % args.v_dim;
      float top = minus_infinity(), total = 0, sum = 0;
#pragma unroll kMergeInFlight
      for (uint64_t p = 0; p < parts; ++p)
        top = greater(top, schedule.part_lse[slots.slot(p) * schedule.tile_rows + r]);
#pragma unroll kMergeInFlight
      for (uint64_t p = 0; p < parts; ++p) {
        const uint64_t row = slots.slot(p) * schedule.tile_rows + r;
        const float lse = schedule.part_lse[row];
        const bool empty = lse == minus_infinity();  // what stands in its row may be anything
        const float weight = empty ? 0 : exp2_fast((lse - top) * kLog2e);
        const float value = empty ? 0 : schedule.part_out[row * args.v_dim + e];
        total += weight;
        sum += weight * value;
      }
      const RowEnd end = output.end(r, merged_lse(top, total), total);
      output.row(r).put(e, sum * end.factor);
      if (e == 0) output.put_lse(r, end.lse);
    }
  }
}

KVC_KERNEL(kMergeThreads, 8) merge_rows(MergeArgs args) {
  uint64_t rows = args.num_rows;
  if (args.num_queries != nullptr && *args.num_queries < rows / args.num_heads)
    rows = *args.num_queries * args.num_heads;
  const int32_t dtype = args.out_dtype != 0 ? args.out_dtype : args.dtype;
  for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float top = minus_infinity();
    for (uint64_t p = 0; p < args.num_partials; ++p) {
      const float lse = args.lses[p * args.num_rows + row];
      top = lse > top ? lse : top;
    }
    float total = 0;
    for (uint64_t p = 0; p < args.num_partials; ++p) {
      const float lse = args.lses[p * args.num_rows + row];
      if (lse != minus_infinity()) total += exp2_fast((lse - top) * kLog2e);
    }
    const uint64_t query = row / args.num_heads;
    const auto head = static_cast<uint32_t>(row % args.num_heads);
    RowEnd end{total == 0 ? 0 : 1 / total, merged_lse(top, total)};
    if (args.sink_logits != nullptr) end = with_sink(end, args.sink_logits[head]);
    const uint64_t to = query * args.out_token_stride + head * args.out_head_stride;
    for (uint32_t e = threadIdx.x; e < args.dim; e += kMergeThreads) {
      float sum = 0;
      for (uint64_t p = 0; p < args.num_partials; ++p) {
        const float lse = args.lses[p * args.num_rows + row];
        if (lse == minus_infinity()) continue;  // what stands in its row may be anything
        sum += exp2_fast((lse - top) * kLog2e) *
               load_float(args.dtype, args.outs, (p * args.num_rows + row) * args.dim + e);
      }
      store_float(dtype, args.out, to + e, sum * end.factor);
    }
    sync_block();  // lses may be lse
    if (threadIdx.x == 0 && args.lse != nullptr) args.lse[row] = end.lse;
  }
}

}  // namespace kvc::gpu
