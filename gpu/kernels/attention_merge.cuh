// SPDX-License-Identifier: Apache-2.0
// Merges parts into results: sums weighted by exp(lse - largest lse), in the order of their tokens.
#pragma once
#include "kernels/attention_part.cuh"

namespace kvc::gpu {

inline constexpr uint32_t kMergeThreads = 128;

// Natural log-sum-exp of parts: `row_max` is their largest, `row_sum` the sum of their weights.
KVC_DEVICE float merged_lse(float row_max, float row_sum) {
  return row_sum == 0 ? minus_infinity() : row_max + log2_fast(row_sum) * kLn2;
}

// Parts in the workspace of a (piece, head) that was split.
struct SplitParts {
  const Plan& plan;
  uint64_t begin, units;  // units: of the whole class
  uint32_t first_owner;

  KVC_DEVICE uint64_t index(uint64_t i) const {
    if (plan.invariant != 0) return begin + i;
    return 2 * (first_owner + i) + (i == 0 ? 1 : 0);
  }
};

// Elements of a lane, and parts whose elements are loaded at the same time.
inline constexpr uint32_t kMergeElements = 4, kMergeInFlight = 8;

// Blocks with the same x and y share the rows of one (piece, head). A wave takes a row, or a chunk of it.
KVC_KERNEL(kMergeThreads, 8) merge_parts(AttentionArgs args, Plans plans) {
  const Plan plan = plans.of_class[blockIdx.y];
  const uint64_t pieces = plan.totals[0], units = plan.totals[1];
  for (uint64_t i = blockIdx.x; i < pieces * args.num_heads; i += gridDim.x) {
    const uint64_t index = i / args.num_heads;
    const uint64_t first = plan.first_unit[index];
    const uint64_t of_head = (plan.first_unit[index + 1] - first) / args.num_heads;
    Part part;
    part.head = static_cast<uint32_t>(i % args.num_heads);
    const uint64_t begin = first + part.head * of_head;
    const uint32_t first_owner = owner_of(units, plan.num_blocks, begin);
    const uint64_t parts = plan.invariant != 0
                               ? of_head
                               : owner_of(units, plan.num_blocks, begin + of_head - 1) - first_owner + 1;
    if (parts == 1) continue;
    const SplitParts split{plan, begin, units, first_owner};
    const uint32_t request = plan.request_of[index];
    part.piece = make_piece(args, plan, request, index - plan.first_piece[request]);
    part.index = -1;
    const PartOutput output{args, plan, part};
    const uint32_t chunks = (args.v_dim + kMergeElements * kWave - 1) / (kMergeElements * kWave);
    for (uint32_t at = blockIdx.z * (kMergeThreads / kWave) + wave(); at < part.piece.rows * chunks;
         at += gridDim.z * (kMergeThreads / kWave)) {
      const uint32_t r = at / chunks, element = at % chunks * kMergeElements * kWave + lane();
      float row_max = minus_infinity();
      for (uint64_t p = lane(); p < parts; p += kWave)
        row_max = greater(row_max, plan.part_lse[split.index(p) * plan.tile_rows + r]);
      row_max = team_greatest(row_max, kWave);
      float row_sum = 0, sums[kMergeElements] = {};
#pragma unroll kMergeInFlight
      for (uint64_t p = 0; p < parts; ++p) {
        const uint64_t row = split.index(p) * plan.tile_rows + r;
        const float lse = plan.part_lse[row];
        const bool empty = lse == minus_infinity();  // its row is undefined
        const float weight = empty ? 0 : exp2_fast((lse - row_max) * kLog2e);
        row_sum += weight;
#pragma unroll
        for (uint32_t n = 0; n < kMergeElements; ++n) {
          const uint32_t e = element + n * kWave;
          const float value = e < args.v_dim ? plan.part_out[row * args.v_dim + e] : 0;
          sums[n] += empty ? 0 : weight * value;
        }
      }
      const RowEnd end = output.end(r, merged_lse(row_max, row_sum), row_sum);
      const OutputRow row = output.row(r);
#pragma unroll
      for (uint32_t n = 0; n < kMergeElements; ++n) {
        if (element + n * kWave < args.v_dim) row.put(element + n * kWave, sums[n] * end.factor);
      }
      if (element == 0) output.put_lse(r, end.lse);
    }
  }
}

KVC_KERNEL(kMergeThreads, 8) merge_rows(MergeArgs args) {
  uint64_t rows = args.num_rows;
  if (args.num_queries != nullptr && *args.num_queries < rows / args.num_heads)
    rows = *args.num_queries * args.num_heads;
  const int32_t dtype = args.out_dtype != 0 ? args.out_dtype : args.dtype;
  for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float row_max = minus_infinity();
    for (uint64_t p = 0; p < args.num_partials; ++p) {
      const float lse = args.lses[p * args.num_rows + row];
      row_max = lse > row_max ? lse : row_max;
    }
    float row_sum = 0;
    for (uint64_t p = 0; p < args.num_partials; ++p) {
      const float lse = args.lses[p * args.num_rows + row];
      if (lse != minus_infinity()) row_sum += exp2_fast((lse - row_max) * kLog2e);
    }
    const uint64_t query = row / args.num_heads;
    const auto head = static_cast<uint32_t>(row % args.num_heads);
    RowEnd end{row_sum == 0 ? 0 : 1 / row_sum, merged_lse(row_max, row_sum)};
    if (args.sink_logits != nullptr) end = with_sink(end, args.sink_logits[head]);
    const uint64_t to = query * args.out_token_stride + head * args.out_head_stride;
    for (uint32_t e = threadIdx.x; e < args.dim; e += kMergeThreads) {
      float sum = 0;
      for (uint64_t p = 0; p < args.num_partials; ++p) {
        const float lse = args.lses[p * args.num_rows + row];
        if (lse == minus_infinity()) continue;  // its row is undefined
        sum += exp2_fast((lse - row_max) * kLog2e) *
               load_float(args.dtype, args.outs, (p * args.num_rows + row) * args.dim + e);
      }
      store_float(dtype, args.out, to + e, sum * end.factor);
    }
    sync_block();  // `lse` may be in `lses`
    if (threadIdx.x == 0 && args.lse != nullptr) args.lse[row] = end.lse;
  }
}

}  // namespace kvc::gpu
