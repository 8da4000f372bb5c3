// SPDX-License-Identifier: Apache-2.0
// kvc_quantize and kvc_dequantize: sizes, shapes and refusals; the codes themselves are tested in
// tests/quant.
#include <gtest/gtest.h>
#include <kvcache/storage.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace {

constexpr size_t kNumRows = 6, kElements = 13;  // odd rows of int4 end in half a byte

struct Quantized {
  std::vector<unsigned char> codes;
  std::vector<float> scales;
};

kvc_quant_format format_of(int32_t dtype, uint32_t flags = 0, uint32_t group = 0, float scale = 0) {
  return {sizeof(kvc_quant_format), dtype, flags, group, scale};
}

// Into arrays of exactly the size that the header says, so that sanitizers see the first byte beyond.
Quantized quantize(const kvc_quant_format& f, const std::vector<float>& in) {
  const size_t pairs = (f.flags & KVC_QUANT_ASYMMETRIC) != 0 ? 2 : 1;
  const size_t per_row = f.group == 0 ? 1 : (kElements + f.group - 1) / f.group;
  const size_t count = (f.flags & KVC_QUANT_CHANNELS) != 0 ? kElements
                       : f.scale != 0                      ? 0
                                                           : kNumRows * per_row;
  Quantized out{
      std::vector<unsigned char>(kNumRows * (f.dtype == KVC_INT4 ? (kElements + 1) / 2 : kElements), 0xee),
      std::vector<float>(count * pairs, -77)};
  EXPECT_EQ(kvc_quantize(&f, in.data(), kNumRows, kElements, out.codes.data(), out.scales.data()), KVC_OK)
      << kvc_last_error();
  return out;
}

std::vector<float> dequantize(const kvc_quant_format& f, const Quantized& from) {
  std::vector<float> out(kNumRows * kElements);
  EXPECT_EQ(kvc_dequantize(&f, from.codes.data(), from.scales.data(), kNumRows, kElements, out.data()),
            KVC_OK)
      << kvc_last_error();
  return out;
}

std::vector<kvc_quant_format> all_formats() {
  std::vector<kvc_quant_format> out;
  for (const int32_t dtype : {KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2}) {
    for (const uint32_t group : {0u, 4u, 13u, 100u}) out.push_back(format_of(dtype, 0, group));
    out.push_back(format_of(dtype, KVC_QUANT_CHANNELS));
    out.push_back(format_of(dtype, 0, 0, 0.5f));
    if (dtype != KVC_INT8 && dtype != KVC_INT4) continue;
    out.push_back(format_of(dtype, KVC_QUANT_ASYMMETRIC, 4));
    out.push_back(format_of(dtype, KVC_QUANT_ASYMMETRIC | KVC_QUANT_CHANNELS));
  }
  return out;
}

TEST(Quantize, ComesBackWithinItsStepAndTheSecondTimeTheSame) {
  std::mt19937 random(31);
  std::normal_distribution<float> normal;
  std::vector<float> in(kNumRows * kElements);
  for (float& x : in) x = normal(random);
  for (const kvc_quant_format& f : all_formats()) {
    const Quantized once = quantize(f, in);
    const std::vector<float> out = dequantize(f, once);
    const double limit = f.dtype == KVC_INT4 ? 0.45 : f.dtype == KVC_INT8 ? 0.26 : 0.4;
    for (size_t i = 0; i < in.size(); ++i)
      ASSERT_NEAR(out[i], in[i], limit) << f.dtype << ' ' << f.flags << ' ' << f.group << ' ' << f.scale;
    EXPECT_NE(out, in);
    EXPECT_EQ(quantize(f, out).codes, once.codes) << f.dtype << ' ' << f.flags << ' ' << f.group;
  }
}

TEST(Quantize, ZerosNanAndInfinitiesAreDefined) {
  std::vector<float> in(kNumRows * kElements, 0.0f);
  for (const kvc_quant_format& f : all_formats()) EXPECT_EQ(dequantize(f, quantize(f, in)), in);
  in[1] = std::nanf("");
  in[2] = std::numeric_limits<float>::infinity();
  in[3] = 2;
  for (const kvc_quant_format& f : all_formats()) {
    const std::vector<float> out = dequantize(f, quantize(f, in));
    const bool integers = f.dtype == KVC_INT8 || f.dtype == KVC_INT4;
    EXPECT_EQ(std::isnan(out[1]), !integers);
    EXPECT_TRUE(std::isfinite(out[2]) && out[2] > 0) << f.dtype << ' ' << f.flags;
    EXPECT_EQ(out[kElements], 0) << "another row, another column";
  }
}

TEST(Quantize, ColumnsHaveAScaleEach) {
  std::vector<float> in(kNumRows * kElements);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>(i % kElements + 1) * (i / kElements % 2 ? 1 : -1);
  const kvc_quant_format f = format_of(KVC_INT8, KVC_QUANT_CHANNELS);
  const Quantized q = quantize(f, in);
  for (size_t c = 0; c < kElements; ++c) EXPECT_FLOAT_EQ(q.scales[c], static_cast<float>(c + 1) / 127);
}

TEST(Quantize, RefusesWhatIsWrong) {
  float in[4] = {1, 2, 3, 4}, scales[4] = {-77}, out[4] = {-77};
  unsigned char codes[4] = {0xee};
  const auto refused = [&](kvc_quant_format f, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    EXPECT_EQ(kvc_quantize(&f, in, 1, 4, codes, scales), status);
    EXPECT_EQ(kvc_dequantize(&f, codes, scales, 1, 4, out), status);
    EXPECT_TRUE(codes[0] == 0xee && scales[0] == -77 && out[0] == -77);
  };
  refused(format_of(0));
  refused(format_of(KVC_FLOAT16));
  refused(format_of(KVC_FLOAT8_E4M3, KVC_QUANT_ASYMMETRIC));
  refused(format_of(KVC_INT8, 4), KVC_ERROR_UNSUPPORTED);
  refused(format_of(KVC_INT8, KVC_QUANT_CHANNELS, 4));
  refused(format_of(KVC_INT8, 0, 4, 1));
  refused(format_of(KVC_INT8, KVC_QUANT_ASYMMETRIC, 0, 1));
  refused(format_of(KVC_INT8, 0, 0, -1));
  refused(format_of(KVC_INT8, 0, 0, std::nanf("")));
  refused({8, KVC_INT8, 0, 0, 0});
  const kvc_quant_format f = format_of(KVC_INT8);
  EXPECT_EQ(kvc_quantize(nullptr, in, 1, 4, codes, scales), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_quantize(&f, nullptr, 1, 4, codes, scales), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_quantize(&f, in, 1, 4, nullptr, scales), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_quantize(&f, in, 1, 4, codes, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_dequantize(&f, codes, scales, 1, 4, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_quantize(&f, nullptr, 0, 4, nullptr, nullptr), KVC_OK);
}

}  // namespace
