// SPDX-License-Identifier: Apache-2.0
// Dequantizes codes, without scales, to fp16 operands in registers. An integer goes into the mantissa of
// 1024, then the excess is subtracted.
#pragma once
#include "kernels/packed.cuh"

namespace kvc::gpu {

// Four 8-bit codes as two pairs, in order.
template <int32_t kDtype>
KVC_DEVICE void widen_bytes(uint32_t word, bool is_signed, uint32_t (&pairs)[2]) {
  if constexpr (kDtype == KVC_FLOAT8_E4M3) {
    pairs[0] = e4m3_to_halves(word & 0xFFFF);
    pairs[1] = e4m3_to_halves(word >> 16);
  } else if constexpr (kDtype == KVC_FLOAT8_E5M2) {
    pairs[0] = pick_bytes(word, 0, 0x1404);
    pairs[1] = pick_bytes(word, 0, 0x3424);
  } else {
    constexpr uint32_t kHigh = 0x64646464u;  // of 1024
    const uint32_t bytes = word ^ (is_signed ? 0x80808080u : 0);
    const uint32_t excess = is_signed ? 0x64806480u : 0x64006400u;  // 1152 or 1024
    pairs[0] = subtract_halves(pick_bytes(bytes, kHigh, 0x4140), excess);
    pairs[1] = subtract_halves(pick_bytes(bytes, kHigh, 0x4342), excess);
  }
}

// Nibbles 0 and 4 of a word as a pair, 1 and 5 as another. One lop3 flips their sign bits and puts them into
// the mantissa of 1024, where nibbles 1 and 5 count 16 times.
KVC_DEVICE void widen_nibbles(uint32_t word, bool is_signed, uint32_t (&pairs)[2]) {
  constexpr uint32_t kSixteenth = 0x2C002C00u;
  const uint32_t first = is_signed ? 0x64086408u : 0x64006400u;  // 1032 or 1024
  const uint32_t second = is_signed ? 0x64806480u : 0x64006400u,
                 excess = is_signed ? 0xD480D480u : 0xD400D400u;
  pairs[0] = subtract_halves(and_xor(word, 0x000F000Fu, first), first);
  pairs[1] = fma_halves(and_xor(word, 0x00F000F0u, second), kSixteenth, excess);  // -72 or -64
}

}  // namespace kvc::gpu
