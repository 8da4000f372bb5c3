// SPDX-License-Identifier: Apache-2.0
// The time that the command says is left.
#include "cli/progress.h"

#include <gtest/gtest.h>

namespace kvcli {
namespace {

TEST(Progress, SaysHowLongTheRestTakesIfItGoesOnLikeThis) {
  EXPECT_EQ(time_left(1000, 30000, 2.5), ", 1:12 left");
  EXPECT_EQ(time_left(1, 2, 3600), ", 60:00 left");
  EXPECT_EQ(time_left(30000, 30000, 9), ", 0:00 left");
}

TEST(Progress, SaysNothingWhileItKnowsLittle) {
  EXPECT_EQ(time_left(0, 30000, 5), "");
  EXPECT_EQ(time_left(1000, 30000, 0.29), "");
}

}  // namespace
}  // namespace kvcli
