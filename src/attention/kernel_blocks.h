// SPDX-License-Identifier: Apache-2.0
// How kernels divide rows, columns and segments into blocks whose sums fit the registers. Internal linkage,
// like everything that includes simd.h.
#pragma once
#include "attention/simd.h"

// Before a loop over the sums of a block. GCC keeps an array of sums in registers from its first to its last
// use only if it unrolls these loops before its other passes; else it writes and reads the array around each
// block, 5 % of the time of prefill.
#ifdef __clang__
#define KVC_UNROLLED _Pragma("unroll")
#else
#define KVC_UNROLLED _Pragma("GCC unroll 8")
#endif

namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

inline constexpr uint32_t kRowBlock = KVC_ATTENTION_LEVEL == 0 ? 2 : 4;
inline constexpr uint32_t kVecs = kSegment / kLanes;  // of a segment

inline const char* row_at(const Rows& rows, size_t i) {
  return reinterpret_cast<const char*>(rows.base + rows.at[i]);
}
inline const float* scales_at(const Rows& rows, size_t token) {
  return reinterpret_cast<const float*>(rows.scale_base + rows.scale_at[token]);
}

// Calls block<count>(from) for pieces of `total` that are as large as possible: kMax, then half as many, ...
template <uint32_t kMax, class Block>
inline void in_blocks(uint32_t total, Block block, uint32_t from = 0) {
  for (; total - from >= kMax; from += kMax) {
    if (kMax == 3 && total - from == 4) break;  // two pairs are better than three and one
    block.template operator()<kMax>(from);
  }
  if constexpr (kMax > 1) {
    if (from != total) in_blocks<(kMax + 1) / 2>(total, block, from);
  }
}

// Sums that fit the registers beside the addends, and how many each row gets. With few, every addition would
// wait for the one before.
inline constexpr uint32_t kSums = kLanes == 16 ? 16 : 8;
constexpr uint32_t sums_per_row(uint32_t rows, uint32_t most) {
  return kSums / rows < most ? (kSums / rows > 1 ? kSums / rows : 1) : most;
}

#if KVC_ATTENTION_LEVEL >= 3
inline __m512bh load_pairs(const void* at) { return (__m512bh)_mm512_loadu_si512(at); }
inline __m512bh set1_pair(uint32_t pair) { return (__m512bh)_mm512_set1_epi32(static_cast<int>(pair)); }
#endif

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
