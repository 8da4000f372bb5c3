// SPDX-License-Identifier: Apache-2.0
// Pairs of 16-bit floats in a 32-bit register, the first in the low half, and quantized codes that become
// such pairs: what feeds tensor cores. Conversions of codes are exact.
#pragma once
#include "kernels/convert.cuh"

namespace kvc::gpu {

KVC_DEVICE float bfloat_to_float(uint16_t bits) { return bits_float(uint32_t{bits} << 16); }
KVC_DEVICE float half_to_float(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7FFFu, sign = (bits & 0x8000u) << 16;
  if (magnitude >= 0x7C00u) return bits_float(sign | 0x7F800000u | magnitude << 13);
  return bits_float(float_bits(bits_float(magnitude << 13) * 0x1p112f) | sign);
}
KVC_DEVICE float e5m2_to_float(uint8_t code) { return half_to_float(static_cast<uint16_t>(code << 8)); }
KVC_DEVICE float e4m3_to_float(uint8_t code) {
  const uint32_t magnitude = code & 0x7Fu, sign = (code & 0x80u) << 24;
  if (magnitude == 0x7F) return bits_float(sign | 0x7FC00000u);
  return bits_float(float_bits(bits_float(magnitude << 20) * 0x1p120f) | sign);
}

#if defined(KVC_GPU_CUDA)

KVC_DEVICE uint32_t pack_bfloat(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
KVC_DEVICE uint32_t pack_half(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
KVC_DEVICE uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  return __byte_perm(a, b, selector);
}
KVC_DEVICE uint32_t subtract_halves(uint32_t a, uint32_t b) {
  uint32_t difference;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
  return difference;
}
KVC_DEVICE uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t sum;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
// (a & b) ^ c in one instruction, which takes but one constant: the compiler would make two of it.
KVC_DEVICE uint32_t and_xor(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t bits;
  asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(bits) : "r"(a), "r"(b), "r"(c));
  return bits;
}

#else

KVC_DEVICE uint32_t pack_bfloat(float low, float high) {
  using Bfloat = Element<KVC_BFLOAT16>;
  return Bfloat::encode(low) | Bfloat::encode(high) << 16;
}
KVC_DEVICE uint32_t pack_half(float low, float high) {
  const auto code = [](float x) {
    return is_nan(x) ? (float_bits(x) >> 16 & 0x8000u) | 0x7E00u : Element<KVC_FLOAT16>::encode(x);
  };
  return code(low) | code(high) << 16;
}
// Byte i of the result is byte (selector >> 4 i) & 7 of b:a.
KVC_DEVICE uint32_t pick_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t out = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    out |= static_cast<uint32_t>(both >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
  }
  return out;
}
KVC_DEVICE uint32_t subtract_halves(uint32_t a, uint32_t b) {
  const auto low = [](uint32_t x) { return half_to_float(static_cast<uint16_t>(x)); };
  return pack_half(low(a) - low(b), low(a >> 16) - low(b >> 16));
}
KVC_DEVICE uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c) {
  const auto low = [](uint32_t x) { return half_to_float(static_cast<uint16_t>(x)); };
  return pack_half(low(a) * low(b) + low(c), low(a >> 16) * low(b >> 16) + low(c >> 16));
}
KVC_DEVICE uint32_t and_xor(uint32_t a, uint32_t b, uint32_t c) { return (a & b) ^ c; }

#endif

// Two bytes, in bits 0-7 and 8-15 of `codes`, as halves.
KVC_DEVICE uint32_t e4m3_to_halves(uint32_t codes) {
#if defined(KVC_GPU_CUDA) && __CUDA_ARCH__ >= 890
  uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(codes)));
  return pair;
#else
  return pack_half(e4m3_to_float(static_cast<uint8_t>(codes)),
                   e4m3_to_float(static_cast<uint8_t>(codes >> 8)));
#endif
}

}  // namespace kvc::gpu
