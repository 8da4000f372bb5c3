// SPDX-License-Identifier: Apache-2.0
// Kernels of 8-bit keys and values in the tile registers of AMX. The other factor has 16 bits: two signed
// digits of 8 bits, x = 256 * high + low. The digits of up to 8 rows fill a tile.
#pragma once
#include "attention/kernel_tiles.h"
#include "attention/kernel_weights.h"

#if KVC_ATTENTION_LEVEL == 4
namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

constexpr uint32_t kDigitRows = kTileRows / 2;

// Cache lines to fetch: per 16 keys of 64 bytes, per 4 tokens of 128 value bytes, per 16 columns at their
// products and at their sums. Together this is 128 for 64 elements of the keys and values of four segments.
constexpr uint32_t kLinesPerKeys = 10, kLinesPerQuad = 5, kLinesPerProduct = 8, kLinesPerSum = 4;

// Loads 16 rows with a constant stride from where they are; copies other rows first.
template <int tile>
inline void load_rows(const Rows& rows, uint32_t first, size_t from, __m512i* copy) {
  const uint64_t* at = rows.at + first;
  const __m512i step = _mm512_set1_epi64(static_cast<int64_t>(at[1] - at[0]));
  const auto steps = [&](size_t i) {
    return _mm512_sub_epi64(_mm512_loadu_si512(at + i + 1), _mm512_loadu_si512(at + i));
  };
  if ((_mm512_cmpneq_epi64_mask(steps(0), step) | _mm512_cmpneq_epi64_mask(steps(7), step)) == 0) {
    return load_tile<tile>(row_at(rows, first) + from, at[1] - at[0]);
  }
  for (uint32_t i = 0; i < kTileRows; ++i) copy[i] = _mm512_loadu_si512(row_at(rows, first + i) + from);
  load_tile<tile>(copy, 64);
}

// From [16 tokens][high digits of rows 0-3, low digits, high digits of rows 4-7, low digits] to [row][token].
inline void add_digits(const int32_t* sums, uint32_t rows, float* scores) {
  for (uint32_t row = 0; row < rows; row += 4) {
    F x[4];  // x[i]: the rows of tokens i, i + 4, i + 8, i + 12
    for (uint32_t i = 0; i < 4; ++i) {
      const auto four = [&](uint32_t column) {
        const auto at = [&](uint32_t t) {
          return _mm_load_si128(reinterpret_cast<const __m128i*>(sums + (i + t) * 16 + row * 2 + column));
        };
        __m512i all = _mm512_castsi128_si512(at(0));
        all = _mm512_mask_broadcast_i32x4(all, 0x00f0, at(4));
        all = _mm512_mask_broadcast_i32x4(all, 0x0f00, at(8));
        return _mm512_cvtepi32_ps(_mm512_mask_broadcast_i32x4(all, 0xf000, at(12)));
      };
      x[i] = fma(four(0), set1(256), four(4));
    }
    const __m512 low01 = _mm512_unpacklo_ps(x[0], x[1]), high01 = _mm512_unpackhi_ps(x[0], x[1]);
    const __m512 low23 = _mm512_unpacklo_ps(x[2], x[3]), high23 = _mm512_unpackhi_ps(x[2], x[3]);
    const F of_row[4] = {_mm512_shuffle_ps(low01, low23, 0x44), _mm512_shuffle_ps(low01, low23, 0xee),
                         _mm512_shuffle_ps(high01, high23, 0x44), _mm512_shuffle_ps(high01, high23, 0xee)};
    for (uint32_t r = 0; r < 4 && row + r < rows; ++r) store(scores + (row + r) * kTile, of_row[r]);
  }
}

// Products of codes and queries in their units, as row_scores_int16() gives them.
template <Form form>
void row_scores_amx(const ScoreArgs& a) {
  set_tile_rows(kTileRows);
  alignas(64) int32_t sums[4][kTileRows * 16];
  alignas(64) __m512i copy[2][kTileRows];
  for (uint32_t row = 0; row < a.rows; row += kDigitRows) {
    const int8_t* q = a.q_digits + size_t{row} * a.dim * 2;
    for_tiles(a.segments, []<int i>() { zero_tile<i>(); });
    for (size_t e = 0; e < a.dim; e += 64) {
      load_tile<6>(q + e * 16, 64);
      for_tiles(a.segments, [&]<int i>() {
        load_rows<4 + i % 2>(a.k, i * kSegment, e, copy[i % 2]);
        fetch_ahead(a.ahead, kLinesPerKeys);
        multiply_bytes<form, i, 4 + i % 2, 6>();
      });
    }
    const uint32_t rows = a.rows - row < kDigitRows ? a.rows - row : kDigitRows;
    for_tiles(a.segments, [&]<int i>() { store_tile<i>(sums[i], 64); });
    for_tiles(a.segments, [&]<int i>() { add_digits(sums[i], rows, a.scores + row * kTile + i * kSegment); });
  }
}

// Whether values are multiplied four tokens at a time, which permutes the columns of o.
inline bool in_quads(Form form, uint32_t dim, uint32_t per_scale) {
  return (form == kI8 || form == kU8) && dim % 64 == 0 && (per_scale % 64 == 0 || per_scale >= dim);
}

// The values of a tile as quads of tokens: [64 columns][4][16 quads][16 columns][4]. Interleaving permutes
// each 64 columns by 128-bit lanes; restore_quads() undoes this.
inline void pack_quads(const ValueArgs& a) {
  const uint32_t quads = a.segments * (kSegment / 4);
  for (uint32_t t = 0; t < quads; ++t) {
    for (uint32_t c = 0; c < a.dim; c += 64) {
      __m512i x[4];
      for (uint32_t i = 0; i < 4; ++i) x[i] = _mm512_loadu_si512(row_at(a.v, 4 * t + i) + c);
      const __m512i low01 = _mm512_unpacklo_epi8(x[0], x[1]), high01 = _mm512_unpackhi_epi8(x[0], x[1]);
      const __m512i low23 = _mm512_unpacklo_epi8(x[2], x[3]), high23 = _mm512_unpackhi_epi8(x[2], x[3]);
      auto* to = static_cast<__m512i*>(a.packed) + c + t;
      _mm512_store_si512(to, _mm512_unpacklo_epi16(low01, low23));
      _mm512_store_si512(to + 16, _mm512_unpackhi_epi16(low01, low23));
      _mm512_store_si512(to + 32, _mm512_unpacklo_epi16(high01, high23));
      _mm512_store_si512(to + 48, _mm512_unpackhi_epi16(high01, high23));
    }
    fetch_ahead(a.ahead, kLinesPerQuad * (a.dim / 64) / 2);
  }
}
inline void restore_quads(float* at) {  // 64 elements of o
  F x[4];
  for (uint32_t i = 0; i < 4; ++i) x[i] = load(at + i * kLanes);
  const __m512 low01 = _mm512_shuffle_f32x4(x[0], x[1], 0x44),
               high01 = _mm512_shuffle_f32x4(x[0], x[1], 0xee);
  const __m512 low23 = _mm512_shuffle_f32x4(x[2], x[3], 0x44),
               high23 = _mm512_shuffle_f32x4(x[2], x[3], 0xee);
  store(at, (F)_mm512_shuffle_f32x4(low01, low23, 0x88));
  store(at + 16, (F)_mm512_shuffle_f32x4(low01, low23, 0xdd));
  store(at + 32, (F)_mm512_shuffle_f32x4(high01, high23, 0x88));
  store(at + 48, (F)_mm512_shuffle_f32x4(high01, high23, 0xdd));
}

// Weights of up to 8 rows: the high digits of all rows, then the low digits.
struct DigitWeights {
  alignas(64) int8_t of[kTileRows][kTile];
  float unit[kDigitRows], base[kDigitRows];
};
template <Form form>
inline void weigh_digits(const ValueArgs& a, uint32_t row, uint32_t rows, size_t group,
                         DigitWeights& digits) {
  constexpr float kMost = 127 * 256 + 127;  // the largest magnitude of two signed digits
  const uint32_t tokens = a.segments * kSegment;
  in_blocks<4>(rows, [&]<uint32_t kRows>(uint32_t first) {
    Weights weights;
    weigh<form, kRows>(a, row + first, group, weights);
    for (uint32_t r = 0; r < kRows; ++r) {
      const float* at = weights.of + r * kTile;
      const IntegerUnit integer = unit_of(at, tokens, kMost);
      for (uint32_t t = 0; t < kTile; t += kLanes) {
        __m512i x{};
        if (t < tokens) x = _mm512_cvtps_epi32(load(at + t) * integer.inverse);
        const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(128)), 8);
        _mm_store_si128(reinterpret_cast<__m128i*>(digits.of[first + r] + t), _mm512_cvtepi32_epi8(high));
        _mm_store_si128(reinterpret_cast<__m128i*>(digits.of[kDigitRows + first + r] + t),
                        _mm512_cvtepi32_epi8(x));
      }
      digits.unit[first + r] = integer.unit;
      digits.base[first + r] = weights.base[r];
    }
  });
}

template <Form form>
void add_values_quads(const ValueArgs& a) {
  if (!a.is_packed) pack_quads(a);
  set_tile_rows(kTileRows);
  DigitWeights weights;
  alignas(64) int32_t sums[4][kTileRows * 16];
  for (uint32_t row = 0; row < a.rows; row += kDigitRows) {
    const uint32_t rows = a.rows - row < kDigitRows ? a.rows - row : kDigitRows;
    for (uint32_t column = 0; column < a.dim; column += 64) {
      if (column % a.v.group == 0) {
        weigh_digits<form>(a, row, rows, column / a.v.group, weights);
        load_tile<4>(weights.of, kTile);
      }
      const __m512i* v = static_cast<const __m512i*>(a.packed) + column;
      for_tiles(4, [&]<int i>() {
        zero_tile<i>();
        load_tile<6 + i % 2>(v + i * 16, 64);
        multiply_by_bytes<form, i, 4, 6 + i % 2>();
        fetch_ahead(a.ahead, kLinesPerProduct);
      });
      for_tiles(4, [&]<int i>() { store_tile<i>(sums[i], 64); });
      for_tiles(4, [&]<int i>() {
        for (uint32_t r = 0; r < rows; ++r) {
          const F high = _mm512_cvtepi32_ps(_mm512_load_si512(sums[i] + r * 16));
          const F low = _mm512_cvtepi32_ps(_mm512_load_si512(sums[i] + (kDigitRows + r) * 16));
          const F sum = fma(fma(high, set1(256), low), set1(weights.unit[r]), set1(weights.base[r]));
          float* o = a.o + (row + r) * a.dim + column + i * kLanes;
          store(o, load(o) + sum);
        }
        fetch_ahead(a.ahead, kLinesPerSum);
      });
    }
  }
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
#endif
