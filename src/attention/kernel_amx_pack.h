// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values as sums of bf16 terms, in words of two elements as the tile registers multiply
// them. A float shares its word with the element 16 further on, a value with that of the token 16 further on:
// this takes no shuffling. Queries and keys in bf16 keep their order: elements 2 i and 2 i + 1 share a word.
#pragma once
#include "attention/kernel_weights.h"

#if KVC_ATTENTION_LEVEL == 4
namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

// Splits floats into terms of 8 bits each: three are exact, two leave an error of 2^-18. Terms are rounded,
// so the mean error is 0, also that of products of small terms that are left out.
template <uint32_t kTerms>
class Splitter {
 public:
  void split(F low, F high, __m512i* words) {
    for (uint32_t t = 0; t < kTerms; ++t) {
      const U low_bits = reinterpret_cast<U>(low) + 0x8000u;
      const U high_bits = (reinterpret_cast<U>(high) + 0x8000u) & 0xffff0000u;
      words[t] = (__m512i)(low_bits >> 16 | high_bits);
      if (t + 1 == kTerms) break;
      low = low - reinterpret_cast<F>(low_bits & 0xffff0000u);
      high = high - reinterpret_cast<F>(high_bits);
      left_[t] |= reinterpret_cast<U>(low) | reinterpret_cast<U>(high);
      if (t == 0) not_finite_ |= is_not_finite(low) | is_not_finite(high);
    }
  }
  // How many terms are not all 0. 0 if a float was infinite or NaN, or rounds to infinity: then the terms do
  // not add up to it.
  uint32_t terms() const {
    if (not_finite_ != 0) return 0;
    uint32_t count = 1;
    for (uint32_t t = 0; t + 1 < kTerms; ++t) {
      if (_mm512_test_epi32_mask((__m512i)left_[t], (__m512i)left_[t]) != 0) count = t + 2;
    }
    return count;
  }

 private:
  static uint32_t is_not_finite(F x) {
    constexpr int kQuietNan = 0x01, kInfinity = 0x08, kMinusInfinity = 0x10, kSignalingNan = 0x80;
    return _mm512_fpclass_ps_mask((__m512)x, kQuietNan | kInfinity | kMinusInfinity | kSignalingNan);
  }

  U left_[kTerms - 1] = {};
  uint32_t not_finite_ = 0;
};

inline void transpose(__m512i (&x)[16]) {
  __m512i y[16];
  for (uint32_t i = 0; i < 16; i += 4) {
    const __m512i a = _mm512_unpacklo_epi32(x[i], x[i + 1]), b = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    const __m512i c = _mm512_unpacklo_epi32(x[i + 2], x[i + 3]),
                  d = _mm512_unpackhi_epi32(x[i + 2], x[i + 3]);
    y[i] = _mm512_unpacklo_epi64(a, c), y[i + 1] = _mm512_unpackhi_epi64(a, c);
    y[i + 2] = _mm512_unpacklo_epi64(b, d), y[i + 3] = _mm512_unpackhi_epi64(b, d);
  }
  for (uint32_t i = 0; i < 4; ++i) {
    const __m512i a = _mm512_shuffle_i32x4(y[i], y[i + 4], 0x88),
                  b = _mm512_shuffle_i32x4(y[i], y[i + 4], 0xdd);
    const __m512i c = _mm512_shuffle_i32x4(y[i + 8], y[i + 12], 0x88),
                  d = _mm512_shuffle_i32x4(y[i + 8], y[i + 12], 0xdd);
    x[i] = _mm512_shuffle_i32x4(a, c, 0x88), x[i + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
    x[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88), x[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
}

uint32_t pack_queries(const float* q, uint32_t rows, uint32_t dim, uint32_t* to, size_t term_words) {
  Splitter<kMaxTerms> splitter;
  for (size_t i = 0, count = size_t{rows} * dim; i < count; i += 32) {
    __m512i words[kMaxTerms];
    splitter.split(load(q + i), load(q + i + 16), words);
    for (uint32_t t = 0; t < kMaxTerms; ++t) _mm512_store_si512(to + t * term_words + i / 2, words[t]);
  }
  return splitter.terms();
}

// Keys become [terms][segments][dim / 2][16 tokens] words.
uint32_t pack_keys(const PackArgs& a) {
  Splitter<kMaxTerms> splitter;
  const size_t pairs = a.dim / 2;
  uint32_t* to = a.to;
  for (uint32_t s = 0; s < a.segments; ++s, to += pairs * kSegment) {
    const auto seen = static_cast<__mmask16>(a.seen >> s * kSegment);
    const auto load_seen = [&](const float* at) { return (F)_mm512_maskz_loadu_ps(seen, at); };
    for (size_t e = 0; e < a.dim; e += 32) {
      uint32_t* at = to + e / 2 * kSegment;
      if (a.tiled) {
        const auto* from = reinterpret_cast<const float*>(row_at(a.from, s)) + e * kSegment;
        for (uint32_t i = 0; i < 16; ++i) {
          __m512i words[kMaxTerms];
          splitter.split(load_seen(from + i * kSegment), load_seen(from + (i + 16) * kSegment), words);
          for (uint32_t t = 0; t < kMaxTerms; ++t)
            _mm512_store_si512(at + t * a.term_words + i * kSegment, words[t]);
        }
        continue;
      }
      __m512i rows[kMaxTerms][16];
      const uint32_t terms = a.form == kBf16 ? 1 : kMaxTerms;
      for (uint32_t i = 0; i < 16; ++i) {
        const char* row = row_at(a.from, s * kSegment + i);
        if (a.form == kBf16) {
          rows[0][i] = _mm512_loadu_si512(row + e * 2);
          continue;
        }
        const auto* floats = reinterpret_cast<const float*>(row) + e;
        __m512i words[kMaxTerms] = {};
        if ((seen >> i & 1) != 0) splitter.split(load(floats), load(floats + 16), words);
        for (uint32_t t = 0; t < kMaxTerms; ++t) rows[t][i] = words[t];
      }
      for (uint32_t t = 0; t < terms; ++t) {
        transpose(rows[t]);
        for (uint32_t i = 0; i < 16; ++i)
          _mm512_store_si512(at + t * a.term_words + i * kSegment, rows[t][i]);
      }
    }
  }
  return splitter.terms();
}

inline bool has_infinite_bf16(__m512i x) {  // or NaN
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  return _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent) != 0;
}

// Values become [terms][dim / 16] columns of [segments / 2][16 pairs of tokens][16 columns] words, those of
// bf16 in the order of values_pairs().
uint32_t pack_values(const PackArgs& a) {
  Splitter<kValueTerms> splitter;
  bool finite = true;
  for (uint32_t step = 0; step < a.segments / 2; ++step) {
    for (uint32_t i = 0; i < 16; ++i) {
      const char *x = row_at(a.from, step * 32 + i), *y = row_at(a.from, step * 32 + 16 + i);
      uint32_t* to = a.to + step * 256 + i * 16;
      const auto all_if = [&](uint32_t token) {
        return (a.seen >> token & 1) != 0 ? ~__mmask32{0} : __mmask32{0};
      };
      const __mmask32 see_x = all_if(step * 32 + i), see_y = all_if(step * 32 + 16 + i);
      if (a.form == kBf16) {
        for (uint32_t c = 0; c < a.dim; c += 32, to += 2 * a.column_words) {
          const __m512i low = _mm512_maskz_loadu_epi16(see_x, x + c * 2);
          const __m512i high = _mm512_maskz_loadu_epi16(see_y, y + c * 2);
          _mm512_store_si512(to, _mm512_unpacklo_epi16(low, high));
          _mm512_store_si512(to + a.column_words, _mm512_unpackhi_epi16(low, high));
          if (a.must_be_finite) finite &= !has_infinite_bf16(low) && !has_infinite_bf16(high);
        }
        continue;
      }
      const auto *low = reinterpret_cast<const float*>(x), *high = reinterpret_cast<const float*>(y);
      for (uint32_t c = 0; c < a.dim; c += 16, to += a.column_words) {
        __m512i words[kValueTerms];
        splitter.split((F)_mm512_maskz_loadu_ps(static_cast<__mmask16>(see_x), low + c),
                       (F)_mm512_maskz_loadu_ps(static_cast<__mmask16>(see_y), high + c), words);
        for (uint32_t t = 0; t < kValueTerms; ++t) _mm512_store_si512(to + t * a.term_words, words[t]);
      }
    }
  }
  return finite ? splitter.terms() : 0;
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
#endif
