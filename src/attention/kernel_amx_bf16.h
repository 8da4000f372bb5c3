// SPDX-License-Identifier: Apache-2.0
// Kernels of bf16 in the tile registers of AMX. A segment of tiled keys is a tile without a copy; values
// become tiles by interleaving the rows of two tokens. 16 rows by 16 tokens, or columns, at a time: tiles 0
// to 3 are sums [rows][16 floats], 4 and 5 hold [rows][16 pairs] of queries or probabilities, 6 and 7 keys or
// values [16 pairs][16 tokens or columns][2].
#pragma once
#include "attention/kernel_tiles.h"
#include "attention/kernel_values.h"

#if KVC_ATTENTION_LEVEL == 4
namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

void tile_scores_amx(const ScoreArgs& a) {
  const size_t pairs = a.dim / 2;
  for (uint32_t row = 0; row < a.rows; row += kTileRows) {
    set_tile_rows(a.rows - row < kTileRows ? a.rows - row : kTileRows);
    const bool fetch = row == 0 && a.next.at != nullptr;
    const uint32_t* q = a.q_pairs + row * pairs;
    for_tiles(a.segments, []<int i>() { zero_tile<i>(); });
    for (size_t e = 0; e < pairs; e += 16) {
      load_tile<4>(q + e, pairs * 4);
      if (a.q_terms == 2) load_tile<5>(q + a.term_rows * pairs + e, pairs * 4);
      for_tiles(a.segments, [&]<int i>() {
        load_tile<6 + i % 2>(row_at(a.k, i) + e * 64, 64);
        if (fetch) {
          // Half of the lines. Of more prefetches at once many would be dropped; the hardware prefetches the
          // rest.
          for (size_t line = 0; line < 8; ++line) prefetch(row_at(a.next, i) + (e + line) * 64);
        }
        multiply_bf16<i, 4, 6 + i % 2>();
        if (a.q_terms == 2) multiply_bf16<i, 5, 6 + i % 2>();
      });
    }
    float* scores = a.scores + row * kTile;
    for_tiles(a.segments, [&]<int i>() { store_tile<i>(scores + i * kSegment, kTile * 4); });
  }
}

// The values of a tile as pairs of tokens: [64 columns][half of the tile][16 columns][16 pairs][16 columns],
// with the columns in the order of values_pairs().
inline void pack_values(const ValueArgs& a, Lines& next) {
  const uint32_t pairs = a.segments * (kSegment / 2), halves = (pairs + 15) / 16;
  for (uint32_t t = 0; t < halves * 16; ++t) {
    auto* to = static_cast<__m512i*>(a.packed) + t / 16 * 64 + t % 16;
    for (uint32_t c = 0; c < a.dim / 32; ++c) {
      __m512i* pair = to + c / 2 * 128 + c % 2 * 32;
      __m512i x{}, y{};
      if (t < pairs) {  // else the empty half of a tile
        x = _mm512_loadu_si512(row_at(a.v, 2 * t) + c * 64);
        y = _mm512_loadu_si512(row_at(a.v, 2 * t + 1) + c * 64);
      }
      _mm512_store_si512(pair, _mm512_unpacklo_epi16(x, y));
      _mm512_store_si512(pair + 16, _mm512_unpackhi_epi16(x, y));
    }
    fetch(next, lines_of(size_t{a.dim} * 2));
  }
}

void add_values_amx(const ValueArgs& a) {
  Lines next = a.ahead[1];
  if (!a.is_packed) pack_values(a, next);
  const uint32_t halves = (a.segments + 1) / 2;
  for (uint32_t row = 0; row < a.rows; row += kTileRows) {
    const uint32_t rows = a.rows - row < kTileRows ? a.rows - row : kTileRows;
    set_tile_rows(rows);
    alignas(64) __m256bh p[kValueTerms][2][kTileRows][2];
    for (uint32_t r = 0; r < rows; ++r) {
      const float* from = a.p + (row + r) * kTile;
      for (uint32_t s = 0; s < 2 * halves; ++s) {
        F x = s < a.segments ? load(from + s * kSegment) : F{};
        for (uint32_t term = 0; term < a.p_terms; ++term) p[term][s / 2][r][s % 2] = take_bf16(x);
      }
    }
    for (uint32_t column = 0; column < a.dim; column += 64) {
      const uint32_t tiles = a.dim - column < 64 ? (a.dim - column) / 16 : 4;
      const __m512i* v = static_cast<const __m512i*>(a.packed) + column * 2;
      float* o = a.o + row * a.dim + column;
      for_tiles(tiles, [&]<int i>() { load_tile<i>(o + i * 16, a.dim * 4); });
      for (uint32_t half = 0; half < halves; ++half) {
        load_tile<4>(p[0][half], 64);
        if (a.p_terms == 2) load_tile<5>(p[1][half], 64);
        for_tiles(tiles, [&]<int i>() {
          load_tile<6 + i % 2>(v + (half * 4 + i) * 16, 64);
          multiply_bf16<i, 4, 6 + i % 2>();
          if (a.p_terms == 2) multiply_bf16<i, 5, 6 + i % 2>();
          fetch(next, 8);
        });
      }
      for_tiles(tiles, [&]<int i>() { store_tile<i>(o + i * 16, a.dim * 4); });
    }
  }
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
#endif
