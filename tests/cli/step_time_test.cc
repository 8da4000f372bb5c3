// SPDX-License-Identifier: Apache-2.0
// Times of steps: the formula, and tables between and beyond their points.
#include "cli/step_time.h"

#include <gtest/gtest.h>

#include <fstream>

namespace kvcli {
namespace {

TEST(StepTime, IsASumOfItsParts) {
  const StepTime time = StepTime::parse("token_us=2,fixed_us=100,context_us=0.001");
  EXPECT_EQ(time.device_ns(0, 0), 100'000u);
  EXPECT_EQ(time.device_ns(7, 5), 114'005u);
  EXPECT_EQ(StepTime::parse("token_us=0,fixed_us=0,context_us=0").device_ns(7, 5), 1u);  // time passes
  const StepTime usual = StepTime::parse("");
  EXPECT_EQ(StepTime::parse("fixed_us=1").device_ns(3, 0),
            1000u + static_cast<uint64_t>(usual.token_us * 3000));
}

TEST(StepTime, OfATableIsLinearBetweenAndBeyondItsPoints) {
  const std::string path = testing::TempDir() + "step_time_test.csv";
  std::ofstream(path)
      << "tokens,context,us\r\n10,1000,200\n1,0,100\n10,0,190\n1,1000,110\n100,0,1000\n100,1000,1900\n";
  const StepTime time = StepTime::parse(path);
  EXPECT_TRUE(time.is_measured());
  EXPECT_EQ(time.device_ns(1, 0), 100'000u);
  EXPECT_EQ(time.device_ns(4, 0), 130'000u);
  EXPECT_EQ(time.device_ns(4, 500), 135'000u);
  EXPECT_EQ(time.device_ns(100, 1000), 1'900'000u);
  EXPECT_EQ(time.device_ns(190, 0), 1'810'000u);
  EXPECT_EQ(time.device_ns(100, 2000), 2'800'000u);
  EXPECT_EQ(time.device_ns(0, 0), 100'000u);
}

TEST(StepTime, OfATableWithOneContextDoesNotDependOnIt) {
  const std::string path = testing::TempDir() + "step_time_test.json";
  std::ofstream(path) << R"([{"tokens": 1, "context": 8, "us": 5}, {"tokens": 3, "context": 8, "us": 9}])";
  const StepTime time = StepTime::parse(path);
  EXPECT_EQ(time.device_ns(2, 0), 7000u);
  EXPECT_EQ(time.device_ns(2, 1'000'000), 7000u);
}

}  // namespace
}  // namespace kvcli
