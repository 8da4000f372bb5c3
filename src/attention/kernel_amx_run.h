// SPDX-License-Identifier: Apache-2.0
// Attention of many rows to a run of tokens in the tile registers of AMX: 32 rows against 32 tokens, or
// columns, at a time. Tiles 0 to 3 are sums, of rows 0 to 15 and then 16 to 31 against the first 16 tokens or
// columns and the second; 4 and 5 the two halves of the rows, 6 and 7 of the others.
#pragma once
#include "attention/kernel_amx_pack.h"
#include "attention/kernel_tiles.h"

#if KVC_ATTENTION_LEVEL == 4
namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

constexpr uint32_t kRunTokens = kRunSegments * kSegment;

inline void fetch_next(Lines*& ahead, const Lines* end, uint32_t count) {
  while (ahead != end && ahead->row == ahead->end) ++ahead;
  if (ahead != end) fetch(*ahead, count);
}

// Calls left(i) and right(j) before the products of terms i + j < orders, small ones first. Which these are
// must not depend on the numbers of terms, which follow from other rows and tokens too.
template <class Left, class Right>
inline void for_products(uint32_t orders, uint32_t left_terms, uint32_t right_terms, Left left, Right right) {
  for (uint32_t i = left_terms; i-- != 0;) {
    left(i);
    for (uint32_t j = orders - i < right_terms ? orders - i : right_terms; j-- != 0;) right(j);
  }
}

template <uint32_t kHalves>
inline void zero_sums() {
  zero_tile<0>(), zero_tile<1>();
  if constexpr (kHalves == 2) zero_tile<2>(), zero_tile<3>();
}

// The products of a step, of one or two halves.
template <uint32_t kHalves>
inline void multiply_halves() {
  multiply_bf16<0, 4, 6>();
  multiply_bf16<1, 4, 7>();
  if constexpr (kHalves == 2) {
    multiply_bf16<2, 5, 6>();
    multiply_bf16<3, 5, 7>();
  }
}

template <uint32_t kHalves>
void run_scores(const RunArgs& a, uint32_t row, Lines*& ahead) {
  const size_t pairs = a.k_dim / 2, row_bytes = pairs * 4;
  const uint32_t* q = a.q_pairs + row * pairs;
  for (uint32_t s = 0; s < a.segments; s += 2) {
    zero_sums<kHalves>();
    for (size_t e = 0; e < pairs; e += 16) {
      for_products(
          a.score_orders, a.q_terms, a.k_terms,
          [&](uint32_t i) {
            const uint32_t* term = q + i * a.q_term_words + e;
            load_tile<4>(term, row_bytes);
            if constexpr (kHalves == 2) load_tile<5>(term + 16 * pairs, row_bytes);
          },
          [&](uint32_t j) {
            const size_t at = j * a.k_term_words + e * kSegment;
            load_tile<6>(a.k[s] + at, 64);
            load_tile<7>(a.k[s + 1] + at, 64);
            multiply_halves<kHalves>();
          });
      fetch_next(ahead, a.ahead_end, 8);
    }
    float* scores = a.scores + s * kSegment;
    constexpr size_t kBytes = kRunTokens * sizeof(float);
    store_tile<0>(scores, kBytes), store_tile<1>(scores + 16, kBytes);
    if constexpr (kHalves == 2) {
      store_tile<2>(scores + 16 * kRunTokens, kBytes);
      store_tile<3>(scores + 16 * kRunTokens + 16, kBytes);
    }
  }
}

// 2^x to 2^-13, for probabilities that are rounded to bf16; 0 and NaN as exp2().
inline F exp2_short(F x) {
  const F f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF);  // x - floor(x), and 0 for -infinity
  F y = fma(set1(7.802452258e-2f), f, set1(2.260671555e-1f));
  y = fma(y, f, set1(6.958335405e-1f));
  y = fma(y, f, set1(9.999252186e-1f));
  return _mm512_scalef_ps(y, x);
}

// Probabilities beyond this make a row start again from its highest logit: rare after the first tiles.
constexpr float kMostTotal = 0x1p10f;

// One step of the online softmax, row by row.
template <uint32_t kSegments, uint32_t kTerms, bool kMasked>
void run_softmax(const RunArgs& a, uint32_t first, uint32_t rows) {
  for (uint32_t r = 0; r < rows; ++r) {
    const float* scores = a.scores + r * kRunTokens;
    const uint32_t row = first + r;
    uint32_t* const words = a.p + r * (kRunTokens / 2);
    const auto score = [&](uint32_t i) {
      const F x = load(scores + i * kSegment);
      if (!kMasked || a.visible[i / kMaxSegments] == nullptr) return x;
      const uint64_t seen = a.visible[i / kMaxSegments][row] >> i % kMaxSegments * kSegment;
      return (F)_mm512_mask_mov_ps((__m512)set1(-__builtin_inff()), static_cast<__mmask16>(seen), (__m512)x);
    };
    const auto raise_top = [&] {
      F highest = set1(a.top[row]);
      const F before = highest;
      for (uint32_t i = 0; i < kSegments; ++i) highest = max(score(i) * a.scale, highest);
      a.top[row] = max_of(highest);
      const F factor = exp2(before - a.top[row]);
      float* totals = a.total + row * 16;
      store(totals, load(totals) * factor);
      if (a.fresh) return;
      float* o = a.o + size_t{row} * a.v_dim;
      for (uint32_t e = 0; e < a.v_dim; e += kLanes) store(o + e, load(o + e) * factor);
    };
    bool raised = a.top[row] <= a.nothing;
    if (raised) raise_top();
    for (;; raised = true) {
      const F top = set1(a.top[row]);
      F total[2] = {};
      for (uint32_t i = 0; i < kSegments; i += 2) {
        const F y = fma(score(i), set1(a.scale), -top), z = fma(score(i + 1), set1(a.scale), -top);
        F low = kTerms == 1 ? exp2_short(y) : exp2(y), high = kTerms == 1 ? exp2_short(z) : exp2(z);
        total[0] = total[0] + low, total[1] = total[1] + high;
        for (uint32_t t = 0; t < kTerms; ++t) {
          const U low_bits = reinterpret_cast<U>(low) + 0x8000u;
          const U high_bits = reinterpret_cast<U>(high) + 0x8000u;
          _mm512_store_si512(words + t * kRunRows * (kRunTokens / 2) + i * 8,
                             (__m512i)(low_bits >> 16 | (high_bits & 0xffff0000u)));
          if (t + 1 == kTerms) break;
          low = low - reinterpret_cast<F>(low_bits & 0xffff0000u);
          high = high - reinterpret_cast<F>(high_bits & 0xffff0000u);
        }
      }
      const F sum = total[0] + total[1];
      if (raised || _mm512_cmp_ps_mask((__m512)sum, (__m512)set1(kMostTotal), _CMP_NLE_UQ) == 0) [[likely]] {
        float* totals = a.total + row * 16;
        store(totals, load(totals) + sum);
        break;
      }
      raise_top();
    }
  }
}

template <uint32_t kHalves>
void run_values(const RunArgs& a, uint32_t row) {
  const size_t row_bytes = size_t{a.v_dim} * sizeof(float);
  const uint32_t steps = a.segments / 2;
  constexpr size_t kColumn = kRunSegments / 2 * 256, kTerm = kRunRows * (kRunTokens / 2);
  for (uint32_t c = 0; c < a.v_dim; c += 32) {
    float* o = a.o + size_t{row} * a.v_dim + c;
    const uint32_t* v = a.v + c / 16 * kColumn;
    if (a.fresh) {
      zero_sums<kHalves>();
    } else {
      load_tile<0>(o, row_bytes), load_tile<1>(o + 16, row_bytes);
      if constexpr (kHalves == 2)
        load_tile<2>(o + 16 * a.v_dim, row_bytes), load_tile<3>(o + 16 * a.v_dim + 16, row_bytes);
    }
    for (uint32_t step = 0; step < steps; ++step) {
      for_products(
          kValueTerms, a.p_terms, a.v_terms,
          [&](uint32_t i) {
            const uint32_t* p = a.p + i * kTerm + step * 16;
            load_tile<4>(p, kRunTokens * 2);
            if constexpr (kHalves == 2) load_tile<5>(p + 16 * (kRunTokens / 2), kRunTokens * 2);
          },
          [&](uint32_t j) {
            const uint32_t* at = v + j * a.v_term_words + step * 256;
            load_tile<6>(at, 64);
            load_tile<7>(at + kColumn, 64);
            multiply_halves<kHalves>();
          });
    }
    store_tile<0>(o, row_bytes), store_tile<1>(o + 16, row_bytes);
    if constexpr (kHalves == 2) {
      store_tile<2>(o + 16 * a.v_dim, row_bytes), store_tile<3>(o + 16 * a.v_dim + 16, row_bytes);
    }
  }
}

template <uint32_t kHalves, uint32_t kSegments, uint32_t kTerms, bool kMasked>
inline void run_block(const RunArgs& a, uint32_t row, uint32_t rows, Lines*& ahead) {
  set_tile_rows(kHalves == 2 ? kTileRows : rows);
  run_scores<kHalves>(a, row, ahead);
  run_softmax<kSegments, kTerms, kMasked>(a, row, rows);
  run_values<kHalves>(a, row);
}

// The phases of a block of rows one after the other: multiplied in between, in the tile registers, the
// vectors would only be slowed down.
template <uint32_t kSegments, uint32_t kTerms, bool kMasked>
void run_blocks(const RunArgs& a) {
  Lines* ahead = a.ahead;
  uint32_t row = 0;
  for (; row + 2 * kTileRows <= a.rows; row += 2 * kTileRows)
    run_block<2, kSegments, kTerms, kMasked>(a, row, 2 * kTileRows, ahead);
  for (; row < a.rows; row += kTileRows) {
    const uint32_t rows = a.rows - row < kTileRows ? a.rows - row : kTileRows;
    run_block<1, kSegments, kTerms, kMasked>(a, row, rows, ahead);
  }
}

template <uint32_t kSegments>
void run_of(const RunArgs& a) {
  bool masked = false;
  for (uint32_t i = 0; i < kRunTiles; ++i) masked |= a.visible[i] != nullptr;
  const bool one = a.p_terms == 1;
  if (masked) return one ? run_blocks<kSegments, 1, true>(a) : run_blocks<kSegments, kValueTerms, true>(a);
  one ? run_blocks<kSegments, 1, false>(a) : run_blocks<kSegments, kValueTerms, false>(a);
}

void attend_run(const RunArgs& a) {
  if (a.segments == 2) return run_of<2>(a);
  if (a.segments == 4) return run_of<4>(a);
  run_of<8>(a);
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
#endif
