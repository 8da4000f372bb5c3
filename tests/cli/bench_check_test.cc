// SPDX-License-Identifier: Apache-2.0
// `kvcache bench --check` notices results that are wrong: of calls that were not made, of another layer, and
// of numbers that are a little off.
#include "cli/bench_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "cli/bench_ceiling.h"
#include "cli/bench_subject.h"
#include "cli/dtype.h"

namespace kvcli {
namespace {

BenchOptions small(const std::string& what) {
  BenchOptions options;
  options.what = what;
  options.batch = 2, options.context = 70, options.heads = 4, options.kv_heads = 2, options.head_dim = 32;
  options.layers = 3;
  options.check = true;
  return options;
}

BenchCheck checked(const BenchOptions& options, BenchTimer timer) {
  BenchSubject subject(options);
  subject.set_timer(std::move(timer));
  subject.run();
  return subject.checked();
}

constexpr BenchTimes kTimes = {1, 1};
const char* const kAll[] = {"attention", "step", "store", "gather", "copy", "swap-out", "swap-in"};

TEST(BenchCheck, ResultsOfCallsThatWereMadeAreRight) {
  for (const std::string what : kAll)
    for (const std::string& dtype : dtype_names()) {
      BenchOptions options = small(what);
      options.dtype = dtype;
      options.queries = what == "attention" ? 5 : 1;
      const BenchCheck check = checked(options, [](uint32_t layers, const auto& work) {
        for (uint32_t call = 0; call < 2 * layers; ++call) work(call);
        return kTimes;
      });
      EXPECT_TRUE(check.right()) << what << ' ' << dtype << ' ' << check.max_error;
      EXPECT_GE(check.rows, 3u) << what;
    }
}

TEST(BenchCheck, NoticesThatNothingWasDone) {
  for (const std::string what : kAll) {
    const BenchCheck check = checked(small(what), [](uint32_t, const auto&) { return kTimes; });
    EXPECT_FALSE(check.right()) << what;
    EXPECT_GE(check.rows, 3u) << what;
  }
}

TEST(BenchCheck, NoticesTheResultsOfAnotherLayer) {
  for (const std::string what : {"attention", "step", "store", "gather"}) {
    const BenchCheck check = checked(small(what), [](uint32_t layers, const auto& work) {
      for (uint32_t call = 0; call + 1 < layers; ++call) work(call);
      return kTimes;
    });
    EXPECT_FALSE(check.right()) << what;
  }
}

TEST(BenchCheck, OfLatentRowsAndValuesOfAnotherDim) {
  const auto all = [](uint32_t layers, const auto& work) {
    for (uint32_t call = 0; call < layers; ++call) work(call);
    return kTimes;
  };
  for (const std::string what : kAll) {
    BenchOptions options = small(what);
    options.v_head_dim = 24;
    EXPECT_TRUE(checked(options, all).right()) << what;
    options.latent = true, options.kv_heads = 1;
    EXPECT_TRUE(checked(options, all).right()) << what;
    EXPECT_FALSE(checked(options, [](uint32_t, const auto&) { return kTimes; }).right()) << what;
  }
}

TEST(BenchCheck, ARowIsAsWrongAsItsDistance) {
  const std::vector<float> expected = {3, 4, 0, 30, 40, 0};
  std::vector<float> found = expected;
  BenchCheck check;
  check.limit = 0.01;
  compare_rows(found, expected, 3, &check);
  EXPECT_EQ(check.rows, 2u);
  EXPECT_EQ(check.max_error, 0);
  found[2] = 0.05f;  // of a row of length 5; of the larger one it would be little
  compare_rows(found, expected, 3, &check);
  EXPECT_NEAR(check.max_error, 0.01, 1e-6);
  found[2] = 0.06f;
  compare_rows(found, expected, 3, &check);
  EXPECT_FALSE(check.right());
}

TEST(BenchCheck, WhatIsNoNumberIsNeverRight) {
  for (const float wrong :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    BenchCheck check;
    check.limit = 1e9;
    compare_rows({wrong, 1}, {1, 1}, 1, &check);
    EXPECT_FALSE(check.right());
    compare_rows({1, 1}, {1, 1}, 1, &check);
    EXPECT_FALSE(check.right()) << "rows that are right hide it";
  }
  EXPECT_FALSE(BenchCheck().right()) << "nothing was compared";
}

TEST(BenchCheck, AByteThatDiffersIsWrong) {
  BenchCheck check;
  compare_bytes("abcd", "abcd", 4, &check);
  EXPECT_TRUE(check.right());
  compare_bytes("abcd", "abcx", 4, &check);
  EXPECT_EQ(check.max_error, 0.25);
  EXPECT_FALSE(check.right());
}

TEST(BenchRatio, ARatioAbove1IsFlagged) {
  BenchOptions options;
  const auto text = [&](double reached) {
    std::ostringstream out;
    print_ratio(options, {"read_gb_per_s", "reads", 4e9}, reached, out);
    return out.str();
  };
  EXPECT_EQ(text(4e9), "  the machine reads 4.00 GB/s with as many threads: 1.00 of it\n");
  EXPECT_EQ(
      text(5e9),
      "  the machine reads 4.00 GB/s with as many threads: 1.25 of it\n"
      "  ABOVE 1: a part was in a cache (leave out --layers), or other work disturbed the measurement of "
      "the machine (run it again)\n");
  options.device = "cuda:0";
  EXPECT_EQ(text(2e9), "  the device reads 4.00 GB/s: 0.50 of it\n");
}

}  // namespace
}  // namespace kvcli
