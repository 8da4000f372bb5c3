// SPDX-License-Identifier: Apache-2.0
// The way of a swap is the one that was faster when both were measured.
#include "kernels/swap_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "seed.h"

namespace kvc::gpu {
namespace {

// A machine: a time for each run, and one for each byte.
struct Machine {
  double fixed, run, byte;
  uint64_t time(const Swap& swap) const {
    const double bytes = static_cast<double>(swap.num_runs * swap.run_bytes);
    return static_cast<uint64_t>(fixed + static_cast<double>(swap.num_runs) * run + bytes * byte);
  }
};
constexpr Machine kEngine = {3000, 2300, 0.019}, kKernel = {5000, 60, 0.025};

SwapChoice::Measure measure(const Machine& engine, const Machine& kernel) {
  return [=](SwapPath path, const Swap& swap) {
    return (path == SwapPath::kKernel ? kernel : engine).time(swap);
  };
}

TEST(SwapChoice, WithoutMeasurementTheSizeOfARunDecides) {
  const SwapChoice choice;
  EXPECT_EQ(choice.choose({true, SwapChoice::kLargeRun - 16, 1000}), SwapPath::kKernel);
  EXPECT_EQ(choice.choose({false, SwapChoice::kLargeRun, 1}), SwapPath::kCopyEngine);
}

TEST(SwapChoice, TheFasterWayIsChosen) {
  SwapChoice choice;
  choice.calibrate(measure(kEngine, kKernel));
  std::mt19937 random(static_cast<uint32_t>(kvc::test::test_seed()));
  uint32_t kernels = 0, engines = 0;
  for (int i = 0; i < 10000; ++i) {
    const Swap swap{random() % 2 != 0, 4096 * (1 + random() % 1024) / (1 + random() % 256) / 16 * 16 + 4096,
                    1 + random() % 1000};
    const auto engine = static_cast<double>(kEngine.time(swap)),
               kernel = static_cast<double>(kKernel.time(swap));
    if (std::abs(engine - kernel) < 0.02 * engine) continue;  // times are whole nanoseconds
    const SwapPath path = choice.choose(swap);
    ASSERT_EQ(path == SwapPath::kKernel, kernel < engine)
        << swap.run_bytes << " bytes, " << swap.num_runs << " runs";
    ++(path == SwapPath::kKernel ? kernels : engines);
    ASSERT_NEAR(choice.nanoseconds(SwapPath::kKernel, swap), kernel, 0.02 * kernel + 10);
  }
  EXPECT_GT(kernels, 100u);
  EXPECT_GT(engines, 100u);
}

TEST(SwapChoice, TellsWhereItTurnsForManyRuns) {
  SwapChoice choice;
  EXPECT_FALSE(choice.measured());
  EXPECT_EQ(choice.kernel_below(true), SwapChoice::kLargeRun);
  const auto turn = [&](const Machine& engine, const Machine& kernel) {
    choice.calibrate(measure(engine, kernel));
    EXPECT_TRUE(choice.measured());
    const uint64_t found = choice.kernel_below(true);
    for (uint64_t bytes = 512; bytes <= (1 << 20); bytes *= 2)
      EXPECT_EQ(choice.choose({true, bytes, 1000}) == SwapPath::kKernel, bytes < found) << bytes;
    return found;
  };
  // 2300 + 0.019 b = 60 + 0.025 b at 373,333 bytes.
  EXPECT_EQ(turn(kEngine, kKernel), uint64_t{512} << 10);
  EXPECT_EQ(turn({0, 60, 0.019}, kKernel), 0u) << "no run is short enough";
  EXPECT_EQ(turn(kEngine, {0, 60, 0.019}), UINT64_MAX) << "none is long enough";
}

TEST(SwapChoice, DirectionsAreMeasuredApart) {
  SwapChoice choice;
  choice.calibrate([](SwapPath path, const Swap& swap) {
    return uint64_t{(path == SwapPath::kKernel) == swap.out ? 100u : 200u} * swap.num_runs;
  });
  EXPECT_EQ(choice.choose({true, 65536, 10}), SwapPath::kKernel);
  EXPECT_EQ(choice.choose({false, 65536, 10}), SwapPath::kCopyEngine);
}

TEST(SwapChoice, AWayThatIsNotThereIsNotChosen) {
  for (const bool has_kernel : {false, true}) {
    SwapChoice choice;
    choice.calibrate([&](SwapPath path, const Swap& swap) {
      return (path == SwapPath::kKernel) == has_kernel ? 1000 * swap.num_runs : 0;
    });
    for (const uint64_t bytes : {1024u, 1048576u})
      EXPECT_EQ(choice.choose({true, bytes, 7}), has_kernel ? SwapPath::kKernel : SwapPath::kCopyEngine);
  }
}

TEST(SwapChoice, OneDisturbedMeasurementChangesNothing) {
  SwapChoice calm, disturbed;
  calm.calibrate(measure(kEngine, kKernel));
  int calls = 0;
  disturbed.calibrate([&](SwapPath path, const Swap& swap) {
    return (path == SwapPath::kKernel ? kKernel : kEngine).time(swap) * (calls++ % 3 == 1 ? 50 : 1);
  });
  for (const uint64_t bytes : {4096u, 65536u, 1048576u}) {
    const Swap swap{true, bytes, 50};
    EXPECT_EQ(calm.nanoseconds(SwapPath::kKernel, swap), disturbed.nanoseconds(SwapPath::kKernel, swap));
  }
}

TEST(SwapChoice, NoMeasurementMovesMuch) {
  SwapChoice choice;
  choice.calibrate([](SwapPath, const Swap& swap) {
    EXPECT_LE(swap.num_runs * swap.run_bytes, SwapChoice::kMostBytes);
    return uint64_t{1};
  });
}

}  // namespace
}  // namespace kvc::gpu
