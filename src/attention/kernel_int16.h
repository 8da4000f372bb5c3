// SPDX-License-Identifier: Apache-2.0
// Kernels that add probabilities times integer values, in integer arithmetic, two tokens at a time.
#pragma once
#include "attention/kernel_weights.h"

namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

#if KVC_ATTENTION_LEVEL > 1
// Weights of two tokens as a pair of 16-bit integers. Each row has its own unit.
struct IntegerWeights {
  uint32_t of[4 * kTile / 2];
  float unit[4], base[4];
};
template <Form form, uint32_t kRows>
inline void weigh_int16(const ValueArgs& a, uint32_t row, size_t group, IntegerWeights& integers) {
  const uint32_t tokens = a.segments * kSegment;
  Weights weights;
  weigh<form, kRows>(a, row, group, weights);
  for (uint32_t r = 0; r < kRows; ++r) {
    const float* at = weights.of + r * kTile;
    const IntegerUnit integer = unit_of(at, tokens, 32767);
    F codes{};
    for (uint32_t t = 0; t < tokens; t += kLanes) {
      const __m512i rounded = _mm512_cvtps_epi32(load(at + t) * integer.inverse);
      const __m256i narrow = _mm512_cvtepi32_epi16(rounded);
      memcpy(integers.of + (r * kTile + t) / 2, &narrow, sizeof narrow);
      codes = codes + _mm512_cvtepi32_ps(rounded);
    }
    integers.unit[r] = integer.unit;
    integers.base[r] = weights.base[r] - kBias<form> * integer.unit * _mm512_reduce_add_ps(codes);
  }
}

// Columns in the order of values_pairs().
template <Form form, uint32_t kRows, uint32_t kCols>
inline void values_int16(const ValueArgs& a, Lines& next, const IntegerWeights& weights, uint32_t row,
                         uint32_t column) {
  const uint32_t pairs = a.segments * (kSegment / 2);
  const size_t from = bytes_of(form, column);
  Lines lines = next;
  I sums[kRows][2 * kCols] = {};
  for (uint32_t t = 0; t < pairs; ++t) {
    const char *even = row_at(a.v, 2 * t) + from, *odd = row_at(a.v, 2 * t + 1) + from;
    I v[2 * kCols];
    for (uint32_t c = 0; c < kCols; ++c) {
      const __m512i x = (__m512i)load_int16<form>(even + bytes_of(form, c * 32));
      const __m512i y = (__m512i)load_int16<form>(odd + bytes_of(form, c * 32));
      v[2 * c] = (I)_mm512_unpacklo_epi16(x, y);
      v[2 * c + 1] = (I)_mm512_unpackhi_epi16(x, y);
    }
    fetch(lines, lines_of(2 * bytes_of(form, kCols * 32)));
    for (uint32_t r = 0; r < kRows; ++r) {
      const I weight = (I)(U{} + weights.of[r * kTile / 2 + t]);
      for (uint32_t c = 0; c < 2 * kCols; ++c) sums[r][c] = dot_int16(sums[r][c], v[c], weight);
    }
  }
  next = lines;
  for (uint32_t r = 0; r < kRows; ++r) {
    float* at = a.o + (row + r) * a.dim + column;
    for (uint32_t c = 0; c < 2 * kCols; ++c) {
      const F sum = fma(__builtin_convertvector(sums[r][c], F), set1(weights.unit[r]), set1(weights.base[r]));
      store(at + c * kLanes, load(at + c * kLanes) + sum);
    }
  }
}
#endif

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
