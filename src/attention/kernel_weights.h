// SPDX-License-Identifier: Apache-2.0
// Shared by kernels: fetching the next tile, scales, and probabilities times scales.
#pragma once
#include "attention/kernel_blocks.h"

namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

// Spreads prefetches evenly over the work: many at once would wait for each other.
inline void fetch(Lines& lines, uint32_t count) {
  lines.due += count;
  for (; lines.due >= kMaxSegments && lines.row != lines.end; lines.due -= kMaxSegments) {
    const uint64_t* row = lines.row;
    for (uint32_t s = 0; s < lines.segments; ++s, row += lines.to_segment)
      prefetch(reinterpret_cast<const char*>(lines.base + *row + lines.at));
    lines.at += 64;
    if (lines.at >= lines.row_bytes) lines.at = 0, ++lines.row;
  }
}
// Keys first, then values.
inline void fetch_ahead(Lines* ahead, uint32_t count) {
  Lines& from = ahead[ahead[0].row == ahead[0].end ? 1 : 0];
  Lines lines = from;  // in registers
  fetch(lines, count);
  from = lines;
}
constexpr uint32_t lines_of(size_t bytes) { return static_cast<uint32_t>((bytes + 63) / 64); }

// The scale of each token's group, and its offset if the form has one. Fetches those of `next`.
template <Form form>
inline void load_scales(const Rows& rows, const Rows& next, bool fetches, uint32_t tokens, size_t group,
                        float* scale, float* offset) {
  if (!has_offset(form) && rows.scales_adjoin) {
    for (uint32_t s = 0; s < tokens; s += kSegment) {
      if (fetches) prefetch(scales_at(next, s));
      for (uint32_t t = s; t < s + kSegment; t += kLanes)
        store(scale + t, load(scales_at(rows, s) + t - s) * kUnit<form>);
    }
    return;
  }
  for (uint32_t t = 0; t < tokens; ++t) {
    const float* at = scales_at(rows, t) + floats_of<form>(group);
    scale[t] = at[0] * kUnit<form>;
    if constexpr (has_offset(form)) offset[t] = at[1];
    if (fetches) prefetch(scales_at(next, t) + floats_of<form>(group));
  }
}

// For the codes of a group of columns: probabilities times scales, and the sum of probabilities times
// offsets, which is added to every column.
struct Weights {
  float of[4 * kTile];
  float base[4];
};
template <Form form, uint32_t kRows>
inline void weigh(const ValueArgs& a, uint32_t row, size_t group, Weights& weights) {
  const uint32_t tokens = a.segments * kSegment;
  float scale[kTile], offset[kTile];
  load_scales<form>(a.v, a.next, row == 0 && a.next.at != nullptr, tokens, group, scale, offset);
  for (uint32_t r = 0; r < kRows; ++r) {
    const float* p = a.p + (row + r) * kTile;
    F base{};
    for (uint32_t t = 0; t < tokens; t += kLanes) {
      store(weights.of + r * kTile + t, load(p + t) * load(scale + t));
      if constexpr (has_offset(form)) base = fma(load(p + t), load(offset + t), base);
    }
    float sum = 0;
    for (uint32_t i = 0; i < kLanes; ++i) sum += base[i];
    weights.base[r] = sum;
  }
}

#if KVC_ATTENTION_LEVEL > 1
// The unit of a row's weights as integers: the largest becomes `most`.
struct IntegerUnit {
  float unit;  // NaN if a weight is
  F inverse;
};
inline IntegerUnit unit_of(const float* weights, uint32_t tokens, float most) {
  F magnitude{}, total{};
  for (uint32_t t = 0; t < tokens; t += kLanes) {
    const F x = load(weights + t);
    magnitude = max(max(x, -x), magnitude);
    total = total + x;
  }
  const float sum = _mm512_reduce_add_ps(total), largest = max_of(magnitude);
  return {largest / most + (sum - sum), set1(largest > 0 ? most / largest : 0)};
}
#endif

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
