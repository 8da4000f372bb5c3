// SPDX-License-Identifier: Apache-2.0
// CRC-32C against the vectors of RFC 3720 and against a bit at a time, on each path that this CPU has.
#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "seed.h"

namespace kvc {
namespace {

uint32_t bit_by_bit(const std::vector<uint8_t>& bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

class Crc32c : public testing::TestWithParam<Crc32cPath> {
 protected:
  void SetUp() override {
    if (!crc32c_supports(GetParam())) GTEST_SKIP() << "this CPU has no instructions for it";
  }
  uint32_t of(const std::vector<uint8_t>& bytes, uint32_t before = 0) const {
    return crc32c_by(GetParam(), bytes.data(), bytes.size(), before);
  }
};

TEST_P(Crc32c, KnownVectors) {
  EXPECT_EQ(of({}), 0u);
  EXPECT_EQ(of({'1', '2', '3', '4', '5', '6', '7', '8', '9'}), 0xE3069283u);
  EXPECT_EQ(of(std::vector<uint8_t>(32, 0)), 0x8A9136AAu);
  EXPECT_EQ(of(std::vector<uint8_t>(32, 0xFF)), 0x62A8AB43u);
  std::vector<uint8_t> up(32), down(32);
  for (size_t i = 0; i < 32; ++i) up[i] = static_cast<uint8_t>(i), down[31 - i] = static_cast<uint8_t>(i);
  EXPECT_EQ(of(up), 0x46DD794Eu);
  EXPECT_EQ(of(down), 0x113FDB5Cu);
}

TEST_P(Crc32c, EachLengthAndStartAndSplit) {
  std::mt19937_64 random(test::test_seed());
  for (const size_t size : {1u,   7u,   8u,    9u,    63u,   255u,  256u,  511u,   512u,   513u,
                            767u, 768u, 1025u, 4095u, 6143u, 6144u, 6145u, 12288u, 20000u, 65536u}) {
    for (size_t start = 0; start < 9; ++start) {
      std::vector<uint8_t> bytes(size + start);
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
      const std::vector<uint8_t> part(bytes.begin() + static_cast<ptrdiff_t>(start), bytes.end());
      const uint32_t right = bit_by_bit(part, 0);
      ASSERT_EQ(crc32c_by(GetParam(), bytes.data() + start, size, 0), right) << size << " from " << start;
      const size_t cut = random() % (size + 1);
      const uint32_t half = crc32c_by(GetParam(), part.data(), cut, 0);
      ASSERT_EQ(crc32c_by(GetParam(), part.data() + cut, size - cut, half), right)
          << size << " cut at " << cut;
    }
  }
}

TEST_P(Crc32c, CopyGivesTheSumOfTheCopy) {
  std::mt19937_64 random(test::test_seed());
  for (const size_t size : {0u, 1u, 767u, 768u, 769u, 1536u, 12288u, 12289u, 100000u}) {
    std::vector<uint8_t> from(size);
    for (uint8_t& byte : from) byte = static_cast<uint8_t>(random());
    for (const size_t start : {0u, 1u, 8u, 16u}) {
      std::vector<uint8_t> to(size + start + 1, 7);
      EXPECT_EQ(crc32c_copy(to.data() + start, from.data(), size, 0), of(from));
      EXPECT_TRUE(size == 0 || std::memcmp(to.data() + start, from.data(), size) == 0);
      EXPECT_EQ(to[size + start], 7);
      EXPECT_TRUE(start == 0 || to[start - 1] == 7);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Crc32c,
                         testing::Values(Crc32cPath::kTables, Crc32cPath::kInstructions,
                                         Crc32cPath::kProducts),
                         [](const auto& at) {
                           return at.param == Crc32cPath::kTables         ? "Tables"
                                  : at.param == Crc32cPath::kInstructions ? "Instructions"
                                                                          : "Products";
                         });

}  // namespace
}  // namespace kvc
