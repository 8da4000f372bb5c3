// SPDX-License-Identifier: Apache-2.0
// Figures computed by hand, and what happens without error, signal, elements or finite numbers.
#include "quant/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kvc {
namespace {

constexpr double kInfinityD = std::numeric_limits<double>::infinity();
constexpr float kInfinityF = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(QuantMetrics, AreWhatTheFloatsAndBytesSay) {
  const float original[] = {3, -4, 0, 5}, restored[] = {3, -3, 0, 5.5f};
  const QuantMetrics m = measure(original, restored, 4, 5);
  EXPECT_EQ(m.bytes, 5u);
  EXPECT_EQ(m.fp16_bytes, 8u);
  EXPECT_DOUBLE_EQ(m.ratio, 1.6);
  EXPECT_DOUBLE_EQ(m.mse, 1.25 / 4);
  EXPECT_DOUBLE_EQ(m.snr_db, 10 * std::log10(50 / 1.25));
  EXPECT_DOUBLE_EQ(m.max_error, 1);
}

TEST(QuantMetrics, OfRowsAreThoseOfTheirSum) {
  const float original[] = {1, 2, 3, 4, 5}, restored[] = {1.5f, 2, 2, 4, 5.25f};
  QuantMeter meter;
  meter.add(original, restored, 2, 6);
  meter.add(original + 2, restored + 2, 3, 7);
  const QuantMetrics rows = meter.metrics(), whole = measure(original, restored, 5, 13);
  EXPECT_EQ(rows.bytes, whole.bytes);
  EXPECT_EQ(rows.fp16_bytes, whole.fp16_bytes);
  EXPECT_DOUBLE_EQ(rows.mse, whole.mse);
  EXPECT_DOUBLE_EQ(rows.snr_db, whole.snr_db);
  EXPECT_DOUBLE_EQ(rows.max_error, 1);
}

TEST(QuantMetrics, HaveExtremes) {
  const float one = 1, zero = 0, half = 0.5f;
  EXPECT_EQ(measure(&one, &one, 1, 1).snr_db, kInfinityD);
  EXPECT_EQ(measure(&zero, &half, 1, 1).snr_db, -kInfinityD);
  const QuantMetrics none = QuantMeter().metrics();
  EXPECT_EQ(none.ratio, 0);
  EXPECT_EQ(none.mse, 0);
  EXPECT_EQ(none.snr_db, kInfinityD);
}

TEST(QuantMetrics, LeaveOutWhatWasNotFiniteButNotWhatBecameSo) {
  const float original[] = {kNan, kInfinityF, 2}, restored[] = {0, 9, 1};
  const QuantMetrics m = measure(original, restored, 3, 4);
  EXPECT_EQ(m.fp16_bytes, 6u);
  EXPECT_DOUBLE_EQ(m.mse, 1);
  EXPECT_DOUBLE_EQ(m.max_error, 1);
  const float broken[] = {kNan, 9, kNan};
  EXPECT_EQ(measure(original, broken, 3, 4).max_error, kInfinityD);
  EXPECT_EQ(measure(original, broken, 3, 4).snr_db, -kInfinityD);
}

}  // namespace
}  // namespace kvc
