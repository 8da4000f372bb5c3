// SPDX-License-Identifier: Apache-2.0
// A vector of floats as wide as the instruction set of the file that includes this, which sets
// KVC_ATTENTION_LEVEL (0 portable, 1 AVX2, 2 AVX-512, 3 AVX-512 with BF16) and KVC_ATTENTION_NAMESPACE.
// Everything has internal linkage, so that the linker never takes a function of another instruction set.
#pragma once
#include <stdint.h>
#include <string.h>
#if KVC_ATTENTION_LEVEL > 0
#if defined(__GNUC__) && !defined(__clang__)  // GCC 12 warns about its own _mm512_undefined_ps()
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

#include "attention/kernels.h"

namespace kvc::KVC_ATTENTION_NAMESPACE {
namespace {

inline constexpr uint32_t kLanes = KVC_ATTENTION_LEVEL == 0 ? 4 : KVC_ATTENTION_LEVEL == 1 ? 8 : 16;
typedef float F __attribute__((vector_size(kLanes * 4)));
typedef int32_t I __attribute__((vector_size(kLanes * 4)));
typedef uint32_t U __attribute__((vector_size(kLanes * 4)));
typedef uint16_t Half __attribute__((vector_size(kLanes * 2)));
typedef float Unaligned __attribute__((vector_size(kLanes * 4), aligned(1), may_alias));
typedef int32_t UnalignedI __attribute__((vector_size(kLanes * 4), aligned(1), may_alias));
typedef uint32_t UnalignedU __attribute__((vector_size(kLanes * 4), aligned(1), may_alias));

template <class Vector>
inline Vector load_bits(const char* at) {
  Vector bits;
  memcpy(&bits, at, sizeof bits);
  return bits;
}
inline F load(const float* at) { return *reinterpret_cast<const Unaligned*>(at); }
inline void store(float* at, F x) { *reinterpret_cast<Unaligned*>(at) = x; }
inline F fma(F a, F b, F c) { return a * b + c; }  // contracted by the options of these files
inline void prefetch(const void* at) { __builtin_prefetch(at, 0, 2); }

constexpr size_t bytes_of(Form form, size_t elements) { return elements * kBits[form] / 8; }
constexpr bool is_quantized(Form form) { return form > kBf16; }
constexpr bool is_integer(Form form) { return form >= kI8 && form <= kU4; }
constexpr bool has_offset(Form form) { return form == kU8 || form == kU4; }

#if KVC_ATTENTION_LEVEL == 0

inline F set1(float x) { return F{x, x, x, x}; }
inline F from_bf16(Half half) { return reinterpret_cast<F>(__builtin_convertvector(half, U) << 16); }
inline F from_f16(Half half) {
  const U wide = __builtin_convertvector(half, U);
  const U sign = (wide & 0x8000u) << 16, rest = (wide & 0x7fffu) << 13;
  const U special = reinterpret_cast<U>(rest >= 0x1fu << 23) & 0x7f800000u;
  return reinterpret_cast<F>(reinterpret_cast<U>(reinterpret_cast<F>(rest) * 0x1p112f) | sign | special);
}
// Bytes as 32-bit integers; load_bytes(): sign-extended to 16 bits.
inline I load_i8(const char* at) {
  const auto codes = load_bits<int32_t>(at);
  return I{codes << 24, codes << 16, codes << 8, codes} >> 24;
}
inline I load_u8(const char* at) { return load_i8(at) & 0xff; }
inline Half load_bytes(const char* at) {
  const I wide = load_i8(at);
  return Half{static_cast<uint16_t>(wide[0]), static_cast<uint16_t>(wide[1]), static_cast<uint16_t>(wide[2]),
              static_cast<uint16_t>(wide[3])};
}
// Returns a where b is NaN.
inline F max(F b, F a) { return b > a ? b : a; }
inline bool any_greater(F a, F b) {
  bool any = false;
  for (uint32_t i = 0; i < kLanes; ++i) any |= a[i] > b[i];
  return any;
}
inline float max_of(F x) {
  float most = x[0];
  for (uint32_t i = 1; i < kLanes; ++i) most = x[i] > most ? x[i] : most;
  return most;
}
inline void sum4(const F* x, float* sums) {
  for (uint32_t j = 0; j < 4; ++j) sums[j] = (x[j][0] + x[j][1]) + (x[j][2] + x[j][3]);
}

#elif KVC_ATTENTION_LEVEL == 1

inline F set1(float x) { return _mm256_set1_ps(x); }
inline F from_f16(Half half) { return _mm256_cvtph_ps((__m128i)half); }
inline F from_bf16(Half half) { return (F)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)half), 16); }
inline __m128i load_lane_bytes(const char* at) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
}
inline I load_i8(const char* at) { return (I)_mm256_cvtepi8_epi32(load_lane_bytes(at)); }
inline I load_u8(const char* at) { return (I)_mm256_cvtepu8_epi32(load_lane_bytes(at)); }
inline Half load_bytes(const char* at) { return (Half)_mm_cvtepi8_epi16(load_lane_bytes(at)); }
inline F max(F b, F a) { return _mm256_max_ps(b, a); }
inline bool any_greater(F a, F b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)) != 0; }
inline float max_of(F x) {
  __m128 most = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  most = _mm_max_ps(most, _mm_movehl_ps(most, most));
  return _mm_cvtss_f32(_mm_max_ss(most, _mm_movehdup_ps(most)));
}
// x[0], y[0], x[1], y[1], ...
inline void store_interleaved(float* at, F x, F y) {
  const __m256 low = _mm256_unpacklo_ps(x, y), high = _mm256_unpackhi_ps(x, y);
  store(at, _mm256_permute2f128_ps(low, high, 0x20));
  store(at + 8, _mm256_permute2f128_ps(low, high, 0x31));
}
inline void sum4(const F* x, float* sums) {
  const __m256 all = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
  _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}

#else

inline F set1(float x) { return _mm512_set1_ps(x); }
inline F from_f16(Half half) { return _mm512_cvtph_ps((__m256i)half); }
inline F from_bf16(Half half) { return (F)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)half), 16); }
inline __m128i load_lane_bytes(const char* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
inline I load_i8(const char* at) { return (I)_mm512_cvtepi8_epi32(load_lane_bytes(at)); }
inline I load_u8(const char* at) { return (I)_mm512_cvtepu8_epi32(load_lane_bytes(at)); }
inline Half load_bytes(const char* at) { return (Half)_mm256_cvtepi8_epi16(load_lane_bytes(at)); }
inline F max(F b, F a) { return _mm512_max_ps(b, a); }
inline bool any_greater(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ) != 0; }
inline float max_of(F x) { return _mm512_reduce_max_ps(x); }
// x[0], y[0], x[1], y[1], ...
inline void store_interleaved(float* at, F x, F y) {
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  store(at, _mm512_permutex2var_ps(x, low, y));
  store(at + 16, _mm512_permutex2var_ps(x, _mm512_add_epi32(low, _mm512_set1_epi32(8)), y));
}
// Sums of 16 vectors, in order.
inline I sum16(const I* x) {
  __m512i pairs[8], fours[4], eights[2];
  for (int i = 0; i < 8; ++i) {
    const __m512i a = (__m512i)x[2 * i], b = (__m512i)x[2 * i + 1];
    pairs[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i a = pairs[2 * i], b = pairs[2 * i + 1];
    fours[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  }
  for (int i = 0; i < 2; ++i) {
    const __m512i a = fours[2 * i], b = fours[2 * i + 1];
    eights[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
  }
  return (I)_mm512_add_epi32(_mm512_shuffle_i32x4(eights[0], eights[1], 0x88),
                             _mm512_shuffle_i32x4(eights[0], eights[1], 0xdd));
}
inline void sum4(const F* x, float* sums) {
  const __m512 a = _mm512_add_ps(_mm512_unpacklo_ps(x[0], x[1]), _mm512_unpackhi_ps(x[0], x[1]));
  const __m512 b = _mm512_add_ps(_mm512_unpacklo_ps(x[2], x[3]), _mm512_unpackhi_ps(x[2], x[3]));
  const __m512d c = _mm512_castps_pd(a), d = _mm512_castps_pd(b);
  const __m512 quarters =
      _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(c, d)), _mm512_castpd_ps(_mm512_unpackhi_pd(c, d)));
  const __m256 halves =
      _mm256_add_ps(_mm512_castps512_ps256(quarters),
                    _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(quarters), 1)));
  _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1)));
}

#endif

// The low four bits of each lane are the next 4-bit code; the other bits are undefined.
inline U load_nibbles(const char* at) {
#if KVC_ATTENTION_LEVEL == 0
  const uint32_t codes = load_bits<uint16_t>(at);
  return U{codes, codes >> 4, codes >> 8, codes >> 12};
#elif KVC_ATTENTION_LEVEL == 1
  return (U{} + load_bits<uint32_t>(at)) >> U{0, 4, 8, 12, 16, 20, 24, 28};
#else  // a byte in each 64 bits; its high nibble moves to the upper 32 bits
  const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  return (U)_mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
#endif
}

template <Form form>
inline F from_nibbles(U codes) {
#if KVC_ATTENTION_LEVEL < 2
  const I values = reinterpret_cast<I>(codes & 15);
  return __builtin_convertvector(form == kI4 ? (values ^ 8) - 8 : values, F);
#else
  const float x = form == kI4 ? -8 : 8;  // of code 8
  const F values = {0, 1, 2, 3, 4, 5, 6, 7, x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7};
  return _mm512_permutexvar_ps((__m512i)codes, values);
#endif
}

// kLanes elements, or codes if quantized; E4M3 in units of kUnit.
template <Form form>
inline F load_as(const char* at) {
  if constexpr (form == kF32) return load(reinterpret_cast<const float*>(at));
  if constexpr (form == kF16) return from_f16(load_bits<Half>(at));
  if constexpr (form == kBf16) return from_bf16(load_bits<Half>(at));
  if constexpr (form == kI8) return __builtin_convertvector(load_i8(at), F);
  if constexpr (form == kU8) return __builtin_convertvector(load_u8(at), F);
  if constexpr (form == kI4 || form == kU4) return from_nibbles<form>(load_nibbles(at));
  // E5M2 is fp16 with fewer bits in the mantissa; E4M3 also has fewer in the exponent, so another bias.
  if constexpr (form == kE5M2) return from_f16(load_bytes(at) << 8);
  if constexpr (form == kE4M3) {
    const Half wide = load_bytes(at) << 7 & 0xbfff;
    const Half nan = (Half)((wide & 0x3f80) == 0x3f80) & 0x7c00;
    return from_f16(wide | nan);
  }
}
#if KVC_ATTENTION_LEVEL > 0
// 2 * kLanes codes as pairs of 16-bit integers; kI4 with kBias added.
template <Form form>
inline I load_int16(const char* at) {
#if KVC_ATTENTION_LEVEL == 1
  if constexpr (form == kI8) return (I)_mm256_cvtepi8_epi16(load_bits<__m128i>(at));
  if constexpr (form == kU8) return (I)_mm256_cvtepu8_epi16(load_bits<__m128i>(at));
  const __m128i bytes = _mm_cvtepu8_epi16(load_lane_bytes(at));
  const __m128i nibbles = (__m128i)(((Half)bytes | (Half)bytes << 4) & 0x0f0f);
  return (I)_mm256_cvtepu8_epi16(form == kI4 ? _mm_xor_si128(nibbles, _mm_set1_epi8(8)) : nibbles);
#else
  if constexpr (form == kI8) return (I)_mm512_cvtepi8_epi16(load_bits<__m256i>(at));
  if constexpr (form == kU8) return (I)_mm512_cvtepu8_epi16(load_bits<__m256i>(at));
  const __m256i bytes = _mm256_cvtepu8_epi16(load_lane_bytes(at));
  const __m256i nibbles = (__m256i)(((Half)bytes | (Half)bytes << 4) & 0x0f0f);
  return (I)_mm512_cvtepu8_epi16(form == kI4 ? _mm256_xor_si256(nibbles, _mm256_set1_epi8(8)) : nibbles);
#endif
}
template <Form form>
inline constexpr float kBias = form == kI4 ? 8 : 0;

inline I dot_int16(I sum, I a, I b) {
#if KVC_ATTENTION_LEVEL == 1
  return sum + (I)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif KVC_ATTENTION_LEVEL == 2
  return sum + (I)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#else
  return (I)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#endif
}
#endif

template <Form form>
inline constexpr float kUnit = form == kE4M3 ? 256 : 1;

template <Form form>
constexpr size_t floats_of(size_t groups) {
  return groups * (has_offset(form) ? 2 : 1);
}

// 2^x to about one unit in the last place; 0 below the normal numbers (AVX-512 keeps denormals), NaN for NaN.
// A polynomial over [-1/2, 1/2], times a power of two.
inline F exp2(F x) {
#if KVC_ATTENTION_LEVEL > 1
  const F whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT);
  const F f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEAREST_INT);  // x - whole, and 0 where both are infinite
#else
  // After the addition of a large number, the low bits of x are its integer part.
  const F shifted = max(set1(-126.0f), x) + 0x1.8p23f;
  const F f = max(set1(-126.0f), x) - (shifted - 0x1.8p23f);
#endif
  F y = fma(set1(1.535336188319500e-4f), f, set1(1.339887440266574e-3f));
  y = fma(y, f, set1(9.618437357674640e-3f));
  y = fma(y, f, set1(5.550332471162809e-2f));
  y = fma(y, f, set1(2.402264791363012e-1f));
  y = fma(y, f, set1(6.931472028550421e-1f));
  y = fma(y, f, set1(1.0f));
#if KVC_ATTENTION_LEVEL > 1
  return _mm512_scalef_ps(y, whole);
#else
  y = y * reinterpret_cast<F>((reinterpret_cast<U>(shifted) << 23) + 0x3f800000u);
  return x < set1(-126.0f) ? F{} : y;
#endif
}

}  // namespace
}  // namespace kvc::KVC_ATTENTION_NAMESPACE
