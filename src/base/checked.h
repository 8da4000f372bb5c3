// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that says when it overflows, and the few integer helpers that everything uses.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvc {

[[nodiscard]] inline bool checked_add(size_t a, size_t b, size_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}
[[nodiscard]] inline bool checked_mul(size_t a, size_t b, size_t* product) {
  return !__builtin_mul_overflow(a, b, product);
}

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

constexpr size_t next_power_of_two(size_t n) {
  size_t power = 1;
  while (power < n) power <<= 1;
  return power;
}

}  // namespace kvc
