// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes at the edges of 64 bits.
#include "base/checked.h"

#include <gtest/gtest.h>

namespace kvc {
namespace {

constexpr size_t kMax = SIZE_MAX;

TEST(Checked, AddSaysWhenItOverflows) {
  const struct {
    size_t a, b;
    bool fits;
  } cases[] = {{0, 0, true},
               {1, 2, true},
               {kMax, 0, true},
               {0, kMax, true},
               {kMax - 1, 1, true},
               {kMax, 1, false},
               {1, kMax, false},
               {kMax, kMax, false},
               {kMax / 2, kMax / 2 + 1, true},
               {kMax / 2 + 1, kMax / 2 + 1, false}};
  for (const auto& c : cases) {
    size_t sum = 0;
    EXPECT_EQ(checked_add(c.a, c.b, &sum), c.fits) << c.a << " + " << c.b;
    if (c.fits) {
      EXPECT_EQ(sum, c.a + c.b);
    }
  }
}

TEST(Checked, MultiplySaysWhenItOverflows) {
  constexpr size_t kHalf = size_t{1} << 32;
  const struct {
    size_t a, b;
    bool fits;
  } cases[] = {{0, kMax, true},     {kMax, 0, true},          {1, kMax, true},
               {kMax, 1, true},     {2, kMax / 2, true},      {2, kMax / 2 + 1, false},
               {kMax, 2, false},    {kHalf, kHalf, false},    {kHalf, kHalf - 1, true},
               {3, kMax / 3, true}, {3, kMax / 3 + 1, false}, {kMax, kMax, false}};
  for (const auto& c : cases) {
    size_t product = 0;
    EXPECT_EQ(checked_mul(c.a, c.b, &product), c.fits) << c.a << " * " << c.b;
    if (c.fits) {
      EXPECT_EQ(product, c.a * c.b);
    }
  }
}

TEST(Checked, CeilDivRoundsUpWithoutOverflow) {
  for (uint64_t a = 0; a <= 100; ++a) {
    for (uint64_t b = 1; b <= 20; ++b) {
      const uint64_t quotient = ceil_div(a, b);
      EXPECT_GE(quotient * b, a);
      EXPECT_TRUE(quotient == 0 || (quotient - 1) * b < a) << a << " / " << b;
    }
  }
  EXPECT_EQ(ceil_div(UINT64_MAX, 1), UINT64_MAX);
  EXPECT_EQ(ceil_div(UINT64_MAX, 2), uint64_t{1} << 63);
  EXPECT_EQ(ceil_div(UINT64_MAX, UINT64_MAX), 1u);
  EXPECT_EQ(ceil_div(UINT64_MAX - 1, UINT64_MAX), 1u);
}

TEST(Checked, NextPowerOfTwoIsTheSmallestNotBelow) {
  EXPECT_EQ(next_power_of_two(0), 1u);
  EXPECT_EQ(next_power_of_two(1), 1u);
  for (int bit = 1; bit < 63; ++bit) {
    const size_t power = size_t{1} << bit;
    EXPECT_EQ(next_power_of_two(power), power);
    EXPECT_EQ(next_power_of_two(power + 1), power * 2);
    EXPECT_EQ(next_power_of_two(power / 2 + 1), power);
  }
  EXPECT_EQ(next_power_of_two(size_t{1} << 63), size_t{1} << 63);
}

}  // namespace
}  // namespace kvc
