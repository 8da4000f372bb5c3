// SPDX-License-Identifier: Apache-2.0
// The kernels of select.h, and how they are launched. Bounds become integers of the same order and lie in the
// workspace by column.
#include "base/carver.h"
#include "base/checked.h"
#include "kernels/attention_plain.cuh"
#include "kernels/prefix_sums.cuh"
#include "kernels/rows.cuh"
#include "kernels/select.h"
#include "kernels/select_candidates.cuh"
#include "kernels/select_pick.cuh"

namespace kvc::gpu {
namespace {

constexpr uint32_t kBoundThreads = kPlainThreads;  // that hadamard_rows() works with
constexpr uint32_t kTeam = 8;    // lanes that share a block's bounds, 8 elements each at a time
constexpr uint32_t kBlocks = 2;  // of a team at once
constexpr uint32_t kUnit = kBoundThreads / kTeam * kBlocks;  // blocks of one request and head
constexpr uint32_t kMaxRows = 8;                             // of queries at once
constexpr uint32_t kSharedBytes = 48 << 10;                  // that every device has

Selection make_selection(const SelectionArgs& args, const AttentionLimits& limits, Carver<16>* carver) {
  const AttentionArgs& a = args.attention;
  Selection made = {};
  made.limits = limits;
  made.columns = ceil_div(limits.max_kv_len, a.block_size.value);
  made.tile_rows = std::min(kMaxRows, kSharedBytes / (a.k_dim * static_cast<uint32_t>(sizeof(float))));
  carver->take(&made.first_unit, uint64_t{a.num_requests} + 1);
  carver->take(&made.bounds, uint64_t{a.num_requests} * a.num_heads * made.columns);
  carver->take(&made.best, limits.total_queries * a.num_q_heads);
  return made;
}

KVC_KERNEL(kPlanThreads, 1)
plan_selection(KVC_ARGUMENT(SelectionArgs) args, KVC_ARGUMENT(Selection) selection) {
  KVC_SHARED(uint64_t, sums, kPlanThreads);
  prefix_sums(args.attention.num_requests, selection.first_unit, sums, [&](uint64_t request) -> uint64_t {
    const uint32_t blocks = find_candidates(args, selection.limits, static_cast<uint32_t>(request)).scored();
    return uint64_t{blocks + kUnit - 1} / kUnit * args.attention.num_heads;
  });
}

struct alignas(16) Floats {
  float x[4];
};

// 8 bounds of a row from `at` on as floats; past its end 0.
template <bool kVector>
KVC_DEVICE void load_bounds(const uint16_t* row, uint32_t at, uint32_t dim, float (&values)[8]) {
  using Half = Element<KVC_FLOAT16>;
  if constexpr (kVector) {
    const auto raw = *reinterpret_cast<const Words<16>*>(row + at);
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) values[i] = Half::decode(raw.words[i / 2] >> i % 2 * 16 & 0xFFFF);
  } else {
    for (uint32_t i = 0; i < 8; ++i) values[i] = at + i < dim ? Half::decode(row[at + i]) : 0;
  }
}

template <bool kVector>
KVC_DEVICE void load_queries(const float* row, uint32_t at, uint32_t dim, float (&values)[8]) {
  if constexpr (kVector) {
    const auto* pair = reinterpret_cast<const Floats*>(row + at);
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) values[i] = pair[i / 4].x[i % 4];
  } else {
    for (uint32_t i = 0; i < 8; ++i) values[i] = at + i < dim ? row[at + i] : 0;
  }
}

// Products of `rows` queries, in shared memory, with bounds of kBlocks blocks, of which the lane adds up its
// elements: the positive part of a query with the largest keys, the negative part with the smallest.
template <bool kVector>
KVC_DEVICE void multiply(const float* q, uint32_t rows, uint32_t dim,
                         const uint16_t* const (&bounds)[kBlocks], float (&sums)[kMaxRows][kBlocks]) {
  for (uint32_t at = lane() % kTeam * 8; at < dim; at += kTeam * 8) {
    float largest[kBlocks][8], smallest[kBlocks][8];
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b) {
      load_bounds<kVector>(bounds[b], at, dim, largest[b]);
      load_bounds<kVector>(bounds[b] + dim, at, dim, smallest[b]);
    }
#pragma unroll
    for (uint32_t r = 0; r < kMaxRows; ++r) {
      if (r >= rows) continue;
      float x[8];
      load_queries<kVector>(q + r * dim, at, dim, x);
#pragma unroll
      for (uint32_t i = 0; i < 8; ++i) {
        const float positive = x[i] < 0 ? 0 : x[i], negative = x[i] < 0 ? x[i] : 0;  // a NaN stays one
#pragma unroll
        for (uint32_t b = 0; b < kBlocks; ++b)
          sums[r][b] += positive * largest[b][i] + negative * smallest[b][i];
      }
    }
  }
}

// Where the best product of row m of a request and head lies.
KVC_DEVICE uint64_t row_of_best(const AttentionArgs& a, uint32_t request, uint32_t head, uint64_t m) {
  const uint32_t group = a.num_q_heads / a.num_heads;
  return (a.q_offsets[request] + m / group) * a.num_q_heads + head * group + m % group;
}

// Rows first .. first + rows - 1 of a request and head, scaled, to shared memory. Row m is query m / group
// and query head m % group of the KV head.
KVC_DEVICE void load_rows(const AttentionArgs& a, uint32_t request, uint32_t head, uint64_t first,
                          uint32_t rows, float* q) {
  const uint32_t dim = a.k_dim, group = a.num_q_heads / a.num_heads;
  sync_block();  // what was there is no longer read
  for (uint32_t i = threadIdx.x; i < rows * dim; i += kBoundThreads) {
    const uint64_t m = first + i / dim;
    const uint64_t row =
        (a.q_offsets[request] + m / group) * a.q_token_stride + (head * group + m % group) * a.q_head_stride;
    q[i] = load_float(a.q_dtype, a.q, row + i % dim);
  }
  if (a.hadamard != 0) hadamard_rows(q, rows, dim);
  sync_block();
  for (uint32_t i = threadIdx.x; i < rows * dim; i += kBoundThreads) q[i] *= a.scale;
  sync_block();
}

KVC_KERNEL(kPlanThreads, 1)
forget_best(KVC_ARGUMENT(Selection) selection, KVC_ARGUMENT(uint64_t) rows) {
  const uint64_t first = uint64_t{blockIdx.x} * kPlanThreads + threadIdx.x;
  for (uint64_t i = first; i < rows; i += uint64_t{gridDim.x} * kPlanThreads)
    selection.best[i] = ordered(minus_infinity());
}

enum class Pass : uint32_t {
  kBounds,  // writes the highest bound of each block
  kBest,    // writes the highest finite bound of each query
  kClose    // writes which blocks are close to it
};

template <bool kVector, Pass kPass>
KVC_KERNEL(kBoundThreads, 2)
bound_blocks(KVC_ARGUMENT(SelectionArgs) args, KVC_ARGUMENT(Selection) selection) {
  KVC_DYNAMIC_SHARED(float, q);  // [tile_rows][k_dim]
  const AttentionArgs& a = args.attention;
  const Share share = share_of(selection.first_unit[a.num_requests], gridDim.x, blockIdx.x);
  const uint64_t no_rows = ~uint64_t{0};
  uint64_t loaded_of = no_rows, loaded = no_rows;
  for (uint64_t unit = share.begin; unit < share.end; ++unit) {
    const auto request = static_cast<uint32_t>(last_not_above(selection.first_unit, a.num_requests, unit));
    const Candidates candidates = find_candidates(args, selection.limits, request);
    const uint32_t units = (candidates.count + kUnit - 1) / kUnit;
    const uint64_t at = unit - selection.first_unit[request];
    const auto head = static_cast<uint32_t>(at / units);
    const uint32_t first = static_cast<uint32_t>(at % units) * kUnit + threadIdx.x / kTeam;
    const uint64_t row_of_mask = uint64_t{request} * a.num_heads + head;

    uint32_t column[kBlocks];
    const uint16_t* bounds[kBlocks];
    float best[kBlocks];
    uint32_t close[kBlocks] = {};
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const uint32_t i = first + b * (kUnit / kBlocks);  // past the end the last one
      column[b] = candidates.column(i < candidates.count ? i : candidates.count - 1);
      const auto block = static_cast<uint64_t>(a.block_tables[request * a.table_stride + column[b]]);
      bounds[b] = args.bounds + (block * a.num_heads + head) * 2 * a.k_dim;
      best[b] = minus_infinity();
    }
    const uint64_t rows = (a.q_offsets[request + 1] - a.q_offsets[request]) * (a.num_q_heads / a.num_heads);
    for (uint64_t row = 0; row < rows; row += selection.tile_rows) {
      const uint32_t count =
          rows - row < selection.tile_rows ? static_cast<uint32_t>(rows - row) : selection.tile_rows;
      if (loaded_of != row_of_mask || loaded != row) load_rows(a, request, head, row, count, q);
      loaded_of = row_of_mask, loaded = row;
      float sums[kMaxRows][kBlocks] = {};
      multiply<kVector>(q, count, a.k_dim, bounds, sums);
#pragma unroll
      for (uint32_t r = 0; r < kMaxRows; ++r) {
        if (r >= count) continue;
        uint32_t* const of_query = &selection.best[row_of_best(a, request, head, row + r)];
        const float least = kPass == Pass::kClose ? from_ordered(*of_query) - args.threshold : 0;
        float greatest = minus_infinity();
#pragma unroll
        for (uint32_t b = 0; b < kBlocks; ++b) {
          const float sum = team_sum(sums[r][b], kTeam);
          const float bound = is_nan(sum) ? -minus_infinity() : sum;
          if (kPass == Pass::kBounds) best[b] = best[b] < bound ? bound : best[b];
          if (kPass == Pass::kBest && bound < -minus_infinity()) greatest = greater(greatest, bound);
          if (kPass == Pass::kClose) close[b] |= bound >= least ? 1 : 0;
        }
        if (kPass != Pass::kBest) continue;
        greatest = team_greatest(greatest, kWave);
        if (lane() == 0) atomic_max(of_query, ordered(greatest));
      }
    }
    if (lane() % kTeam == 0 && kPass != Pass::kBest) {
#pragma unroll
      for (uint32_t b = 0; b < kBlocks; ++b)
        selection.bounds[row_of_mask * selection.columns + column[b]] =
            kPass == Pass::kClose ? close[b] : ordered(best[b]);
    }
  }
}

}  // namespace

uint64_t selection_workspace_bytes(const SelectionArgs& args, const AttentionLimits& limits) {
  Carver<16> carver(nullptr);
  make_selection(args, limits, &carver);
  return carver.used();
}

int launch_selection(const SelectionArgs& args, const AttentionLimits& limits, void* workspace,
                     Stream stream) {
  const AttentionArgs& a = args.attention;
  const uint64_t rows = uint64_t{a.num_requests} * a.num_heads;
  if (rows == 0) return 0;
  Carver<16> carver(workspace);
  const Selection selection = make_selection(args, limits, &carver);
  int error = launch(plan_selection, {1}, kPlanThreads, 0, stream, args, selection);
  if (error != 0) return error;
  const uint64_t queries = limits.total_queries * a.num_q_heads;
  const uint64_t units = queries == 0 ? 0 : rows * ceil_div(selection.columns, kUnit);
  const Grid grid{static_cast<uint32_t>(std::min(units, 4 * uint64_t{limits.num_multiprocessors}))};
  const bool vector = a.k_dim % 8 == 0 && reinterpret_cast<uintptr_t>(args.bounds) % 16 == 0;
  const auto bound = [&](auto* kernel) {
    return launch(kernel, grid, kBoundThreads, selection.tile_rows * a.k_dim * sizeof(float), stream, args,
                  selection);
  };
  if (units != 0 && args.threshold == 0) {
    error = bound(vector ? bound_blocks<true, Pass::kBounds> : bound_blocks<false, Pass::kBounds>);
  } else if (units != 0) {
    error =
        launch(forget_best, {blocks_for(queries, kPlanThreads)}, kPlanThreads, 0, stream, selection, queries);
    if (error == 0)
      error = bound(vector ? bound_blocks<true, Pass::kBest> : bound_blocks<false, Pass::kBest>);
    if (error == 0)
      error = bound(vector ? bound_blocks<true, Pass::kClose> : bound_blocks<false, Pass::kClose>);
  }
  if (error != 0) return error;
  return launch(pick_blocks, {blocks_for(rows, 1)}, kPickThreads, 0, stream, args, selection);
}

}  // namespace kvc::gpu
