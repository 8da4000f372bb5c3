// SPDX-License-Identifier: Apache-2.0
// Histograms: exact and rounded durations, bounds, what is too long, and percentiles of sorted durations.
#include "observe/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "seed.h"

namespace kvc {
namespace {

using Reading = Histogram::Reading;

uint64_t percentile_of(uint64_t ns) {
  const auto histogram = std::make_unique<Histogram>();
  histogram->record(ns);
  histogram->record(Histogram::kMostNs);  // the greatest caps nothing
  return Reading(*histogram).percentile(0.5);
}

TEST(Histogram, IsEmptyAtFirst) {
  const auto histogram = std::make_unique<Histogram>();
  const Reading empty(*histogram);
  EXPECT_EQ(empty.count(), 0u);
  EXPECT_EQ(empty.sum(), 0u);
  EXPECT_EQ(empty.max(), 0u);
  EXPECT_EQ(empty.percentile(0.5), 0u);
  EXPECT_EQ(empty.count_up_to(42), 0u);
}

TEST(Histogram, IsExactUpTo128AndWithin8PerMilleAbove) {
  for (uint64_t ns = 1; ns <= 128; ++ns) EXPECT_EQ(percentile_of(ns), ns);
  for (uint32_t power = 7; power < 42; ++power) {
    for (const int64_t off : {-1, 0, 1, 12345}) {
      const uint64_t ns = (uint64_t{1} << power) + static_cast<uint64_t>(off + 2);
      const auto error = std::abs(static_cast<double>(percentile_of(ns)) / static_cast<double>(ns) - 1);
      EXPECT_LE(error, 0.008) << ns;
    }
  }
}

TEST(Histogram, CountsDurationsOfExactlyABoundAsUpToIt) {
  for (uint32_t power = 0; power < 42; ++power) {
    const auto histogram = std::make_unique<Histogram>();
    histogram->record(uint64_t{1} << power);
    EXPECT_EQ(Reading(*histogram).count_up_to(power), 1u) << power;
    histogram->record((uint64_t{1} << power) + 1);
    EXPECT_EQ(Reading(*histogram).count_up_to(power), 1u) << power;
    EXPECT_EQ(Reading(*histogram).count_up_to(power + 1), 2u) << power;
  }
}

TEST(Histogram, CutsWhatIsTooLong) {
  const auto histogram = std::make_unique<Histogram>();
  histogram->record(UINT64_MAX);
  const Reading from(*histogram);
  EXPECT_EQ(from.max(), Histogram::kMostNs);
  EXPECT_EQ(from.sum(), Histogram::kMostNs);
  EXPECT_EQ(from.count_up_to(41), 0u);
  EXPECT_EQ(from.count_up_to(42), 1u);
}

TEST(Histogram, GivesThePercentilesOfSortedDurations) {
  std::mt19937_64 random(test::test_seed());
  std::lognormal_distribution<double> durations(12, 2);  // the median 0.2 ms
  const auto histogram = std::make_unique<Histogram>();
  std::vector<uint64_t> all(20000);
  uint64_t sum = 0;
  for (uint64_t& ns : all) {
    ns = static_cast<uint64_t>(durations(random));
    histogram->record(ns);
    sum += ns;
  }
  std::sort(all.begin(), all.end());
  const Reading from(*histogram);
  EXPECT_EQ(from.count(), all.size());
  EXPECT_EQ(from.sum(), sum);
  EXPECT_EQ(from.max(), all.back());
  for (const double share : {0.001, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(all.size())));
    const auto exact = static_cast<double>(all[rank - 1]);
    EXPECT_NEAR(static_cast<double>(from.percentile(share)), exact, 0.008 * exact + 1) << share;
  }
  for (uint32_t power = 8; power <= 34; ++power) {
    const auto end = std::upper_bound(all.begin(), all.end(), uint64_t{1} << power);
    EXPECT_EQ(from.count_up_to(power), static_cast<uint64_t>(end - all.begin())) << power;
  }
}

}  // namespace
}  // namespace kvc
