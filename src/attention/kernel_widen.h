// SPDX-License-Identifier: Apache-2.0
// Kernels that convert a tile to floats once, for many rows.
#pragma once
#include "attention/kernel_blocks.h"

namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

template <Form form>
void widen_rows(const WidenArgs& a) {
  const size_t dim = a.dim, tokens = a.segments * kSegment;
  float* to = a.to;
  for (size_t t = 0; t < tokens; ++t, to += dim) {
    if (a.next.at != nullptr) {
      for (size_t at = 0; at < bytes_of(form, dim); at += 64) prefetch(row_at(a.next, t) + at);
    }
    for (size_t begin = 0, group = 0; begin < dim; begin += a.from.group, ++group) {
      const size_t end = dim - begin > a.from.group ? begin + a.from.group : dim;
      F scale{}, offset{};
      if constexpr (is_quantized(form)) {
        const float* at = scales_at(a.from, t) + floats_of<form>(group);
        scale = set1(at[0] * kUnit<form>);
        if constexpr (has_offset(form)) offset = set1(at[1]);
        if (a.next.at != nullptr) prefetch(scales_at(a.next, t) + floats_of<form>(group));
      }
      for (size_t e = begin; e < end; e += kLanes) {
        F x = load_as<form>(row_at(a.from, t) + bytes_of(form, e));
        if constexpr (has_offset(form)) {
          x = fma(x, scale, offset);
        } else if constexpr (is_quantized(form)) {
          x = x * scale;
        }
        store(to + e, x);
      }
    }
  }
}

// From [dim / 2][tokens][2] to [dim][tokens].
template <Form form>
void widen_tiles(const WidenArgs& a) {
  static_assert(form == kF16 || form == kBf16);
  float* to = a.to;
  for (uint32_t s = 0; s < a.segments; ++s) {
    for (size_t e = 0, at = 0; e < a.dim; e += 2, at += kSegment * 4, to += 2 * kSegment) {
      if (a.next.at != nullptr) prefetch(row_at(a.next, s) + at);
      for (uint32_t t = 0; t < kSegment; t += kLanes) {
        const U pairs = *reinterpret_cast<const UnalignedU*>(row_at(a.from, s) + at + t * 4);
        const auto low = __builtin_convertvector(pairs & 0xffff, Half);
        const auto high = __builtin_convertvector(pairs >> 16, Half);
        store(to + t, form == kF16 ? from_f16(low) : from_bf16(low));
        store(to + kSegment + t, form == kF16 ? from_f16(high) : from_bf16(high));
      }
    }
  }
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
