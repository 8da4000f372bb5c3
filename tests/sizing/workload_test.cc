// SPDX-License-Identifier: Apache-2.0
// Workloads whose figures have a closed form.
#include <gtest/gtest.h>
#include <kvcache/sizing.h>

#include <cmath>
#include <limits>
#include <string>

namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

class WorkloadTest : public ::testing::Test {
 protected:
  ~WorkloadTest() override { kvc_workload_destroy(workload_); }
  void create(uint64_t half_life_ns, uint32_t window) {
    kvc_workload_config config = {};
    config.struct_size = sizeof config;
    config.half_life_ns = half_life_ns;
    config.window = window;
    ASSERT_EQ(kvc_workload_create(&config, &workload_), KVC_OK) << kvc_last_error();
  }
  void record(uint64_t now_ns, double value) {
    ASSERT_EQ(kvc_workload_record(workload_, now_ns, value), KVC_OK) << kvc_last_error();
  }
  kvc_workload_info read() {
    kvc_workload_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_workload_read_info(workload_, &info), KVC_OK);
    return info;
  }
  double predict(uint64_t horizon_ns) {
    double value = -1;
    EXPECT_EQ(kvc_workload_predict(workload_, horizon_ns, &value), KVC_OK);
    return value;
  }
  kvc_workload* workload_ = nullptr;
};

TEST_F(WorkloadTest, IsZeroBeforeTheFirstObservation) {
  create(kSecondNs, 4);
  const kvc_workload_info info = read();
  EXPECT_EQ(info.num_observations, 0u);
  EXPECT_EQ(info.burstiness, 0);
  EXPECT_EQ(predict(kSecondNs), 0);
}

TEST_F(WorkloadTest, AConstantHasNoTrendAndNoBursts) {
  create(10 * kSecondNs, 8);
  for (uint64_t t = 1; t <= 50; ++t) record(t * kSecondNs, 7);
  const kvc_workload_info info = read();
  EXPECT_EQ(info.num_observations, 50u);
  EXPECT_EQ(info.last_ns, 50 * kSecondNs);
  EXPECT_DOUBLE_EQ(info.average, 7);
  EXPECT_DOUBLE_EQ(info.level, 7);
  EXPECT_NEAR(info.trend, 0, 1e-12);
  EXPECT_DOUBLE_EQ(info.mean, 7);
  EXPECT_EQ(info.variance, 0);
  EXPECT_EQ(info.peak, 7);
  EXPECT_DOUBLE_EQ(info.rate, 1);
  EXPECT_DOUBLE_EQ(info.burstiness, -1);
  EXPECT_EQ(info.dispersion, 0);
  EXPECT_NEAR(predict(1000 * kSecondNs), 7, 1e-9);
}

TEST_F(WorkloadTest, ALineIsForecastExactlyAtAnyIntervals) {
  create(5 * kSecondNs, 4);
  for (const uint64_t t : {1, 2, 5, 6, 14, 15, 40}) record(t * kSecondNs, 3 + 2.5 * static_cast<double>(t));
  const kvc_workload_info info = read();
  EXPECT_NEAR(info.level, 103, 1e-9);
  EXPECT_NEAR(info.trend, 2.5, 1e-9);
  EXPECT_NEAR(predict(20 * kSecondNs), 153, 1e-8);
  EXPECT_LT(info.average, 103);           // an average lags behind
  EXPECT_DOUBLE_EQ(info.rate, 3.0 / 34);  // 6, 14, 15, 40
}

TEST_F(WorkloadTest, AStepReachesHalfAfterOneHalfLife) {
  create(8 * kSecondNs, 4);
  record(kSecondNs, 0), record(2 * kSecondNs, 0);
  record(10 * kSecondNs, 100);  // 8 s later: a = 1/2
  EXPECT_NEAR(read().average, 50, 1e-9);
  EXPECT_NEAR(read().level, 50, 1e-9);
  EXPECT_NEAR(read().trend, 0.5 * 50 / 8, 1e-9);
  record(26 * kSecondNs, 100);  // 16 s: a = 3/4
  EXPECT_NEAR(read().average, 87.5, 1e-9);
}

TEST_F(WorkloadTest, PeriodicBurstsHaveTheirMomentsOverWholePeriods) {
  create(60 * kSecondNs, 20);
  for (uint64_t t = 1; t <= 60; ++t) record(t * kSecondNs, t % 10 == 0 ? 100 : 0);
  const kvc_workload_info info = read();  // mean 10, variance 0.1 * 0.9 * 100^2
  EXPECT_DOUBLE_EQ(info.mean, 10);
  EXPECT_DOUBLE_EQ(info.variance, 900);
  EXPECT_EQ(info.peak, 100);
  EXPECT_DOUBLE_EQ(info.dispersion, 90);
  EXPECT_DOUBLE_EQ(info.burstiness, (30.0 - 10) / (30 + 10));
}

TEST_F(WorkloadTest, TheWindowForgetsThePeak) {
  create(kSecondNs, 3);
  record(1, 50), record(2, 1), record(3, 2);
  EXPECT_EQ(read().peak, 50);
  record(4, 3);
  EXPECT_EQ(read().peak, 3);
  EXPECT_DOUBLE_EQ(read().mean, 2);
}

TEST_F(WorkloadTest, BadObservationsAreRefusedAndChangeNothing) {
  create(kSecondNs, 4);
  record(100, 5);
  const double bad[] = {std::nan(""), std::numeric_limits<double>::infinity(),
                        -std::numeric_limits<double>::infinity(), 1e16};
  for (const double value : bad)
    EXPECT_EQ(kvc_workload_record(workload_, 200, value), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_workload_record(workload_, 100, 1), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_workload_record(workload_, 99, 1), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(kvc_last_error()),
            "now_ns is 99, the last observation was at 100; give a later time");
  EXPECT_EQ(read().num_observations, 1u);
  EXPECT_EQ(read().last, 5);
}

TEST_F(WorkloadTest, ExtremeTimesStayFinite) {
  create(UINT64_MAX, 2);
  record(0, 1e15), record(1, -1e15), record(UINT64_MAX / 2, 1e15), record(UINT64_MAX, -1e15);
  EXPECT_TRUE(std::isfinite(predict(UINT64_MAX)));
  EXPECT_TRUE(std::isfinite(read().variance));
}

}  // namespace
