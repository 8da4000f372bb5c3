// SPDX-License-Identifier: Apache-2.0
// The lengths of ended requests against a sorted list of them: shares, rounding, conditions, fading.
#include "request/lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace kvc {
namespace {

uint64_t rounded(uint64_t tokens) {
  uint64_t eighth = 1;
  while (tokens >= 16 * eighth) eighth *= 2;
  return (tokens / eighth + 1) * eighth - 1;
}

TEST(Lengths, AreTheQuantilesOfASortedList) {
  std::mt19937_64 random(1);
  for (const uint64_t most : {10u, 15u, 16u, 17u, 40u, 1000u, 1u << 20, 1u << 30}) {
    Lengths lengths;
    std::vector<uint64_t> list;
    for (int i = 0; i < 300; ++i) {
      list.push_back(random() % most);
      lengths.add(static_cast<uint32_t>(list.back()));
      EXPECT_TRUE(lengths.intact());
      std::vector<uint64_t> sorted;
      const uint64_t done = i % 3 == 0 ? 0 : random() % most;
      for (const uint64_t length : list)
        if (rounded(length) >= rounded(done)) sorted.push_back(rounded(length));
      std::sort(sorted.begin(), sorted.end());
      for (const uint32_t percent : {1u, 50u, 75u, 95u, 100u}) {
        uint64_t rest = 0;
        if (!sorted.empty()) {
          const uint64_t at = sorted[(sorted.size() * percent + 99) / 100 - 1];
          rest = at > done ? at - done : 0;
        }
        ASSERT_EQ(lengths.rest(percent, done), rest) << most << " " << percent << " " << done;
      }
    }
  }
}

TEST(Lengths, RoundUpByLessThanAnEighth) {
  for (uint32_t tokens = 0; tokens < 100000; ++tokens) {
    Lengths lengths;
    lengths.add(tokens);
    const uint64_t rest = lengths.rest(95, 0);
    ASSERT_GE(rest, tokens);
    ASSERT_LE(rest, tokens < 16 ? tokens : tokens + tokens / 8);
  }
}

TEST(Lengths, TheLongestFit) {
  Lengths lengths;
  EXPECT_EQ(lengths.rest(95, 0), 0u);
  lengths.add(UINT32_MAX);
  EXPECT_EQ(lengths.rest(50, 0), UINT32_MAX);
  EXPECT_EQ(lengths.rest(50, UINT64_MAX), 0u);
  EXPECT_TRUE(lengths.intact());
}

TEST(Lengths, OldOnesFade) {
  Lengths lengths;
  for (uint32_t i = 0; i < Lengths::kMost - 1; ++i) lengths.add(1000);
  for (uint32_t i = 0; i < 40000; ++i) lengths.add(4);
  EXPECT_EQ(lengths.rest(50, 0), 4u) << "of 32,767 and 40,000";
  for (uint32_t i = 0; i < 8 * Lengths::kMost; ++i) lengths.add(5);
  EXPECT_EQ(lengths.rest(95, 0), 5u);
  EXPECT_TRUE(lengths.intact());
}

}  // namespace
}  // namespace kvc
