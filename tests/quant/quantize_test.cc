// SPDX-License-Identifier: Apache-2.0
// Rows of codes against the definition (a slow quantizer in double), packing, SNR on normal data, groups,
// bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "quant/metrics.h"
#include "quant/reference.h"
#include "quant/rows.h"

namespace kvc {
namespace {

using namespace test;

QuantMetrics metrics_of(const QuantFormat& format, const std::vector<float>& in) {
  const Row row = quantize(format, in);
  const std::vector<float> out = dequantize(format, row, in.size());
  return measure(in.data(), out.data(), in.size(), row.codes.size() + row.scales.size() * sizeof(float));
}

// A code as a number, by the text of the header.
int integer_code(const QuantFormat& format, const Row& row, size_t i) {
  const bool packed = format.dtype == KVC_INT4;
  const int byte = row.codes[packed ? i / 2 : i];
  const int code = !packed ? byte : i % 2 ? byte / 16 : byte % 16;
  const int range = packed ? 16 : 256;
  return format.asymmetric || code < range / 2 ? code : code - range;
}

TEST(Quantize, KnowsWhichFormatsThereAre) {
  for (const QuantFormat& format : all_formats()) EXPECT_TRUE(is_valid(format)) << name(format);
  EXPECT_FALSE(is_valid({KVC_FLOAT16, 0, false}));
  EXPECT_FALSE(is_valid({KVC_FLOAT8_E4M3, 0, true}));
  EXPECT_FALSE(is_valid({KVC_FLOAT8_E5M2, 32, true}));
  EXPECT_FALSE(is_valid({KVC_UINT8, 32, false}));
  EXPECT_FALSE(is_valid({0, 32, false}));
}

TEST(Quantize, CountsScalesAndBytes) {
  EXPECT_EQ(scales_of({KVC_INT8, 32, false}, 128), 4u);
  EXPECT_EQ(scales_of({KVC_INT8, 32, true}, 129), 10u);
  EXPECT_EQ(scales_of({KVC_INT8, 0, false}, 129), 1u);
  EXPECT_EQ(scales_of({KVC_INT8, 200, true}, 129), 2u);
  EXPECT_EQ(scales_of({KVC_INT8, 0, false}, 0), 0u);
  EXPECT_EQ(scales_of({KVC_INT8, 32, true}, 0), 0u);
  EXPECT_EQ(code_bytes({KVC_INT4, 32, false}, 127), 64u);
  EXPECT_EQ(code_bytes({KVC_INT4, 32, false}, 0), 0u);
  EXPECT_EQ(code_bytes({KVC_FLOAT8_E5M2, 32, false}, 127), 127u);
}

TEST(Quantize, GivesTheCodesOfItsDefinition) {
  const std::vector<float> symmetric{-127 / 64.0f, 0, 1.5f / 64, 2.5f / 64, -50.5f / 64, 127 / 64.0f};
  const Row int8 = quantize({KVC_INT8, 0, false}, symmetric);
  EXPECT_EQ(int8.scales[0], 1 / 64.0f);
  EXPECT_EQ(int8.codes, (std::vector<uint8_t>{129, 0, 2, 2, 206, 127}));  // halves go to even
  const Row int4 = quantize({KVC_INT4, 0, false}, {7, -7, 2.5f, -1, 0.4f});
  EXPECT_FLOAT_EQ(int4.scales[0], 1.0f);
  EXPECT_EQ(int4.codes,
            (std::vector<uint8_t>{0x97, 0xF2, 0x00}));  // first in the low half, odd end padded with 0
  const Row pairs = quantize({KVC_INT4, 0, true}, {10, 25, 12.5f, 13});
  EXPECT_EQ(pairs.scales, (std::vector<float>{1, 10}));
  EXPECT_EQ(pairs.codes, (std::vector<uint8_t>{0xF0, 0x32}));
  const Row fp8 = quantize({KVC_FLOAT8_E4M3, 0, false}, {-896, 2, 0, 17});
  EXPECT_FLOAT_EQ(fp8.scales[0], 2.0f);
  EXPECT_EQ(fp8.codes, (std::vector<uint8_t>{0xFE, 0x38, 0x00, 0x50}));  // -448, 1, 0, 8 (8.5 is a tie)
}

// Against doubles: the scale, and each value within half a step of what was put in (and a few roundings of
// float).
TEST(Quantize, IsWithinHalfAStepOfEachElement) {
  for (const QuantFormat& format : all_formats()) {
    if (format.dtype != KVC_INT8 && format.dtype != KVC_INT4) continue;
    for (size_t n : {1u, 2u, 5u, 31u, 32u, 33u, 128u, 255u, 513u, 1000u}) {
      SCOPED_TRACE(name(format) + " n " + std::to_string(n));
      std::vector<float> in = normal_data(n, static_cast<unsigned>(n));
      for (float& x : in) x += 0.5f;
      const Row row = quantize(format, in);
      const std::vector<float> out = dequantize(format, row, n);
      const size_t size = format.group ? format.group : n, width = format.asymmetric ? 2 : 1;
      for (size_t i = 0; i < n; ++i) {
        const auto begin = in.begin() + static_cast<ptrdiff_t>(i / size * size);
        const auto end = in.begin() + static_cast<ptrdiff_t>(std::min(n, i / size * size + size));
        const double lo = *std::min_element(begin, end), hi = *std::max_element(begin, end);
        const double top = format.dtype == KVC_INT8 ? 127 : 7;
        const double step = format.asymmetric ? (hi - lo) / (2 * top + 1) : std::max(hi, -lo) / top;
        const double scale = row.scales[i / size * width],
                     offset = width == 2 ? row.scales[i / size * 2 + 1] : 0;
        ASSERT_NEAR(scale, step, step * 1e-6);
        ASSERT_EQ(offset, width == 2 ? lo : 0);
        ASSERT_NEAR(out[i], integer_code(format, row, i) * scale + offset, 1e-6);
        ASSERT_NEAR(out[i], in[i], step / 2 + 2e-6);
      }
    }
  }
}

TEST(Quantize, Fp8CodesAreTheNearestOfTheScaledElements) {
  for (const reference::Format* fp8 : {&reference::kE4M3, &reference::kE5M2}) {
    const QuantFormat format{fp8->dtype, 32, false};
    const std::vector<float> in = normal_data(1000, 5);
    const Row row = quantize(format, in);
    const std::vector<float> out = dequantize(format, row, in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      const float scale = row.scales[i / 32];
      ASSERT_EQ(row.codes[i], fp8->encode(in[i] * (1 / scale)));
      ASSERT_EQ(out[i], static_cast<float>(fp8->decode(row.codes[i])) * scale);
    }
  }
}

TEST(Quantize, MeetsTheSnrOfNormalData) {
  const std::vector<float> in = normal_data(128 * 512, 1);
  struct Case {
    const char* name;
    QuantFormat format;
    double least;
  };
  const Case cases[] = {
      {"int8 g128", {KVC_INT8, 128, false}, 38},        {"int8 g128 asym", {KVC_INT8, 128, true}, 38},
      {"int8 g32", {KVC_INT8, 32, false}, 38},          {"int4 g128", {KVC_INT4, 128, false}, 0},
      {"int4 g32", {KVC_INT4, 32, false}, 18},          {"int4 g32 asym", {KVC_INT4, 32, true}, 18},
      {"e4m3 g128", {KVC_FLOAT8_E4M3, 128, false}, 28}, {"e5m2 g128", {KVC_FLOAT8_E5M2, 128, false}, 22}};
  for (const Case& c : cases) {
    const QuantMetrics m = metrics_of(c.format, in);
    std::printf("%-15s SNR %5.2f dB, mse %.6f, max error %.4f, %.3fx smaller than fp16\n", c.name, m.snr_db,
                m.mse, m.max_error, m.ratio);
    EXPECT_GE(m.snr_db, c.least) << c.name;
    EXPECT_LT(m.snr_db, 60) << c.name;  // more would mean that the codes are not what is measured
  }
}

TEST(Quantize, CountsScalesInTheRatio) {
  const std::vector<float> in = normal_data(1280, 2);
  EXPECT_DOUBLE_EQ(metrics_of({KVC_INT8, 128, false}, in).ratio, 256.0 / 132);
  EXPECT_DOUBLE_EQ(metrics_of({KVC_INT4, 32, false}, in).ratio, 64.0 / 20);
  EXPECT_DOUBLE_EQ(metrics_of({KVC_INT4, 32, true}, in).ratio, 64.0 / 24);
}

TEST(Quantize, GroupsKeepAnOutlierToThemselves) {
  std::vector<float> in = normal_data(128, 9);
  in[40] = 60;
  for (int32_t dtype : {KVC_INT8, KVC_INT4}) {
    const double row = metrics_of({dtype, 0, false}, in).mse, group = metrics_of({dtype, 16, false}, in).mse;
    EXPECT_LT(group, row / 2) << dtype;
  }
}

TEST(Quantize, TouchesNothingBeyondItsRow) {
  for (const QuantFormat& format : all_formats()) {
    for (size_t n : {0u, 1u, 2u, 3u, 7u, 32u, 65u, 257u, 515u}) {
      SCOPED_TRACE(name(format) + " n " + std::to_string(n));
      const std::vector<float> in = normal_data(n, 8);
      const size_t bytes = code_bytes(format, n), scales = scales_of(format, n);
      std::vector<uint8_t> codes(bytes + 2, 0xEE);
      std::vector<float> factors(scales + 2, -77.0f), out(n + 2, -77.0f);
      quantize_row(format, in.data(), n, codes.data() + 1, factors.data() + 1);
      EXPECT_TRUE(codes.front() == 0xEE && codes.back() == 0xEE);
      EXPECT_TRUE(factors.front() == -77.0f && factors.back() == -77.0f);
      if (format.dtype == KVC_INT4 && n % 2) {
        EXPECT_EQ(codes[bytes] >> 4, 0);
      }
      dequantize_row(format, codes.data() + 1, factors.data() + 1, n, out.data() + 1);
      EXPECT_TRUE(out.front() == -77.0f && out.back() == -77.0f);
      // Groups know nothing of each other: each alone gives the same values.
      const size_t size = format.group ? format.group : n;
      for (size_t at = 0; at < n; at += size) {
        const std::vector<float> part(in.begin() + static_cast<ptrdiff_t>(at),
                                      in.begin() + static_cast<ptrdiff_t>(std::min(n, at + size)));
        const std::vector<float> alone = round_trip({format.dtype, 0, format.asymmetric}, part);
        ASSERT_TRUE(std::equal(alone.begin(), alone.end(), out.begin() + 1 + static_cast<ptrdiff_t>(at)));
      }
    }
  }
}

}  // namespace
}  // namespace kvc
