// SPDX-License-Identifier: Apache-2.0
// Kernels between scores and values: logits with soft cap, ALiBi and masks, and one step of the online
// softmax.
#pragma once
#include "attention/kernel_blocks.h"

namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

void adjust(const AdjustArgs& a) {
  constexpr float kLog2e = 1.4426950408889634f;
  F lane{};
  U bit{};
  for (uint32_t i = 0; i < kLanes; ++i) lane[i] = static_cast<float>(i), bit[i] = 1u << i;
  for (uint32_t r = 0; r < a.rows; ++r) {
    for (uint32_t t = 0; t < a.segments * kSegment; t += kLanes) {
      float* at = a.scores + r * kTile + t;
      F x = load(at) * a.scale;
      if (a.soft_cap != 0) {
        // tanh(y) = (1 - e^-2y) / (1 + e^-2y), of the magnitude, so that nothing overflows.
        const F y = x * (1 / a.soft_cap), magnitude = max(-y, y);
        const F e = exp2(magnitude * (-2 * kLog2e));
        const F tanh = (1.0f - e) / (1.0f + e);
        x = (y < F{} ? -tanh : tanh) * a.soft_cap;
      }
      if (a.slopes != nullptr) {
        const int64_t distance = a.key_at[t / kSegment] + t % kSegment - a.query_at[r];
        x = x + a.slopes[r] * (lane + static_cast<float>(distance));
      }
      x = x * kLog2e;
      if (a.visible != nullptr) {
        const U seen = (U{} + static_cast<uint32_t>(a.visible[r] >> t)) & bit;
        x = seen != U{} ? x : set1(-__builtin_inff());
      }
      store(at, x);
    }
  }
}

void softmax(const SoftmaxArgs& a) {
  const uint32_t count = a.segments * kVecs;
  for (uint32_t r = 0; r < a.rows; ++r) {
    float* scores = a.scores + r * kTile;
    float* row_sums = a.row_sum + r * 16;
    F x[kMaxSegments * kVecs];
    F highest = set1(-__builtin_inff());
    for (uint32_t i = 0; i < count; ++i) {
      x[i] = load(scores + i * kLanes) * a.scale;
      highest = max(highest, x[i]);
    }
    F row_max = set1(a.row_max[r]), row_sum = load(row_sums);
    if (any_greater(highest, row_max)) {  // rare after the first tiles
      const float now = max_of(highest);
      const F factor = exp2(row_max - now);
      row_sum = row_sum * factor;
      for (uint32_t e = 0; e < a.o_dim; e += kLanes) {
        store(a.o + r * a.o_dim + e, load(a.o + r * a.o_dim + e) * factor);
      }
      a.row_max[r] = now;
      row_max = set1(now);
    }
    for (uint32_t i = 0; i < count; ++i) {
      const F p = exp2(x[i] - row_max);
      row_sum = row_sum + p;
      store(scores + i * kLanes, p);
    }
    store(row_sums, row_sum);
  }
}

void scale(float* row, uint32_t dim, float factor) {
  for (uint32_t e = 0; e < dim; e += kLanes) store(row + e, load(row + e) * factor);
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
