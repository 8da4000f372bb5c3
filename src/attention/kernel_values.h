// SPDX-License-Identifier: Apache-2.0
// Kernels that add probabilities times values. A block of o stays in registers for all tokens of the tile.
// The first blocks fetch the values of the next tile.
#pragma once
#include "attention/kernel_amx_int8.h"
#include "attention/kernel_int16.h"

namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

template <Form form, uint32_t kRows, uint32_t kCols, bool kFetch>
[[gnu::noinline]] void values_block(const ValueArgs& a, Lines& next, const Weights& weights, uint32_t row,
                                    uint32_t column) {
  const uint64_t from = a.v.base + bytes_of(form, column);
  const size_t dim = a.dim;
  const size_t tokens = a.segments * kSegment;
  Lines lines = next;
  const float* p = is_quantized(form) ? weights.of : a.p + row * kTile;
  float* at = a.o + row * dim + column;
  F o[kRows][kCols];
  KVC_UNROLLED
  for (uint32_t r = 0; r < kRows; ++r) {
    KVC_UNROLLED
    for (uint32_t c = 0; c < kCols; ++c) {
      o[r][c] = load(at + r * dim + c * kLanes);
      if constexpr (has_offset(form)) o[r][c] = o[r][c] + weights.base[r];
    }
  }
  for (size_t t = 0; t < tokens; ++t) {
    F v[kCols];
    const char* in = reinterpret_cast<const char*>(from + a.v.at[t]);
    KVC_UNROLLED
    for (uint32_t c = 0; c < kCols; ++c) v[c] = load_as<form>(in + bytes_of(form, c * kLanes));
    if constexpr (kFetch) fetch(lines, lines_of(bytes_of(form, kCols * kLanes)));
    KVC_UNROLLED
    for (uint32_t r = 0; r < kRows; ++r) {
      const F weight = set1(p[r * kTile + t]);
      KVC_UNROLLED
      for (uint32_t c = 0; c < kCols; ++c) o[r][c] = fma(v[c], weight, o[r][c]);
    }
  }
  if constexpr (kFetch) next = lines;
  KVC_UNROLLED
  for (uint32_t r = 0; r < kRows; ++r) {
    KVC_UNROLLED
    for (uint32_t c = 0; c < kCols; ++c) store(at + r * dim + c * kLanes, o[r][c]);
  }
}

// bf16 without instructions for it: a shift widens the even columns, a mask the odd ones. In o, each two
// vectors hold their even columns first, then the odd ones; finish() restores the order.
inline bool even_and_odd([[maybe_unused]] Form form, [[maybe_unused]] uint32_t dim) {
  constexpr bool kSome = KVC_ATTENTION_LEVEL == 1 || KVC_ATTENTION_LEVEL == 2;
  return kSome && form == kBf16 && dim % (2 * kLanes) == 0;
}
template <uint32_t kRows, uint32_t kCols, bool kFetch>
inline void values_even_odd(const ValueArgs& a, Lines& next, uint32_t row, uint32_t column) {
  const size_t dim = a.dim, tokens = a.segments * kSegment;
  const uint64_t from = a.v.base + size_t{column} * 2;
  Lines lines = next;
  const float* p = a.p + row * kTile;
  float* at = a.o + row * dim + column;
  F o[kRows][2 * kCols];
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t c = 0; c < 2 * kCols; ++c) o[r][c] = load(at + r * dim + c * kLanes);
  }
  for (size_t t = 0; t < tokens; ++t) {
    F v[2 * kCols];
    const char* in = reinterpret_cast<const char*>(from + a.v.at[t]);
    for (uint32_t c = 0; c < kCols; ++c) {
      const U pairs = *reinterpret_cast<const UnalignedU*>(in + c * kLanes * 4);
      v[2 * c] = reinterpret_cast<F>(pairs << 16);
      v[2 * c + 1] = reinterpret_cast<F>(pairs & 0xffff0000u);
    }
    if constexpr (kFetch) fetch(lines, lines_of(kCols * kLanes * 4));
    for (uint32_t r = 0; r < kRows; ++r) {
      const F weight = set1(p[r * kTile + t]);
      for (uint32_t c = 0; c < 2 * kCols; ++c) o[r][c] = fma(v[c], weight, o[r][c]);
    }
  }
  if constexpr (kFetch) next = lines;
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t c = 0; c < 2 * kCols; ++c) store(at + r * dim + c * kLanes, o[r][c]);
  }
}

#if KVC_ATTENTION_LEVEL >= 3
// Rounds x to bf16 and subtracts the result from it.
inline __m256bh take_bf16(F& x) {
  const __m256bh term = _mm512_cvtneps_pbh(x);
  x = x - reinterpret_cast<F>(_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)term), 16));
  return term;
}

// Two tokens at a time, probabilities as kTerms bf16. Interleaving two rows permutes each 32 columns of o by
// 128-bit lanes; finish() restores the order.
template <uint32_t kTerms, uint32_t kRows, uint32_t kCols>
inline void values_pairs(const ValueArgs& a, Lines& next, uint32_t row, uint32_t column) {
  const uint32_t pairs = a.segments * (kSegment / 2);
  uint32_t p[kTerms][kRows][kTile / 2];
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t t = 0; t < pairs; t += 8) {
      F x = load(a.p + (row + r) * kTile + 2 * t);
      for (uint32_t term = 0; term < kTerms; ++term) {
        const __m256bh half = take_bf16(x);
        memcpy(p[term][r] + t, &half, sizeof half);
      }
    }
  }
  Lines lines = next;
  F o[kRows][2 * kCols];
  float* at = a.o + row * a.dim + column;
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t c = 0; c < 2 * kCols; ++c) o[r][c] = load(at + r * a.dim + c * kLanes);
  }
  for (uint32_t t = 0; t < pairs; ++t) {
    const char *even = row_at(a.v, 2 * t) + column * 2, *odd = row_at(a.v, 2 * t + 1) + column * 2;
    __m512bh v[2 * kCols];
    for (uint32_t c = 0; c < kCols; ++c) {
      const __m512i x = _mm512_loadu_si512(even + c * 64), y = _mm512_loadu_si512(odd + c * 64);
      v[2 * c] = (__m512bh)_mm512_unpacklo_epi16(x, y);
      v[2 * c + 1] = (__m512bh)_mm512_unpackhi_epi16(x, y);
    }
    fetch(lines, 2 * kCols);
    for (uint32_t term = 0; term < kTerms; ++term) {
      for (uint32_t r = 0; r < kRows; ++r) {
        const __m512bh weights = set1_pair(p[term][r][t]);
        for (uint32_t c = 0; c < 2 * kCols; ++c) o[r][c] = _mm512_dpbf16_ps(o[r][c], v[c], weights);
      }
    }
  }
  next = lines;
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t c = 0; c < 2 * kCols; ++c) store(at + r * a.dim + c * kLanes, o[r][c]);
  }
}
#endif

// Whether values are multiplied two or four tokens at a time, which permutes the columns of o.
inline bool in_pairs([[maybe_unused]] Form form, [[maybe_unused]] uint32_t dim,
                     [[maybe_unused]] uint32_t group) {
  const bool whole = dim % 32 == 0 && (group % 32 == 0 || group >= dim);
  return whole &&
         ((KVC_ATTENTION_LEVEL >= 3 && form == kBf16) || (KVC_ATTENTION_LEVEL > 1 && is_integer(form)));
}

#if KVC_ATTENTION_LEVEL == 4
void add_values_amx(const ValueArgs& a);
#endif

[[gnu::always_inline]] inline void add_values_even_odd(const ValueArgs& a, Lines& next) {
  constexpr uint32_t kMost = kLanes == 16 ? 2 : 1;
  in_blocks<kRowBlock>(a.rows, [&]<uint32_t kRows>(uint32_t row) {
    in_blocks<kRows == 1 ? 2 * kMost : kMost>(a.dim / (2 * kLanes), [&]<uint32_t kCols>(uint32_t c) {
      if (next.row != next.end) {
        values_even_odd<kRows, kCols, true>(a, next, row, c * 2 * kLanes);
      } else {
        values_even_odd<kRows, kCols, false>(a, next, row, c * 2 * kLanes);
      }
    });
  });
}

template <Form form>
void add_values(const ValueArgs& a) {
#if KVC_ATTENTION_LEVEL == 4
  if (form == kBf16 && in_pairs(form, a.dim, a.v.group)) return add_values_amx(a);
  if constexpr (form == kI8 || form == kU8) {
    if (in_quads(form, a.dim, a.v.group)) return add_values_quads<form>(a);
  }
#endif
  Lines next = a.ahead[1];
#if KVC_ATTENTION_LEVEL >= 3
  if (form == kBf16 && in_pairs(form, a.dim, a.v.group)) {
    in_blocks<kRowBlock>(a.rows, [&]<uint32_t kRows>(uint32_t row) {
      in_blocks<sums_per_row(kRows, 8) / 2>(a.dim / 32, [&]<uint32_t kCols>(uint32_t c) {
        a.p_terms == 1 ? values_pairs<1, kRows, kCols>(a, next, row, c * 32)
                       : values_pairs<kValueTerms, kRows, kCols>(a, next, row, c * 32);
      });
    });
    return;
  }
#endif
  if (even_and_odd(form, a.dim)) return add_values_even_odd(a, next);
  for (uint32_t begin = 0, group = 0; begin < a.dim; begin += a.v.group, ++group) {
    const uint32_t end = a.dim - begin > a.v.group ? begin + a.v.group : a.dim;
#if KVC_ATTENTION_LEVEL > 1
    if constexpr (is_integer(form)) {
      if (in_pairs(form, a.dim, a.v.group)) {
        in_blocks<kRowBlock>(a.rows, [&]<uint32_t kRows>(uint32_t row) {
          IntegerWeights weights;
          weigh_int16<form, kRows>(a, row, group, weights);
          in_blocks<sums_per_row(kRows, 8) / 2>((end - begin) / 32, [&]<uint32_t kCols>(uint32_t c) {
            values_int16<form, kRows, kCols>(a, next, weights, row, begin + c * 32);
          });
        });
        continue;
      }
    }
#endif
    in_blocks<kRowBlock>(a.rows, [&]<uint32_t kRows>(uint32_t row) {
      Weights weights;
      if constexpr (is_quantized(form)) weigh<form, kRows>(a, row, group, weights);
      in_blocks<kLanes == 8 && kRows == 4 ? (form == kF32 ? 2 : 3) : sums_per_row(kRows, 8)>(
          (end - begin) / kLanes, [&]<uint32_t kCols>(uint32_t c) {
            if (next.row != next.end) {
              values_block<form, kRows, kCols, true>(a, next, weights, row, begin + c * kLanes);
            } else {
              values_block<form, kRows, kCols, false>(a, next, weights, row, begin + c * kLanes);
            }
          });
    });
  }
}

void finish(Form form, uint32_t per_scale, [[maybe_unused]] uint32_t rows, uint32_t dim,
            [[maybe_unused]] float* o) {
#if KVC_ATTENTION_LEVEL == 4
  release_tiles();
  if (in_quads(form, dim, per_scale)) {
    for (float *at = o, *end = o + rows * dim; at != end; at += 64) restore_quads(at);
    return;
  }
#endif
#if KVC_ATTENTION_LEVEL == 1 || KVC_ATTENTION_LEVEL == 2
  if (even_and_odd(form, dim)) {
    for (float *at = o, *end = o + rows * dim; at != end; at += 2 * kLanes) {
      store_interleaved(at, load(at), load(at + kLanes));
    }
    return;
  }
#endif
  if (!in_pairs(form, dim, per_scale)) return;
#if KVC_ATTENTION_LEVEL > 1
  const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i high = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  for (float *at = o, *end = o + rows * dim; at != end; at += 32) {
    const F x = load(at), y = load(at + 16);
    store(at, _mm512_permutex2var_ps(x, low, y));
    store(at + 16, _mm512_permutex2var_ps(x, high, y));
  }
#endif
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
