// SPDX-License-Identifier: Apache-2.0
// The softmax of kernel_amx_run.h. Scores and probabilities are stored as tiles: scores as
// [segments][kRunRows][16] floats, probabilities as [terms][segments / 2][kRunRows][16] words of two tokens.
#pragma once
#include "attention/kernel_amx_pack.h"

#if KVC_ATTENTION_LEVEL == 4
namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

constexpr size_t kScoreTile = kRunRows * kSegment;
constexpr size_t kStepWords = kRunRows * 16;  // of the probabilities of 32 tokens

// 2^x with an error of 2^-13, for probabilities that are rounded to bf16; 0 and NaN as exp2().
inline F exp2_short(F x) {
  const F f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF);  // x - floor(x), and 0 for -infinity
  F y = fma(set1(7.802452258e-2f), f, set1(2.260671555e-1f));
  y = fma(y, f, set1(6.958335405e-1f));
  y = fma(y, f, set1(9.999252186e-1f));
  return _mm512_scalef_ps(y, x);
}

// If a row's probabilities exceed this, the step is repeated with a new row_max: rare after the first tiles.
constexpr float kMostTotal = 0x1p10f;

constexpr float kLargeLogit = 0x1p20f;

// Multiplies probabilities, two bf16 in a word, by a power of 2.
inline void scale_words(uint32_t* words, F factor) {
  const U x = reinterpret_cast<U>(_mm512_load_si512(words));
  const U low = reinterpret_cast<U>(reinterpret_cast<F>(x << 16) * factor);
  const U high = reinterpret_cast<U>(reinterpret_cast<F>(x & 0xffff0000u) * factor);
  _mm512_store_si512(words, (__m512i)(low >> 16 | (high & 0xffff0000u)));
}

// Scales by a power of 2 what a row has of earlier steps: the sums, the probabilities of the segments before
// `from`, the result.
template <uint32_t kTerms>
[[gnu::always_inline]] inline void scale_row(const RunArgs& a, uint32_t row, uint32_t* words, uint32_t from,
                                             F factor) {
  float* row_sums = a.row_sum + row * 16;
  store(row_sums, load(row_sums) * factor);
  for (uint32_t t = 0; t < kTerms; ++t) {
    for (uint32_t step = 0; step < from / 2; ++step)
      scale_words(words + t * a.p_term_words + step * kStepWords, factor);
  }
  if (a.fresh) return;
  float* o = a.o + size_t{row} * a.v_dim;
  for (uint32_t e = 0; e < a.v_dim; e += kLanes) store(o + e, load(o + e) * factor);
}

// Probabilities of two tokens as sums of bf16 terms.
template <uint32_t kTerms>
[[gnu::always_inline]] inline void store_terms(F low, F high, uint32_t* words, size_t term_words) {
  for (uint32_t t = 0; t < kTerms; ++t) {
    const U low_bits = reinterpret_cast<U>(low) + 0x8000u;
    const U high_bits = reinterpret_cast<U>(high) + 0x8000u;
    _mm512_store_si512(words + t * term_words, (__m512i)(low_bits >> 16 | (high_bits & 0xffff0000u)));
    if (t + 1 == kTerms) break;
    low = low - reinterpret_cast<F>(low_bits & 0xffff0000u);
    high = high - reinterpret_cast<F>(high_bits & 0xffff0000u);
  }
}

// One step of the online softmax, row by row, of the scores of the segments from `from` on.
template <uint32_t kSegments, uint32_t kTerms, bool kMasked>
void run_softmax(const RunArgs& a, uint32_t first, uint32_t rows, uint32_t from) {
  for (uint32_t r = 0; r < rows; ++r) {
    float* const scores = a.scores + r * kSegment;
    const uint32_t row = first + r;
    uint32_t* const words = a.p + r * 16;
    const auto score = [&](uint32_t i) {
      const F x = load(scores + i * kScoreTile);
      const uint64_t* visible = a.visible[(from + i) / kMaxSegments];
      if (!kMasked || visible == nullptr) return x;
      const uint64_t seen = visible[row] >> i % kMaxSegments * kSegment;
      return (F)_mm512_mask_mov_ps((__m512)set1(-__builtin_inff()), static_cast<__mmask16>(seen), (__m512)x);
    };
    // Scales by a power of 2, which does not round earlier probabilities again. If the maximum grows by 256
    // or more, they become 0.
    const auto raise_row_max = [&] {
      F highest = set1(a.row_max[row]);
      const float before = a.row_max[row];
      for (uint32_t i = 0; i < kSegments; ++i) highest = max(score(i) * a.scale, highest);
      const float row_max = max_of(highest);
      const bool is_far = !(row_max - before < 256);
      const float raise = is_far ? row_max - before : __builtin_ceilf(row_max - before);
      a.row_max[row] = is_far ? row_max : before + raise;
      const F factor = _mm512_scalef_ps(set1(1), set1(-raise));
      scale_row<kTerms>(a, row, words, from, factor);
    };
    // The rounding error of such large logits may exceed all other logits. Includes rows that have seen
    // nothing.
    const auto is_large = [&] { return !(__builtin_fabsf(a.row_max[row]) <= kLargeLogit); };
    bool raised = is_large();
    if (raised) raise_row_max();
    for (;; raised = true) {
      F scale = set1(a.scale), row_max = set1(a.row_max[row]);
      if (is_large()) [[unlikely]] {
        for (uint32_t i = 0; i < kSegments; ++i) {
          float* at = scores + i * kScoreTile;
          store(at,
                (F)_mm512_mul_round_ps((__m512)load(at), (__m512)scale, _MM_FROUND_CUR_DIRECTION) - row_max);
        }
        scale = set1(1), row_max = F{};
      }
      F row_sum[2] = {};
      for (uint32_t i = 0; i < kSegments; i += 2) {
        const F y = fma(score(i), scale, -row_max), z = fma(score(i + 1), scale, -row_max);
        const F low = kTerms == 1 ? exp2_short(y) : exp2(y), high = kTerms == 1 ? exp2_short(z) : exp2(z);
        row_sum[0] = row_sum[0] + low, row_sum[1] = row_sum[1] + high;
        store_terms<kTerms>(low, high, words + (from + i) / 2 * kStepWords, a.p_term_words);
      }
      const F sum = row_sum[0] + row_sum[1];
      if (raised || _mm512_cmp_ps_mask((__m512)sum, (__m512)set1(kMostTotal), _CMP_NLE_UQ) == 0) [[likely]] {
        float* row_sums = a.row_sum + row * 16;
        store(row_sums, load(row_sums) + sum);
        break;
      }
      raise_row_max();
    }
  }
}

template <uint32_t kTerms, bool kMasked>
inline void run_softmax_of(uint32_t segments, const RunArgs& a, uint32_t row, uint32_t rows, uint32_t from) {
  if (segments == 8) return run_softmax<8, kTerms, kMasked>(a, row, rows, from);
  if (segments == 6) return run_softmax<6, kTerms, kMasked>(a, row, rows, from);
  if (segments == 4) return run_softmax<4, kTerms, kMasked>(a, row, rows, from);
  run_softmax<2, kTerms, kMasked>(a, row, rows, from);
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
#endif
