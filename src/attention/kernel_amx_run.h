// SPDX-License-Identifier: Apache-2.0
// Attention of many rows to a run of tokens in the tile registers of AMX: 32 rows by 32 tokens, or columns,
// at a time. Tiles 0 and 1 are the sums of rows 0 to 15 by the first and the second 16 tokens or columns,
// tiles 2 and 3 those of rows 16 to 31. Tiles 4 and 5 hold the two halves of the rows, 6 and 7 those of the
// tokens.
#pragma once
#include "attention/kernel_amx_softmax.h"
#include "attention/kernel_tiles.h"

#if KVC_ATTENTION_LEVEL == 4
namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

inline void fetch_next(Lines*& ahead, const Lines* end, uint32_t count) {
  while (ahead != end && ahead->row == ahead->end) ++ahead;
  if (ahead != end) fetch(*ahead, count);
}

// Calls each(i, j, whether i is new) for terms i + j < orders, small ones first. Other rows and tokens change
// the numbers of terms, so the order must not depend on them.
template <class Each>
inline void for_products(uint32_t orders, uint32_t left_terms, uint32_t right_terms, Each each) {
  for (uint32_t i = left_terms; i-- != 0;) {
    bool is_new = true;
    for (uint32_t j = orders - i < right_terms ? orders - i : right_terms; j-- != 0; is_new = false)
      each(i, j, is_new);
  }
}

// Where tiles 0 to 3 are stored: 32 columns of 16 rows, or of 32 rows for two halves.
struct Sums {
  float* at;
  size_t row_bytes;
  size_t column;  // floats from 16 columns to the next

  template <int tile>
  float* part() const {
    return at + tile / 2 * kTileRows * (row_bytes / sizeof(float)) + tile % 2 * column;
  }
};

template <uint32_t kHalves>
inline void store_sums(const Sums& sums) {
  for_tiles(2 * kHalves, [&]<int tile>() { store_tile<tile>(sums.part<tile>(), sums.row_bytes); });
}

// The factors of a step: rows of 64 bytes, and two tiles of tokens or columns.
struct Factors {
  const uint32_t* left;
  size_t row_words;
  bool is_loaded;  // `left` is that of the previous step
  const uint32_t* right[2];
};

// The products of a step, for one or two halves of the rows. kFirst: the sums begin, at add_to or at 0, after
// the earlier sums are stored; this overlaps with the products of other tiles. In this order, which is the
// fastest, distant loads come first and no factor is loaded before it is needed.
template <uint32_t kHalves, bool kFirst>
inline void multiply_step(const Factors& x, const Sums& before, const Sums* add_to) {
  const auto begin = [&]<int tile>() {
    if (!kFirst) return;
    if (before.at != nullptr) store_tile<tile>(before.part<tile>(), before.row_bytes);
    add_to != nullptr ? load_tile<tile>(add_to->part<tile>(), add_to->row_bytes) : zero_tile<tile>();
  };
  stream_tile<6>(x.right[0], 64);
  if (!x.is_loaded) load_tile<4>(x.left, x.row_words * 4);
  begin.template operator()<0>(), multiply_bf16<0, 4, 6>();
  if constexpr (kHalves == 2) {
    if (!x.is_loaded) load_tile<5>(x.left + kTileRows * x.row_words, x.row_words * 4);
    begin.template operator()<2>(), multiply_bf16<2, 5, 6>();
  }
  stream_tile<7>(x.right[1], 64);
  if constexpr (kHalves == 2) begin.template operator()<3>(), multiply_bf16<3, 5, 7>();
  begin.template operator()<1>(), multiply_bf16<1, 4, 7>();
}

// Scores of segments [from, from + segments).
template <uint32_t kHalves>
void run_scores(const RunArgs& a, uint32_t row, uint32_t from, uint32_t segments, Lines*& ahead) {
  const size_t pairs = a.k_dim / 2;
  const uint32_t* q = a.q_pairs + row * pairs;
  Sums before{};
  for (uint32_t s = from; s < from + segments; s += 2) {
    bool first = true;
    for (size_t e = 0; e < pairs; e += 16) {
      for_products(a.score_orders, a.q_terms, a.k_terms, [&](uint32_t i, uint32_t j, bool is_new) {
        const size_t at = j * a.k_term_words + e * kSegment;
        const Factors x{q + i * a.q_term_words + e, pairs, !is_new, {a.k[s] + at, a.k[s + 1] + at}};
        first ? multiply_step<kHalves, true>(x, before, nullptr)
              : multiply_step<kHalves, false>(x, before, nullptr);
        first = false;
      });
      fetch_next(ahead, a.ahead_end, 8);
    }
    before = {a.scores + (s - from) * kScoreTile, 64, kScoreTile};
  }
  store_sums<kHalves>(before);
}

template <uint32_t kHalves>
void run_values(const RunArgs& a, uint32_t row, uint32_t segments) {
  Sums before{};
  for (uint32_t c = 0; c < a.v_dim; c += 32) {
    const Sums now{a.o + size_t{row} * a.v_dim + c, size_t{a.v_dim} * sizeof(float), 16};
    const uint32_t* v = a.v + c / 16 * a.v_column_words;
    bool first = true;
    for (uint32_t step = 0; step < segments / 2; ++step) {
      for_products(kValueTerms, a.p_terms, a.v_terms, [&](uint32_t i, uint32_t j, bool is_new) {
        const uint32_t* at = v + j * a.v_term_words + step * 256;
        const uint32_t* p = a.p + i * a.p_term_words + step * kStepWords;
        const Factors x{p, 16, !is_new, {at, at + a.v_column_words}};
        first ? multiply_step<kHalves, true>(x, before, a.fresh ? nullptr : &now)
              : multiply_step<kHalves, false>(x, before, nullptr);
        first = false;
      });
    }
    before = now;
  }
  store_sums<kHalves>(before);
}

// How many segments these rows read: even, at least 2. None of the rows sees a later one.
inline uint32_t count_seen(const RunArgs& a, uint32_t first, uint32_t rows) {
  uint32_t segments = a.segments;
  for (; segments > 2; segments -= 2) {
    const uint32_t last = segments - 2;
    const uint64_t* visible = a.visible[last / kMaxSegments];
    if (visible == nullptr) break;
    uint64_t seen = 0;
    for (uint32_t r = 0; r < rows; ++r) seen |= visible[first + r];
    if ((seen >> last % kMaxSegments * kSegment & 0xffffffffu) != 0) break;
  }
  return segments;
}

// The phases of a block of rows run one after the other: interleaved with products in the tile registers,
// vector code only becomes slower. Few scores at a time stay in the L1 cache; reading them back from the L2
// cache would cost more than all other reads.
template <uint32_t kHalves, uint32_t kTerms>
inline void run_block(const RunArgs& a, uint32_t row, uint32_t rows, Lines*& ahead) {
  set_tile_rows(kHalves == 2 ? kTileRows : rows);
  const uint32_t segments = count_seen(a, row, rows);
  for (uint32_t from = 0; from < segments; from += kScoreSegments) {
    const uint32_t count = segments - from < kScoreSegments ? segments - from : kScoreSegments;
    run_scores<kHalves>(a, row, from, count, ahead);
    bool masked = false;
    for (uint32_t s = from; s < from + count; s += kMaxSegments)
      masked |= a.visible[s / kMaxSegments] != nullptr;
    masked ? run_softmax_of<kTerms, true>(count, a, row, rows, from)
           : run_softmax_of<kTerms, false>(count, a, row, rows, from);
  }
  run_values<kHalves>(a, row, segments);
}

template <uint32_t kTerms>
void run_blocks(const RunArgs& a) {
  Lines* ahead = a.ahead;
  uint32_t row = 0;
  for (; row + 2 * kTileRows <= a.rows; row += 2 * kTileRows)
    run_block<2, kTerms>(a, row, 2 * kTileRows, ahead);
  for (; row < a.rows; row += kTileRows) {
    const uint32_t rows = a.rows - row < kTileRows ? a.rows - row : kTileRows;
    run_block<1, kTerms>(a, row, rows, ahead);
  }
}

void attend_run(const RunArgs& a) { a.p_terms == 1 ? run_blocks<1>(a) : run_blocks<kValueTerms>(a); }

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
#endif
