// SPDX-License-Identifier: Apache-2.0
// The defined results of rows: zeros, NaN, infinity, extremes, the second round trip.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdlib>

#include "quant/rows.h"

namespace kvc {
namespace {

using namespace test;

TEST(Quantize, ZerosComeBackAsZeros) {
  for (const QuantFormat& format : all_formats()) {
    const std::vector<float> zeros(100, 0.0f);
    const Row row = quantize(format, zeros);
    EXPECT_EQ(row.scales, std::vector<float>(row.scales.size(), 0.0f)) << name(format);
    EXPECT_EQ(row.codes, std::vector<uint8_t>(row.codes.size(), 0)) << name(format);
    EXPECT_EQ(dequantize(format, row, 100), zeros) << name(format);
  }
}

TEST(Quantize, AConstantGroupIsExactWhenAsymmetric) {
  for (int32_t dtype : {KVC_INT8, KVC_INT4}) {
    const std::vector<float> in(33, -3.7f);
    const Row row = quantize({dtype, 0, true}, in);
    EXPECT_EQ(row.scales, (std::vector<float>{0, -3.7f}));
    EXPECT_EQ(dequantize({dtype, 0, true}, row, 33), in);
  }
}

TEST(Quantize, NanCountsAsZero) {
  for (const QuantFormat& format : all_formats({0, 4})) {
    SCOPED_TRACE(name(format));
    const bool fp8 = format.dtype == KVC_FLOAT8_E4M3 || format.dtype == KVC_FLOAT8_E5M2;
    for (float nan : {kNan, -kNan, std::bit_cast<float>(0x7F800001u), std::bit_cast<float>(0xFFFFFFFFu)}) {
      const std::vector<float> in{1, nan, 2, 7}, clean{1, 0, 2, 7};
      const Row row = quantize(format, in), other = quantize(format, clean);
      EXPECT_EQ(row.scales, other.scales);
      const std::vector<float> out = dequantize(format, row, 4);
      if (!fp8) {
        EXPECT_EQ(row.codes, other.codes);
      }
      if (!fp8) {
        EXPECT_EQ(out[1], 0.0f);
      }
      if (fp8) {
        EXPECT_TRUE(std::isnan(out[1]));
      }
      EXPECT_EQ(out[3], round_trip(format, clean)[3]);
      // Alone, too.
      const std::vector<float> alone = round_trip(format, {nan, nan});
      EXPECT_EQ(std::isnan(alone[0]), fp8);
      EXPECT_EQ(quantize(format, {nan, nan}).scales[0], 0.0f);
    }
  }
  // Without a zero in range, NaN widens it: what is stored for it is 0, or as near as the codes come.
  const std::vector<float> out = round_trip({KVC_INT8, 0, true}, {5, kNan, 6});
  EXPECT_EQ(out[1], 0.0f);
}

TEST(Quantize, InfinityIsTheLargestFiniteMagnitude) {
  for (const QuantFormat& format : all_formats({0, 8})) {
    SCOPED_TRACE(name(format));
    const std::vector<float> in{kInfinity, -kInfinity, 3, -5, 0, 1}, clean{5, -5, 3, -5, 0, 1};
    EXPECT_EQ(quantize(format, in).codes, quantize(format, clean).codes);
    EXPECT_EQ(quantize(format, in).scales, quantize(format, clean).scales);
    EXPECT_EQ(round_trip(format, {kInfinity, 2, 1.5f}), round_trip(format, {2, 2, 1.5f}));
    EXPECT_EQ(round_trip(format, {-kInfinity, 2, 1.5f}), round_trip(format, {-2, 2, 1.5f}));
  }
}

TEST(Quantize, InfinityWithoutAFiniteMagnitudeIsTheLargestFloat) {
  for (const QuantFormat& format : all_formats({0})) {
    SCOPED_TRACE(name(format));
    const float most = format.asymmetric ? FLT_MAX / 2 : FLT_MAX;
    for (const std::vector<float>& in : {std::vector<float>{kInfinity},
                                         {kInfinity, -kInfinity},
                                         {kInfinity, 0, 0},
                                         {kInfinity, 1e-45f},
                                         {kInfinity, kNan}}) {
      const std::vector<float> out = round_trip(format, in);
      EXPECT_TRUE(std::isfinite(out[0]));
      EXPECT_NEAR(out[0] / most, 1, 1e-5);
      if (in.size() == 2 && in[1] < 0) {
        EXPECT_NEAR(out[1] / most, -1, 1e-5);
      }
      if (in.size() == 3) {
        EXPECT_EQ(out[1], 0.0f);
      }
    }
    EXPECT_NEAR(round_trip(format, {-kInfinity, -kInfinity})[1] / most, -1, 1e-5);
  }
}

std::vector<std::vector<float>> hostile_rows() {
  std::mt19937 random(4);
  std::vector<std::vector<float>> rows{{FLT_MAX, -FLT_MAX, 1},
                                       {FLT_MAX, FLT_MAX / 2, 0},
                                       {FLT_MIN, -FLT_MIN / 2, 1e-45f},
                                       {127 * FLT_MIN, FLT_MIN},
                                       {std::nextafter(127 * FLT_MIN, 1.0f), FLT_MIN},
                                       {255 * FLT_MIN, 0, FLT_MIN},
                                       {448 * FLT_MIN, FLT_MIN, -FLT_MIN / 3},
                                       {57344 * FLT_MIN, FLT_MIN, -FLT_MIN / 3},
                                       {kInfinity, 1, -2},
                                       {kInfinity, 0},
                                       {kNan, 3, -kInfinity}};
  std::normal_distribution<float> normal;
  for (int exponent = -140; exponent <= 125; exponent += 3) {  // all magnitudes
    std::vector<float> row(37);
    for (float& x : row) x = std::ldexp(normal(random), exponent);
    rows.push_back(row);
  }
  std::uniform_int_distribution<int> pick(0, 1 << 20);
  for (int ulps = 1; ulps < 4000; ulps += 1 + ulps / 16) {  // ranges of few ulps, some over a power of two
    for (float start : {1.0f, 1.5f, std::nextafter(2.0f, 0.0f), -4.0f}) {
      std::vector<float> row;
      for (int i = 0; i < 40; ++i) {
        const int step = i == 0 ? 0 : i == 1 ? ulps : pick(random) % (ulps + 1);
        row.push_back(std::bit_cast<float>(std::bit_cast<int32_t>(start) + step));
      }
      rows.push_back(row);
    }
  }
  return rows;
}

TEST(Quantize, ASecondRoundTripGivesTheSameCodes) {
  for (const QuantFormat& format : all_formats({0, 3, 16})) {
    size_t number = 0;
    for (const std::vector<float>& in : hostile_rows()) {
      const Row first = quantize(format, in);
      const std::vector<float> out = dequantize(format, first, in.size());
      ASSERT_EQ(quantize(format, out).codes, first.codes) << name(format) << " row " << number;
      for (size_t i = 0; i < in.size(); ++i) {
        if (!std::isnan(in[i])) {
          ASSERT_TRUE(std::isfinite(out[i])) << name(format) << " row " << number;
        }
      }
      ++number;
    }
  }
}

TEST(Quantize, TheLargestElementHasTheLargestCode) {
  for (const std::vector<float>& in : hostile_rows()) {
    const Row row = quantize({KVC_INT8, 0, false}, in);
    if (row.scales[0] == 0) continue;
    int largest = 0;
    for (const uint8_t code : row.codes) largest = std::max(largest, std::abs(static_cast<int8_t>(code)));
    ASSERT_EQ(largest, 127);
  }
}

// With a scale that is given there is no group: each element for itself.
std::vector<float> with_scale(const QuantFormat& format, float scale, const std::vector<float>& in) {
  std::vector<uint8_t> codes(code_bytes(format, in.size()));
  quantize_with_scale(format, scale, in.data(), in.size(), codes.data());
  return dequantize(format, {codes, {scale}}, in.size());
}

TEST(QuantizeWithScale, RoundsEachElementAndEndsAtTheLargestMagnitude) {
  EXPECT_EQ(with_scale({KVC_INT8, 0, false}, 0.5f, {0, 1.26f, -63.4f, 64, -1e30f, kInfinity, kNan}),
            (std::vector<float>{0, 1.5f, -63.5f, 63.5f, -63.5f, 63.5f, 0}));
  EXPECT_EQ(with_scale({KVC_INT4, 0, false}, 2, {0, 3.1f, -13, 15, -kInfinity}),
            (std::vector<float>{0, 4, -12, 14, -14}));
  EXPECT_EQ(with_scale({KVC_FLOAT8_E4M3, 0, false}, 2, {17, 34, -1e10f, kInfinity}),
            (std::vector<float>{16, 32, -896, 896}));  // 17 / 2 is a tie
  EXPECT_EQ(with_scale({KVC_FLOAT8_E5M2, 0, false}, 1, {70000, -kInfinity}),
            (std::vector<float>{57344, -57344}));
  EXPECT_TRUE(std::isnan(with_scale({KVC_FLOAT8_E4M3, 0, false}, 3, {kNan})[0]));
}

TEST(QuantizeWithScale, ASecondRoundTripGivesTheSame) {
  for (const QuantFormat& format : all_formats({0})) {
    if (format.asymmetric) continue;
    for (const float scale : {1e-30f, 0.013f, 1.0f, 7.7f, 1e30f}) {
      std::vector<float> in = normal_data(301, 3);
      for (float& x : in) x *= scale * 40;
      const std::vector<float> once = with_scale(format, scale, in);
      ASSERT_EQ(with_scale(format, scale, once), once) << name(format) << " scale " << scale;
      EXPECT_NE(once, std::vector<float>(301)) << name(format);
    }
  }
}

}  // namespace
}  // namespace kvc
