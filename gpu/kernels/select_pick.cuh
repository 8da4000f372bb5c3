// SPDX-License-Identifier: Apache-2.0
// The best of the blocks whose bounds are known. Bounds and columns together are numbers of 64 bits, no two
// of which are equal; the least one that is picked is found digit by digit.
#pragma once
#include "kernels/select_candidates.cuh"

namespace kvc::gpu {

inline constexpr uint32_t kPickThreads = 512;
inline constexpr uint32_t kDigits = 256;

// What is in the workspace, and how the work is cut.
struct Selection {
  AttentionBounds limits;
  uint64_t* first_unit;  // [num_requests + 1]
  uint32_t* bounds;  // [num_requests][num_heads][columns], as ordered(); with a threshold 1 = picked, or 0
  uint32_t* best;    // with a threshold: [total_queries][num_q_heads], as ordered()
  uint64_t columns;
  uint32_t tile_rows;
};

// Greater for greater bounds, which are sums from +0 on and therefore never -0.
KVC_DEVICE uint32_t ordered(float bound) {
  const uint32_t bits = float_bits(bound);
  return bits ^ (bits >> 31 != 0 ? 0xFFFFFFFFu : 0x80000000u);
}
KVC_DEVICE float from_ordered(uint32_t bits) {
  return bits_float(bits ^ (bits >> 31 != 0 ? 0x80000000u : 0xFFFFFFFFu));
}
// The same with the column: of equal bounds the first is the greatest.
KVC_DEVICE uint64_t rank_of(const uint32_t* bounds, uint32_t column) {
  return uint64_t{bounds[column]} << 32 | (0xFFFFFFFFu - column);
}

// The digit in which the `need` greatest of what is counted end, and how many have a greater one. By one
// wave.
KVC_DEVICE void find_digit(const uint32_t* counts, uint32_t need, uint32_t* digit, uint32_t* above) {
  constexpr uint32_t kEach = kDigits / kWave;
  const uint32_t highest = kDigits - 1 - lane() * kEach;  // of the lane, which counts down
  uint32_t own = 0;
  for (uint32_t i = 0; i < kEach; ++i) own += counts[highest - i];
  uint32_t before = own;
  for (uint32_t distance = 1; distance < kWave; distance *= 2) {
    const uint32_t other = shuffle_up(before, distance);
    if (lane() >= distance) before += other;
  }
  before -= own;
  if (before >= need || before + own < need) return;  // another lane's
  uint32_t i = 0;
  while (before + counts[highest - i] < need) before += counts[highest - i++];
  *digit = highest - i;
  *above = before;
}

// The rank from which on there are as many candidates as are wanted.
KVC_DEVICE uint64_t find_least(const Candidates& candidates, const uint32_t* bounds, uint32_t* counts,
                               uint32_t* found) {
  uint64_t least = 0;
  uint32_t need = candidates.wanted;
  for (uint32_t shift = 56;; shift -= 8) {
    if (threadIdx.x < kDigits) counts[threadIdx.x] = 0;
    sync_block();
    for (uint32_t i = threadIdx.x; i < candidates.count; i += kPickThreads) {
      const uint64_t rank = rank_of(bounds, candidates.column(i));
      if ((rank ^ least) >> shift < kDigits) atomic_add(&counts[rank >> shift & (kDigits - 1)], 1u);
    }
    sync_block();
    if (wave() == 0) find_digit(counts, need, &found[0], &found[1]);
    sync_block();
    const uint32_t digit = found[0];
    least |= uint64_t{digit} << shift;
    need -= found[1];
    const bool all = counts[digit] == need;  // with this digit are picked; always so in the last one
    sync_block();
    if (all) return least;
  }
}

KVC_KERNEL(kPickThreads, 2)
pick_blocks(KVC_ARGUMENT(SelectionArgs) args, KVC_ARGUMENT(Selection) selection) {
  KVC_SHARED(uint32_t, counts, kDigits);
  KVC_SHARED(uint32_t, found, 2);
  const AttentionArgs& a = args.attention;
  const uint64_t rows = uint64_t{a.num_requests} * a.num_heads;
  for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const Candidates candidates =
        find_candidates(args, selection.limits, static_cast<uint32_t>(row / a.num_heads));
    const uint32_t* const bounds = selection.bounds + row * selection.columns;
    const bool compares = candidates.scored() != 0;
    const bool close = args.threshold != 0;
    const uint64_t least = compares && !close ? find_least(candidates, bounds, counts, found) : 0;
    const auto is_picked = [&](uint32_t column) {
      if (candidates.dense) return true;
      if (!candidates.is_compared(column)) return candidates.is_reached(column);
      return compares && (close ? bounds[column] != 0 : rank_of(bounds, column) >= least);
    };
    uint8_t* const bytes = args.block_mask + row * args.block_mask_stride;
    for (uint32_t byte = threadIdx.x; byte < (candidates.blocks + 7) / 8; byte += kPickThreads) {
      uint32_t bits = 0;
      for (uint32_t column = byte * 8; column < byte * 8 + 8 && column < candidates.blocks; ++column)
        bits |= static_cast<uint32_t>(is_picked(column)) << column % 8;
      bytes[byte] = static_cast<uint8_t>(bits);
    }
  }
}

}  // namespace kvc::gpu
