// SPDX-License-Identifier: Apache-2.0
// Floats to and from what is stored, one element at a time, with the bits of quant/convert.h: NaNs with their
// sign and payload, denormals exact.
#pragma once
#include <kvcache/types.h>

#include "portable.h"

namespace kvc::gpu {

// A float of kExponent and kMantissa bits and a sign. kIeee: the largest exponent holds infinity and NaNs;
// otherwise the code of all ones alone is a NaN (E4M3).
template <int kExponent, int kMantissa, bool kIeee>
struct SmallFloat {
  static constexpr int32_t kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr int kSignShift = 31 - kExponent - kMantissa;
  static constexpr int32_t kMagnitude = (1 << (kExponent + kMantissa)) - 1;
  static constexpr int32_t kRebias = (127 - kBias) << 23;
  static constexpr int32_t kMinNormal = kRebias + (1 << 23);
  static constexpr int32_t kInfinity = 0x7F800000;
  static constexpr int32_t kLarge = kIeee ? (127 + kBias + 1) << 23 : 0x43E00000;  // from here on: kLargeCode
  static constexpr int32_t kLargeCode = kIeee ? kMagnitude >> kMantissa << kMantissa : kMagnitude - 1;
  // Adding it leaves a multiple of the smallest denormal in the mantissa, rounded by the adder.
  static constexpr int32_t kDenormalMagic = (127 + 1 - kBias - kMantissa + 23) << 23;

  KVC_DEVICE static uint32_t encode(float value) {
    const auto bits = static_cast<int32_t>(float_bits(value));
    const int32_t size = bits & 0x7FFFFFFF;
    const int32_t odd = size >> kShift & 1;
    int32_t code = (size - kRebias + ((1 << (kShift - 1)) - 1) + odd) >> kShift;
    if (size < kMinNormal) {
      const float sum = add_rn(bits_float(static_cast<uint32_t>(size)), bits_float(kDenormalMagic));
      code = static_cast<int32_t>(float_bits(sum)) - kDenormalMagic;
    }
    if (size >= kLarge) code = kLargeCode;
    if (size > kInfinity) {
      code =
          kIeee ? kLargeCode | 1 << (kMantissa - 1) | (size >> kShift & ((1 << kMantissa) - 1)) : kMagnitude;
    }
    return static_cast<uint32_t>(code | (bits >> kSignShift & (kMagnitude + 1)));
  }

  KVC_DEVICE static float decode(uint32_t raw) {
    const auto code = static_cast<int32_t>(raw);
    const int32_t size = code & kMagnitude;
    int32_t bits = (size << kShift) + kRebias;
    if (size < 1 << kMantissa) {  // denormal: there is no implicit one
      const float with_one = bits_float(static_cast<uint32_t>(bits + (1 << 23)));
      bits = static_cast<int32_t>(float_bits(sub_rn(with_one, bits_float(kMinNormal))));
    }
    if (kIeee && size >= kLargeCode) bits = kInfinity | size << kShift;
    if (size > kLargeCode) bits = kInfinity | size << kShift | 0x00400000;
    const uint32_t sign = (raw & (kMagnitude + 1u)) << kSignShift;
    return bits_float(static_cast<uint32_t>(bits) | sign);
  }
};

// One type of element: Bits holds it (of int4, two of them), encode() and decode() convert.
template <int32_t kDtype>
struct Element;

template <>
struct Element<KVC_FLOAT32> {
  using Bits = uint32_t;
  KVC_DEVICE static uint32_t encode(float x) { return float_bits(x); }
  KVC_DEVICE static float decode(uint32_t bits) { return bits_float(bits); }
};

KVC_DEVICE bool is_infinite(float x) { return (float_bits(x) & 0x7FFFFFFF) == 0x7F800000; }
KVC_DEVICE bool is_nan(float x) { return (float_bits(x) & 0x7FFFFFFF) > 0x7F800000; }

// With the device's own conversions where it has them, NaNs aside: their bits differ between devices.
template <>
struct Element<KVC_FLOAT16> {
  using Bits = uint16_t;
  using Exact = SmallFloat<5, 10, true>;
  KVC_DEVICE static uint32_t encode(float x) {
#if defined(KVC_GPU_HAS_HALF)
    if (!is_nan(x)) return half_of_float(x);
#endif
    return Exact::encode(x);
  }
  KVC_DEVICE static float decode(uint32_t code) {
#if defined(KVC_GPU_HAS_HALF)
    if ((code & 0x7FFF) <= 0x7C00) return float_of_half(code);
#endif
    return Exact::decode(code);
  }
};

template <>
struct Element<KVC_BFLOAT16> {
  using Bits = uint16_t;
  KVC_DEVICE static uint32_t encode(float x) {
    const uint32_t bits = float_bits(x);
    const bool nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    return (nan ? bits | 0x00400000 : bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  }
  KVC_DEVICE static float decode(uint32_t code) {
    const uint32_t bits = code << 16;
    return bits_float((bits & 0x7FFFFFFF) > 0x7F800000 ? bits | 0x00400000 : bits);
  }
};

template <>
struct Element<KVC_FLOAT8_E4M3> {
  using Bits = uint8_t;
  using Exact = SmallFloat<4, 3, false>;
  KVC_DEVICE static uint32_t encode(float x) {
#if defined(KVC_GPU_HAS_FP8)
    if (!is_nan(x)) return e4m3_of_float(x);
#endif
    return Exact::encode(x);
  }
  KVC_DEVICE static float decode(uint32_t code) {
#if defined(KVC_GPU_HAS_FP8)
    if ((code & 0x7F) != 0x7F) return float_of_e4m3(code);
#endif
    return Exact::decode(code);
  }
};
template <>
struct Element<KVC_FLOAT8_E5M2> {
  using Bits = uint8_t;
  using Exact = SmallFloat<5, 2, true>;
  KVC_DEVICE static uint32_t encode(float x) {
#if defined(KVC_GPU_HAS_FP8)
    // The device saturates; from 2^16 - 2^12 on the nearest code is that of infinity.
    if ((float_bits(x) & 0x7FFFFFFF) < 0x47700000) return e5m2_of_float(x);
#endif
    return Exact::encode(x);
  }
  KVC_DEVICE static float decode(uint32_t code) {  // the upper byte of an fp16
    return Element<KVC_FLOAT16>::decode(code << 8);
  }
};

// Codes are of values in units of their scale.
template <>
struct Element<KVC_INT8> {
  using Bits = uint8_t;
  static constexpr uint32_t kMask = 255, kSign = 128;
};
template <>
struct Element<KVC_INT4> {
  using Bits = uint8_t;
  static constexpr uint32_t kMask = 15, kSign = 8;
};

KVC_HOST_DEVICE constexpr bool is_integer(int32_t dtype) { return dtype == KVC_INT8 || dtype == KVC_INT4; }

// What a value in units of its scale is stored as. Integers: the sum's last bit is worth 1.
template <int32_t kDtype>
KVC_DEVICE uint32_t encode_unit(float x) {
  if constexpr (is_integer(kDtype)) {
    return float_bits(add_rn(x, 12582912.0f)) & Element<kDtype>::kMask;
  } else {
    return Element<kDtype>::encode(x);
  }
}
template <int32_t kDtype>
KVC_DEVICE float decode_unit(uint32_t code, bool asymmetric) {
  if constexpr (is_integer(kDtype)) {
    const uint32_t flip = asymmetric ? 0 : Element<kDtype>::kSign;
    return static_cast<float>(static_cast<int32_t>((code & Element<kDtype>::kMask) ^ flip) -
                              static_cast<int32_t>(flip));
  } else {
    return Element<kDtype>::decode(code);
  }
}

}  // namespace kvc::gpu
