// SPDX-License-Identifier: Apache-2.0
// Division by a number that the host knows, as a multiplication: Granlund and Montgomery, "Division by
// invariant integers using multiplication" (PLDI 1994), figure 4.1. For dividends below 2^63, or 2^31.
#pragma once
#include "portable.h"

namespace kvc::gpu {

struct Divisor {
  uint64_t value, magic;
  uint32_t shift;
  uint32_t reserved;

  KVC_DEVICE uint64_t divide(uint64_t n) const { return (multiply_high(magic, n) + n) >> shift; }
};

struct SmallDivisor {
  uint32_t value, magic, shift;

  KVC_DEVICE uint32_t divide(uint32_t n) const { return (multiply_high(magic, n) + n) >> shift; }
  KVC_DEVICE uint32_t remainder(uint32_t n) const { return n - divide(n) * value; }
};

inline uint32_t ceil_log2(uint64_t n) {
  uint32_t bits = 0;
  while (bits < 63 && uint64_t{1} << bits < n) ++bits;
  return bits;
}

inline Divisor divisor(uint64_t d) {  // 1 .. 2^63
  const uint32_t shift = ceil_log2(d);
  __extension__ using Wide = unsigned __int128;
  const Wide numerator = Wide{(uint64_t{1} << shift) - d} << 64;
  return {d, static_cast<uint64_t>(numerator / d) + 1, shift, 0};
}

inline SmallDivisor small_divisor(uint32_t d) {  // 1 .. 2^31
  const uint32_t shift = ceil_log2(d);
  const uint64_t numerator = ((uint64_t{1} << shift) - d) << 32;
  return {d, static_cast<uint32_t>(numerator / d) + 1, shift};
}

}  // namespace kvc::gpu
