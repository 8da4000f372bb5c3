// SPDX-License-Identifier: Apache-2.0
// How many of its inputs a test takes: KVC_TEST_ROUNDS times as many as in the gate. scripts/deep sets it to
// 5, with which no combination is left out.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "seed.h"

namespace kvc::test {

inline uint64_t test_rounds() {
  const char* given = std::getenv("KVC_TEST_ROUNDS");
  return given != nullptr ? std::max<uint64_t>(std::strtoull(given, nullptr, 0), 1) : 1;
}

// The number of random inputs, of which the gate takes `in_the_gate`.
template <typename Count>
Count rounds(Count in_the_gate) {
  return static_cast<Count>(static_cast<uint64_t>(in_the_gate) * test_rounds());
}

// For long loops over all combinations of several properties: the gate takes one of every five that follow
// each other, drawn by the seed, so that no value is left out because of its place.
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
