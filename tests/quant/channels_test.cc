// SPDX-License-Identifier: Apache-2.0
// A scale per channel: each channel is a row that stands upright.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "quant/metrics.h"
#include "quant/rows.h"

namespace kvc {
namespace {

using namespace test;

Row quantize_channels(const QuantFormat& format, const std::vector<float>& block, size_t tokens, size_t dim) {
  Row row{std::vector<uint8_t>(tokens * code_bytes(format, dim)),
          std::vector<float>(channel_scales_of(format, dim))};
  quantize_channels(format, block.data(), tokens, dim, row.codes.data(), code_bytes(format, dim),
                    row.scales.data());
  return row;
}

std::vector<float> dequantize_channels(const QuantFormat& format, const Row& row, size_t tokens, size_t dim) {
  std::vector<float> out(tokens * dim);
  for (size_t t = 0; t < tokens; ++t) {
    dequantize_channels(format, row.codes.data() + t * code_bytes(format, dim), row.scales.data(), dim,
                        out.data() + t * dim);
  }
  return out;
}

// A channel is a row that stands upright.
TEST(QuantizeChannels, EqualsQuantizingEachChannelAsARow) {
  for (const QuantFormat& format : all_formats({0})) {
    for (size_t dim : {1u, 2u, 7u, 64u, 128u, 255u, 256u, 257u, 600u}) {
      for (size_t tokens : {1u, 5u, 16u}) {
        SCOPED_TRACE(name(format) + " dim " + std::to_string(dim) + " tokens " + std::to_string(tokens));
        std::vector<float> block = normal_data(tokens * dim, 11);
        block[dim / 2] = kInfinity;
        block[0] = dim > 2 ? kNan : 1.0f;
        const Row quantized = quantize_channels(format, block, tokens, dim);
        const std::vector<float> out = dequantize_channels(format, quantized, tokens, dim);
        const size_t width = format.asymmetric ? 2 : 1;
        for (size_t c = 0; c < dim; ++c) {
          std::vector<float> channel;
          for (size_t t = 0; t < tokens; ++t) channel.push_back(block[t * dim + c]);
          const Row row = quantize(format, channel);
          const std::vector<float> expected = dequantize(format, row, tokens);
          for (size_t k = 0; k < width; ++k) ASSERT_EQ(quantized.scales[c * width + k], row.scales[k]);
          for (size_t t = 0; t < tokens; ++t) {
            if (std::isnan(expected[t])) {
              ASSERT_TRUE(std::isnan(out[t * dim + c]));
            } else {
              ASSERT_EQ(out[t * dim + c], expected[t]) << "channel " << c << " token " << t;
            }
          }
        }
      }
    }
  }
}

TEST(QuantizeChannels, BeatsTokensWhenAChannelStandsOut) {
  constexpr size_t kTokens = 64, kDim = 128;
  std::vector<float> block = normal_data(kTokens * kDim, 21);
  for (size_t t = 0; t < kTokens; ++t) block[t * kDim + 30] *= 25;
  for (int32_t dtype : {KVC_INT8, KVC_INT4}) {
    const QuantFormat format{dtype, 0, false};
    const std::vector<float> channels =
        dequantize_channels(format, quantize_channels(format, block, kTokens, kDim), kTokens, kDim);
    const std::vector<float> tokens = round_trip({dtype, kDim, false}, block);
    const double by_channel = measure(block.data(), channels.data(), block.size(), 1).snr_db;
    const double by_token = measure(block.data(), tokens.data(), block.size(), 1).snr_db;
    // The outlier channel must not drown the others in the comparison: all but it.
    double channel_noise = 0, token_noise = 0;
    for (size_t i = 0; i < block.size(); ++i) {
      if (i % kDim == 30) continue;
      channel_noise += std::pow(double{block[i]} - channels[i], 2);
      token_noise += std::pow(double{block[i]} - tokens[i], 2);
    }
    std::printf(
        "type %d, outlier channel: SNR per channel %.2f dB, per token %.2f dB; noise of the others %.1fx "
        "less\n",
        dtype, by_channel, by_token, token_noise / channel_noise);
    EXPECT_GT(by_channel, by_token);
    EXPECT_LT(channel_noise, token_noise / 4);
  }
}

TEST(QuantizeChannels, SealsTheSameCodesAgain) {
  for (const QuantFormat& format : all_formats({0})) {
    const std::vector<float> block = normal_data(16 * 33, 5);
    const Row first = quantize_channels(format, block, 16, 33);
    EXPECT_EQ(quantize_channels(format, dequantize_channels(format, first, 16, 33), 16, 33).codes,
              first.codes)
        << name(format);
  }
}

TEST(QuantizeChannels, LeavesWhatLiesBetweenItsRows) {
  for (const QuantFormat& format : all_formats({0})) {
    const std::vector<float> block = normal_data(4 * 33, 6);
    const Row packed = quantize_channels(format, block, 4, 33);
    const size_t bytes = code_bytes(format, 33), stride = bytes + 5;
    std::vector<uint8_t> codes(4 * stride, 0xEE);
    std::vector<float> scales(packed.scales.size());
    quantize_channels(format, block.data(), 4, 33, codes.data(), stride, scales.data());
    EXPECT_EQ(scales, packed.scales);
    for (size_t i = 0; i < codes.size(); ++i) {
      const uint8_t wanted = i % stride < bytes ? packed.codes[i / stride * bytes + i % stride] : 0xEE;
      ASSERT_EQ(codes[i], wanted) << name(format) << " byte " << i;
    }
  }
}

TEST(QuantizeChannels, TakesNothing) {
  for (const QuantFormat& format : all_formats({0})) {
    quantize_channels(format, nullptr, 4, 0, nullptr, 0, nullptr);
    dequantize_channels(format, nullptr, nullptr, 0, nullptr);
    std::vector<float> scales(channel_scales_of(format, 3), 9.0f);
    quantize_channels(format, nullptr, 0, 3, nullptr, 3, scales.data());
    EXPECT_EQ(scales, std::vector<float>(scales.size(), 0.0f));
  }
}

}  // namespace
}  // namespace kvc
