// SPDX-License-Identifier: Apache-2.0
// Against the definition, its own inverse, lengths kept, sizes refused, and what it is for: int4 with an
// outlier.
#include "quant/hadamard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "quant/metrics.h"
#include "quant/quantize.h"

namespace kvc {
namespace {

std::vector<float> normal_row(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> row(n);
  for (float& x : row) x = normal(random);
  return row;
}

TEST(Hadamard, IsTheMatrixOfItsDefinition) {
  for (size_t n = 1; n <= 512; n *= 2) {
    const std::vector<float> in = normal_row(n, static_cast<unsigned>(n));
    std::vector<float> out = in;
    ASSERT_TRUE(hadamard(out.data(), n));
    for (size_t i = 0; i < n; ++i) {
      double sum = 0;  // H[i][j] = (-1)^popcount(i & j) / sqrt(n)
      for (size_t j = 0; j < n; ++j) sum += std::popcount(i & j) % 2 ? -in[j] : in[j];
      ASSERT_NEAR(out[i], sum / std::sqrt(static_cast<double>(n)), 1e-5) << n << " " << i;
    }
  }
}

TEST(Hadamard, IsItsOwnInverseAndKeepsLength) {
  for (size_t n = 1; n <= 4096; n *= 2) {
    const std::vector<float> in = normal_row(n, 7);
    std::vector<float> row = in;
    ASSERT_TRUE(hadamard(row.data(), n));
    double before = 0, after = 0;
    for (size_t i = 0; i < n; ++i) before += double{in[i]} * in[i], after += double{row[i]} * row[i];
    EXPECT_NEAR(after / before, 1.0, 1e-5);
    ASSERT_TRUE(hadamard(row.data(), n));
    for (size_t i = 0; i < n; ++i) ASSERT_NEAR(row[i], in[i], 1e-5);
  }
}

TEST(Hadamard, RefusesOtherSizesAndChangesNothing) {
  for (size_t n : {3u, 5u, 6u, 12u, 96u, 127u}) {
    const std::vector<float> in = normal_row(n, 1);
    std::vector<float> row = in;
    EXPECT_FALSE(hadamard(row.data(), n));
    EXPECT_EQ(row, in);
  }
  EXPECT_FALSE(hadamard(nullptr, 0));
}

QuantMetrics int4_error(const std::vector<float>& in, bool transform) {
  const QuantFormat format{KVC_INT4, 0, false};
  std::vector<float> row = in, scales(1);
  std::vector<uint8_t> codes(code_bytes(format, in.size()));
  if (transform) hadamard(row.data(), row.size());
  quantize_row(format, row.data(), row.size(), codes.data(), scales.data());
  dequantize_row(format, codes.data(), scales.data(), row.size(), row.data());
  if (transform) hadamard(row.data(), row.size());
  return measure(in.data(), row.data(), in.size(), codes.size() + 4);
}

TEST(Hadamard, LowersTheErrorOfInt4WithAnOutlier) {
  std::vector<float> row = normal_row(128, 3);
  row[17] = 40;
  const QuantMetrics plain = int4_error(row, false), transformed = int4_error(row, true);
  std::printf("int4 row of 128, one outlier of 40: mse %.4f, transformed %.4f\n", plain.mse, transformed.mse);
  EXPECT_LT(transformed.mse, plain.mse / 2);
}

}  // namespace
}  // namespace kvc
