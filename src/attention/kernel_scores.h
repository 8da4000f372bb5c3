// SPDX-License-Identifier: Apache-2.0
// Kernels of q . k. Plain keys: dot products of rows. Tiled keys: a vector holds one element (or pair) of
// consecutive tokens, so no sum crosses lanes. The first block of rows fetches the next tile.
#pragma once
#include "attention/kernel_amx_int8.h"

namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

// ---- scores of plain rows: a few tokens at a time ---------------------------------------

template <Form form, uint32_t kRows>
inline void row_scores_block(const ScoreArgs& a, uint32_t row) {
  const size_t dim = a.dim, tokens = a.segments * kSegment;
  const bool fetch = row == 0 && a.next.at != nullptr;
  constexpr uint32_t kTokens = kRows == 1 ? 8 : 4;
  const float* query = a.q + row * dim;
  for (size_t t = 0; t < tokens; t += kTokens) {
    F sums[kRows][kTokens] = {};
    for (size_t begin = 0, group = 0; begin < dim; begin += a.k.group, ++group) {
      const size_t end = begin + a.k.group < dim ? begin + a.k.group : dim;
      F scale[kTokens], offset[kTokens];
      if constexpr (is_quantized(form)) {
        for (uint32_t i = 0; i < kTokens; ++i) {
          const float* at = scales_at(a.k, t + i) + floats_of<form>(group);
          scale[i] = set1(at[0] * kUnit<form>);
          if constexpr (has_offset(form)) offset[i] = set1(at[1]);
          if (fetch) prefetch(scales_at(a.next, t + i) + floats_of<form>(group));
        }
      }
      for (size_t e = begin; e < end; e += kLanes) {
        F k[kTokens];
        for (uint32_t i = 0; i < kTokens; ++i) {
          k[i] = load_as<form>(row_at(a.k, t + i) + bytes_of(form, e));
          if constexpr (has_offset(form)) {
            k[i] = fma(k[i], scale[i], offset[i]);
          } else if constexpr (is_quantized(form)) {
            k[i] = k[i] * scale[i];
          }
        }
        if (fetch && bytes_of(form, e) % 64 == 0) {
          for (uint32_t i = 0; i < kTokens; ++i) prefetch(row_at(a.next, t + i) + bytes_of(form, e));
        }
        for (uint32_t r = 0; r < kRows; ++r) {
          const F q = load(query + r * dim + e);
          for (uint32_t i = 0; i < kTokens; ++i) sums[r][i] = fma(k[i], q, sums[r][i]);
        }
      }
    }
    for (uint32_t r = 0; r < kRows; ++r) {
      for (uint32_t i = 0; i < kTokens; i += 4) sum4(sums[r] + i, a.scores + (row + r) * kTile + t + i);
    }
  }
}

#if KVC_ATTENTION_LEVEL >= 3
template <uint32_t kRows>
inline void row_scores_pairs(const ScoreArgs& a, uint32_t row) {
  const bool fetch = row == 0 && a.next.at != nullptr;
  const size_t dim = a.dim, tokens = a.segments * kSegment;
  for (size_t t = 0; t < tokens; t += 4) {
    F sums[kRows][4] = {};
    for (size_t e = 0; e < dim; e += 32) {
      __m512bh k[4];
      for (uint32_t i = 0; i < 4; ++i) k[i] = load_pairs(row_at(a.k, t + i) + e * 2);
      if (fetch) {
        for (uint32_t i = 0; i < 4; ++i) prefetch(row_at(a.next, t + i) + e * 2);
      }
      for (size_t term = 0; term < a.q_terms; ++term) {
        const uint32_t* pairs = a.q_pairs + ((term * a.term_rows + row) * dim + e) / 2;
        for (uint32_t r = 0; r < kRows; ++r) {
          const __m512bh q = load_pairs(pairs + r * (dim / 2));
          for (uint32_t i = 0; i < 4; ++i) sums[r][i] = _mm512_dpbf16_ps(sums[r][i], k[i], q);
        }
      }
    }
    for (uint32_t r = 0; r < kRows; ++r) sum4(sums[r], a.scores + (row + r) * kTile + t);
  }
}
#endif

#if KVC_ATTENTION_LEVEL > 0
// Dot products in integer arithmetic: one multiplication handles twice as many elements as one of floats.
template <Form form, uint32_t kRows>
inline void row_scores_int16(const ScoreArgs& a, uint32_t row) {
  const bool fetch = row == 0 && a.next.at != nullptr;
  const size_t dim = a.dim, tokens = a.segments * kSegment;
  for (size_t t = 0; t < tokens; t += 4) {
    I sums[kRows * 4] = {};
    for (size_t e = 0; e < dim; e += 2 * kLanes) {
      I k[4];
      for (uint32_t i = 0; i < 4; ++i) k[i] = load_int16<form>(row_at(a.k, t + i) + bytes_of(form, e));
      if (fetch && bytes_of(form, e) % 64 == 0) {
        for (uint32_t i = 0; i < 4; ++i) prefetch(row_at(a.next, t + i) + bytes_of(form, e));
      }
      const uint32_t* pairs = a.q_pairs + (row * dim + e) / 2;
      for (uint32_t r = 0; r < kRows; ++r) {
        const I q = *reinterpret_cast<const UnalignedI*>(pairs + r * (dim / 2));
        for (uint32_t i = 0; i < 4; ++i) sums[r * 4 + i] = dot_int16(sums[r * 4 + i], k[i], q);
      }
    }
#if KVC_ATTENTION_LEVEL > 1
    if constexpr (kRows == 4) {
      const F all = __builtin_convertvector(sum16(sums), F);
      for (uint32_t r = 0; r < kRows; ++r) {
        memcpy(a.scores + (row + r) * kTile + t, reinterpret_cast<const float*>(&all) + 4 * r, 16);
      }
      continue;
    }
#endif
    for (uint32_t r = 0; r < kRows; ++r) {
      F floats[4];
      for (uint32_t i = 0; i < 4; ++i) floats[i] = __builtin_convertvector(sums[r * 4 + i], F);
      sum4(floats, a.scores + (row + r) * kTile + t);
    }
  }
}

// Turns products of codes into products of the values that they represent.
template <Form form>
inline void scale_int16(const ScoreArgs& a) {
  const uint32_t tokens = a.segments * kSegment;
  float scale[kTile], offset[kTile];
  load_scales<form>(a.k, a.next, a.next.at != nullptr, tokens, 0, scale, offset);
  for (uint32_t r = 0; r < a.rows; ++r) {
    for (uint32_t t = 0; t < tokens; t += kLanes) {
      float* at = a.scores + r * kTile + t;
      F sum = load(at) * (load(scale + t) * a.q_units[r]);
      if constexpr (has_offset(form)) sum = fma(load(offset + t), set1(a.q_sums[r]), sum);
      if constexpr (kBias<form> != 0) sum = fma(load(scale + t), set1(-kBias<form> * a.q_sums[r]), sum);
      store(at, sum);
    }
  }
}
#endif

template <Form form>
void row_scores(const ScoreArgs& a) {
#if KVC_ATTENTION_LEVEL > 0
  if constexpr (is_integer(form)) {
    if (a.q_units != nullptr) {
#if KVC_ATTENTION_LEVEL == 4
      if (a.q_digits != nullptr) {
        row_scores_amx<form>(a);
        return scale_int16<form>(a);
      }
#endif
      in_blocks<kLanes == 16 ? 4 : 2>(
          a.rows, [&]<uint32_t kRows>(uint32_t row) { row_scores_int16<form, kRows>(a, row); });
      return scale_int16<form>(a);
    }
  }
#endif
#if KVC_ATTENTION_LEVEL >= 3
  if (form == kBf16 && a.dim % 32 == 0) {
    in_blocks<kRowBlock>(a.rows, [&]<uint32_t kRows>(uint32_t row) { row_scores_pairs<kRows>(a, row); });
    return;
  }
#endif
  in_blocks<kLanes == 16 ? 4 : 2>(
      a.rows, [&]<uint32_t kRows>(uint32_t row) { row_scores_block<form, kRows>(a, row); });
}

// ---- scores of tiles -----------------------------------------------------------------------------

template <Form form, uint32_t kRows, uint32_t kCount>
[[gnu::always_inline]] inline void store_tile_scores(const ScoreArgs& a, uint32_t row, uint32_t segment,
                                                     const F (&sums)[kRows][kCount]) {
  KVC_UNROLLED
  for (uint32_t r = 0; r < kRows; ++r) {
    float* out = a.scores + (row + r) * kTile + segment * kSegment;
    if constexpr (form == kF16) {
      for (uint32_t i = 0; i < kCount; ++i) {
        float both[kLanes];
        store(both, sums[r][i]);
        for (uint32_t j = 0; j < kLanes / 2; ++j) out[i * kLanes / 2 + j] = both[2 * j] + both[2 * j + 1];
      }
    } else {
      KVC_UNROLLED
      for (uint32_t i = 0; i < kCount; ++i) store(out + i * kLanes, sums[r][i]);
    }
  }
}

// Without kFetch there are registers for all pointers.
template <Form form, uint32_t kRows, uint32_t kCols, bool kFetch>
inline void tile_scores_block(const ScoreArgs& a, uint32_t row, uint32_t segment) {
  constexpr uint32_t kElements = form == kF32 ? 1 : 2;  // in 4 bytes
  constexpr uint32_t kCount = kCols * kVecs * (form == kF16 ? 2 : 1);
  F sums[kRows][kCount];
  KVC_UNROLLED
  for (uint32_t r = 0; r < kRows; ++r) {
    KVC_UNROLLED
    for (uint32_t i = 0; i < kCount; ++i) sums[r][i] = F{};
  }
  const size_t dim = a.dim;
  const float* q[kRows];
  for (uint32_t r = 0; r < kRows; ++r) q[r] = a.q + (row + r) * dim;
  const char* from[kCols];
  for (uint32_t c = 0; c < kCols; ++c) from[c] = row_at(a.k, segment + c);
  for (size_t e = 0, at = 0; e < dim; e += kElements, at += kSegment * 4) {
    if constexpr (kFetch) {
      for (uint32_t c = 0; c < kCols; ++c) prefetch(row_at(a.next, segment + c) + at);
    }
    if constexpr (form == kF32) {
      F k[kCount];
      KVC_UNROLLED
      for (uint32_t i = 0; i < kCount; ++i) {
        k[i] = load_as<kF32>(from[i / kVecs] + at + i % kVecs * kLanes * 4);
      }
      KVC_UNROLLED
      for (uint32_t r = 0; r < kRows; ++r) {
        const F x = set1(q[r][e]);
        KVC_UNROLLED
        for (uint32_t i = 0; i < kCount; ++i) sums[r][i] = fma(k[i], x, sums[r][i]);
      }
    } else if constexpr (form == kBf16) {
      F low[kCount], high[kCount];
      for (uint32_t i = 0; i < kCount; ++i) {
        const U pairs = *reinterpret_cast<const UnalignedU*>(from[i / kVecs] + at + i % kVecs * kLanes * 4);
        low[i] = reinterpret_cast<F>(pairs << 16);
        high[i] = reinterpret_cast<F>(pairs & 0xffff0000u);
      }
      for (uint32_t r = 0; r < kRows; ++r) {
        const F x = set1(q[r][e]), y = set1(q[r][e + 1]);
        for (uint32_t i = 0; i < kCount; ++i) sums[r][i] = fma(high[i], y, fma(low[i], x, sums[r][i]));
      }
    } else {  // fp16 widens to vectors of (even, odd) elements, whose sums are added at the end
      F k[kCount];
      for (uint32_t i = 0; i < kCount; ++i) {
        k[i] = load_as<kF16>(from[i / (2 * kVecs)] + at + i % (2 * kVecs) * kLanes * 2);
      }
      for (uint32_t r = 0; r < kRows; ++r) {
        uint64_t pair;
        memcpy(&pair, q[r] + e, sizeof pair);
        typedef uint64_t Wide __attribute__((vector_size(kLanes * 4)));
        const F x = reinterpret_cast<F>(Wide{} + pair);
        for (uint32_t i = 0; i < kCount; ++i) sums[r][i] = fma(k[i], x, sums[r][i]);
      }
    }
  }
  store_tile_scores<form>(a, row, segment, sums);
}

#if KVC_ATTENTION_LEVEL >= 3
template <uint32_t kRows, uint32_t kCols>
inline void tile_scores_pairs(const ScoreArgs& a, uint32_t row, uint32_t segment) {
  const bool fetch = row == 0 && a.next.at != nullptr;
  F sums[kRows][kCols] = {};
  const size_t pairs = a.dim / 2;
  for (size_t e = 0; e < pairs; ++e) {
    __m512bh k[kCols];
    for (uint32_t c = 0; c < kCols; ++c) {
      k[c] = load_pairs(row_at(a.k, segment + c) + e * 64);
      if (fetch) prefetch(row_at(a.next, segment + c) + e * 64);
    }
    for (size_t term = 0; term < a.q_terms; ++term) {
      const uint32_t* q = a.q_pairs + (term * a.term_rows + row) * pairs + e;
      for (uint32_t r = 0; r < kRows; ++r) {
        const __m512bh x = set1_pair(q[r * pairs]);
        for (uint32_t c = 0; c < kCols; ++c) sums[r][c] = _mm512_dpbf16_ps(sums[r][c], k[c], x);
      }
    }
  }
  for (uint32_t r = 0; r < kRows; ++r) {
    for (uint32_t c = 0; c < kCols; ++c)
      store(a.scores + (row + r) * kTile + (segment + c) * kSegment, sums[r][c]);
  }
}
#endif

template <Form form>
void tile_scores(const ScoreArgs& a) {
#if KVC_ATTENTION_LEVEL == 4
  if (form == kBf16 && a.dim % 32 == 0) return tile_scores_amx(a);
#endif
  constexpr uint32_t kPerSegment = kVecs * (form == kF16 ? 2 : 1);
  in_blocks<kPerSegment == 4 && kLanes == 8 ? 2 : kRowBlock>(a.rows, [&]<uint32_t kRows>(uint32_t row) {
    in_blocks<sums_per_row(kRows * kPerSegment, 4)>(a.segments, [&]<uint32_t kCols>(uint32_t segment) {
#if KVC_ATTENTION_LEVEL >= 3
      if constexpr (form == kBf16) return tile_scores_pairs<kRows, kCols>(a, row, segment);
#endif
      if (row == 0 && a.next.at != nullptr) {
        tile_scores_block<form, kRows, kCols, true>(a, row, segment);
      } else {
        tile_scores_block<form, kRows, kCols, false>(a, row, segment);
      }
    });
  });
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
