// SPDX-License-Identifier: Apache-2.0
// The bits of a mask, in order.
#include "base/bits.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvc {
namespace {

std::vector<uint32_t> listed(uint64_t mask) {
  std::vector<uint32_t> bits;
  for (const uint32_t bit : bits_of(mask)) bits.push_back(bit);
  return bits;
}

TEST(Bits, ComeLowestFirst) {
  EXPECT_TRUE(listed(0).empty());
  EXPECT_EQ(listed(0b1011), (std::vector<uint32_t>{0, 1, 3}));
  EXPECT_EQ(listed(uint64_t{1} << 63 | 1), (std::vector<uint32_t>{0, 63}));
  EXPECT_EQ(first_bit(0b1000), 3u);
}

}  // namespace
}  // namespace kvc
