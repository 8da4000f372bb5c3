// SPDX-License-Identifier: Apache-2.0
// How many of its inputs a test takes: KVC_TEST_ROUNDS times as many as in the gate. scripts/deep sets it to
// 5, with which no combination is left out.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "seed.h"

namespace kvc::test {

inline uint64_t test_rounds() {
  const char* given = std::getenv("KVC_TEST_ROUNDS");
  if (given == nullptr) return 1;
  char* end = nullptr;
  const uint64_t number = std::strtoull(given, &end, 10);
  if (number == 0 || *end != '\0') {
    std::fprintf(stderr, "KVC_TEST_ROUNDS is \"%s\"; give a number from 1 on\n", given);
    std::abort();
  }
  return number;
}

// The number of random inputs, of which the gate takes `in_the_gate`.
template <typename Count>
Count rounds(Count in_the_gate) {
  return static_cast<Count>(static_cast<uint64_t>(in_the_gate) * test_rounds());
}

// For long loops over all combinations of several properties: the gate takes one of every five that follow
// each other, drawn by the seed. Not for fewer than 50 or so: the same few are drawn in each run of the gate.
class Sample {
 public:
  bool takes_next() {
    const uint64_t at = count_++ % step_;
    if (at == 0) taken_ = random_() % step_;
    return at == taken_;
  }

 private:
  std::mt19937 random_{static_cast<uint32_t>(test_seed())};
  uint64_t step_ = std::max<uint64_t>(5 / test_rounds(), 1), count_ = 0, taken_ = 0;
};

}  // namespace kvc::test
