// SPDX-License-Identifier: Apache-2.0
// The seed of tests with random input: KVC_TEST_SEED, else 1. Each run draws the same, so that a test fails
// by a change and not by chance; other seeds look further.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace kvc::test {

inline uint64_t test_seed() {
  const char* given = std::getenv("KVC_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : 1;
}

}  // namespace kvc::test
