// SPDX-License-Identifier: Apache-2.0
#include "quant/convert.h"

#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace kvc {
namespace {

constexpr int32_t kInfinityBits = 0x7F800000;
constexpr int32_t kQuietBit = 0x00400000;

int32_t bits_of(float value) { return std::bit_cast<int32_t>(value); }
float float_of(int32_t bits) { return std::bit_cast<float>(bits); }

// `a` where the condition holds, else `b`. By mask, for GCC takes a ternary apart into branches and then does
// not vectorise what holds float arithmetic.
int32_t select(bool condition, int32_t a, int32_t b) { return b ^ ((a ^ b) & -int32_t{condition}); }

// A float of kExponent and kMantissa bits and a sign, encoded and decoded without branches, so that loops
// vectorise even with SSE2 alone. kIeee: the top exponent holds infinity and NaNs; otherwise only the code of
// all ones is a NaN (E4M3).
template <int kExponent, int kMantissa, bool kIeee>
struct SmallFloat {
  static constexpr int32_t kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr int kSignShift = 31 - kExponent - kMantissa;
  static constexpr int32_t kMagnitude = (1 << (kExponent + kMantissa)) - 1;
  static constexpr int32_t kRebias = (127 - kBias) << 23;
  static constexpr int32_t kMinNormal = kRebias + (1 << 23);
  // From these bits on a finite value is kLargeCode: 2^(bias + 1) is infinite, 448 is itself.
  static constexpr int32_t kLarge = kIeee ? (127 + kBias + 1) << 23 : 0x43E00000;
  static constexpr int32_t kLargeCode = kIeee ? kMagnitude >> kMantissa << kMantissa : kMagnitude - 1;
  // 2^(23 + exponent of the smallest denormal): adding it leaves a multiple of that denormal in the mantissa,
  // rounded by the adder.
  static constexpr int32_t kDenormalMagic = (127 + 1 - kBias - kMantissa + 23) << 23;

  static int32_t encode(float value) {
    const int32_t bits = bits_of(value);
    const int32_t size = bits & 0x7FFFFFFF;
    const int32_t odd = (size >> kShift) & 1;
    const int32_t normal = (size - kRebias + ((1 << (kShift - 1)) - 1) + odd) >> kShift;
    const int32_t denormal = bits_of(float_of(size) + float_of(kDenormalMagic)) - kDenormalMagic;
    const int32_t nan =
        kIeee ? kLargeCode | (1 << (kMantissa - 1)) | ((size >> kShift) & ((1 << kMantissa) - 1))
              : kMagnitude;
    int32_t code = select(size < kMinNormal, denormal, normal);
    code = select(size >= kLarge, kLargeCode, code);
    code = select(size > kInfinityBits, nan, code);
    return code | ((bits >> kSignShift) & (kMagnitude + 1));
  }

  static float decode(int32_t code) {
    const int32_t size = code & kMagnitude;
    const int32_t sign = (code & (kMagnitude + 1)) << kSignShift;
    const int32_t normal = (size << kShift) + kRebias;
    // With the exponent of the smallest normal the implicit one is too much: take it off again.
    const int32_t denormal = bits_of(float_of(normal + (1 << 23)) - float_of(kMinNormal));
    int32_t bits = select(size < (1 << kMantissa), denormal, normal);
    const int32_t special = kInfinityBits | (size << kShift);
    bits = select(kIeee && size >= kLargeCode, special, bits);
    bits = select(size > kLargeCode, special | kQuietBit, bits);
    return float_of(bits | sign);
  }
};

using Fp16 = SmallFloat<5, 10, true>;
using E5M2 = SmallFloat<5, 2, true>;
using E4M3 = SmallFloat<4, 3, false>;

template <class Format, class Code>
void decode_all(const Code* __restrict in, float* __restrict out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = Format::decode(in[i]);
}

template <class Format, class Code>
void encode_all(const float* __restrict in, Code* __restrict out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<Code>(Format::encode(in[i]));
}

// Inlined into functions for wider vectors than the baseline's.
[[gnu::always_inline]] inline void bf16_to_float(const uint16_t* __restrict in, float* __restrict out,
                                                 size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = uint32_t{in[i]} << 16;
    const uint32_t quiet = (bits & 0x7FFFFFFF) > 0x7F800000 ? 0x00400000 : 0;
    out[i] = std::bit_cast<float>(bits | quiet);
  }
}

[[gnu::always_inline]] inline void float_to_bf16(const float* __restrict in, uint16_t* __restrict out,
                                                 size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(in[i]);
    const uint32_t rounded = bits + 0x7FFF + ((bits >> 16) & 1);
    // A NaN must not carry into the sign, nor lose its payload and become infinite.
    const bool nan = static_cast<int32_t>(bits & 0x7FFFFFFF) > kInfinityBits;
    out[i] = static_cast<uint16_t>((nan ? bits | 0x00400000 : rounded) >> 16);
  }
}

void bf16_to_float_portable(const uint16_t* in, float* out, size_t n) { bf16_to_float(in, out, n); }
void float_to_bf16_portable(const float* in, uint16_t* out, size_t n) { float_to_bf16(in, out, n); }

}  // namespace

void fp16_to_float_portable(const uint16_t* in, float* out, size_t n) { decode_all<Fp16>(in, out, n); }
void float_to_fp16_portable(const float* in, uint16_t* out, size_t n) { encode_all<Fp16>(in, out, n); }

#if defined(__x86_64__)

bool has_f16c() {
  static const bool found = [] {
    unsigned a, b, c,
        d;  // "avx" also says that the kernel saves the registers; not every compiler knows "f16c"
    return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  }();
  return found;
}

__attribute__((target("avx,f16c"))) void fp16_to_float_f16c(const uint16_t* in, float* out, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(half));
  }
  fp16_to_float_portable(in + i, out + i, n - i);
}

__attribute__((target("avx,f16c"))) void float_to_fp16_f16c(const float* in, uint16_t* out, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), half);
  }
  float_to_fp16_portable(in + i, out + i, n - i);
}

bool has_avx2() {
  static const bool found = __builtin_cpu_supports("avx2");
  return found;
}

__attribute__((target("avx2"))) void bf16_to_float_avx2(const uint16_t* in, float* out, size_t n) {
  bf16_to_float(in, out, n);
}
__attribute__((target("avx2"))) void float_to_bf16_avx2(const float* in, uint16_t* out, size_t n) {
  float_to_bf16(in, out, n);
}

#else

bool has_avx2() { return false; }
void bf16_to_float_avx2(const uint16_t*, float*, size_t) {}
void float_to_bf16_avx2(const float*, uint16_t*, size_t) {}
bool has_f16c() { return false; }
void fp16_to_float_f16c(const uint16_t*, float*, size_t) {}
void float_to_fp16_f16c(const float*, uint16_t*, size_t) {}

#endif

void to_float(int32_t dtype, const void* in, float* out, size_t n) {
  switch (dtype) {
    case KVC_FLOAT32:
      if (n) std::memcpy(out, in, n * sizeof(float));
      return;
    case KVC_FLOAT16:
      return (has_f16c() ? fp16_to_float_f16c : fp16_to_float_portable)(static_cast<const uint16_t*>(in), out,
                                                                        n);
    case KVC_BFLOAT16:
      return (has_avx2() ? bf16_to_float_avx2 : bf16_to_float_portable)(static_cast<const uint16_t*>(in), out,
                                                                        n);
    case KVC_FLOAT8_E4M3:
      return decode_all<E4M3>(static_cast<const uint8_t*>(in), out, n);
    case KVC_FLOAT8_E5M2:
      return decode_all<E5M2>(static_cast<const uint8_t*>(in), out, n);
    default:
      return;
  }
}

void from_float(int32_t dtype, const float* in, void* out, size_t n) {
  switch (dtype) {
    case KVC_FLOAT32:
      if (n) std::memcpy(out, in, n * sizeof(float));
      return;
    case KVC_FLOAT16:
      return (has_f16c() ? float_to_fp16_f16c : float_to_fp16_portable)(in, static_cast<uint16_t*>(out), n);
    case KVC_BFLOAT16:
      return (has_avx2() ? float_to_bf16_avx2 : float_to_bf16_portable)(in, static_cast<uint16_t*>(out), n);
    case KVC_FLOAT8_E4M3:
      return encode_all<E4M3>(in, static_cast<uint8_t*>(out), n);
    case KVC_FLOAT8_E5M2:
      return encode_all<E5M2>(in, static_cast<uint8_t*>(out), n);
    default:
      return;
  }
}

}  // namespace kvc
