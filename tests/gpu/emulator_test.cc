// SPDX-License-Identifier: Apache-2.0
// The emulator does what portable.h says, and notices mistakes.
#include "gpu/device.h"

namespace kvc::gpu::test {
namespace {

using EmulatorTest = KernelTest;
constexpr uint32_t kThreads = 256;

// The message of the fault that `work` makes, or nothing.
template <typename Work>
std::string fault_of(Work&& work) {
  static std::string message;
  message.clear();
  const auto before = emulator::set_fault_handler([](const std::string& what) { message = what; });
  work();
  emulator::set_fault_handler(before);
  return message;
}

KVC_KERNEL(kThreads, 1) reverse(uint32_t* values) {
  KVC_SHARED(uint32_t, tile, kThreads);
  tile[threadIdx.x] = values[blockIdx.x * kThreads + threadIdx.x];
  sync_block();
  values[blockIdx.x * kThreads + threadIdx.x] = tile[kThreads - 1 - threadIdx.x];
}

KVC_KERNEL(kThreads, 1) reverse_without_barrier(uint32_t* values) {
  KVC_SHARED(uint32_t, tile, kThreads);
  tile[threadIdx.x] = values[threadIdx.x];
  values[threadIdx.x] = tile[kThreads - 1 - threadIdx.x];
}

TEST_F(EmulatorTest, BlocksShareMemoryAndMeetAtBarriers) {
  constexpr uint32_t kBlocks = 5;
  std::vector<uint32_t> values(kThreads * kBlocks), expected(values.size());
  for (uint32_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<uint32_t>(random());
    expected[i / kThreads * kThreads + kThreads - 1 - i % kThreads] = values[i];
  }
  DeviceArray<uint32_t> array(values);
  ASSERT_EQ(launch(reverse, {kBlocks}, kThreads, 0, nullptr, array.data()), 0);
  EXPECT_EQ(array.get(), expected);
}

TEST_F(EmulatorTest, AMissingBarrierGivesWrongResults) {
  std::vector<uint32_t> values(kThreads), expected(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) expected[kThreads - 1 - i] = values[i] = i;
  DeviceArray<uint32_t> array(values);
  ASSERT_EQ(launch(reverse_without_barrier, {1}, kThreads, 0, nullptr, array.data()), 0);
  EXPECT_NE(array.get(), expected);
}

KVC_KERNEL(kThreads, 1) some_end_early(uint32_t last) {
  if (threadIdx.x >= last) return;
  sync_block();
}
KVC_KERNEL(kThreads, 1) different_barriers(uint32_t last) {
  if (threadIdx.x < last) {
    sync_block();
  } else {
    sync_block();
  }
}
KVC_KERNEL(kThreads, 1) half_a_shuffle(uint32_t last) {
  if (lane() < last) shuffle_xor(1, 1);
}
KVC_KERNEL(kThreads, 1) writes_past_shared(uint32_t by) {
  KVC_SHARED(uint32_t, tile, kThreads);
  tile[threadIdx.x + by] = 0;
}
KVC_KERNEL(kThreads, 1) never_waits(const char* from) {
  KVC_SHARED(char, tile, 16);
  if (threadIdx.x == 0) copy_async(tile, from);
}

TEST_F(EmulatorTest, NoticesMistakes) {
  EXPECT_NE(fault_of([] { launch(some_end_early, {1}, kThreads, 0, nullptr, 100u); }).find("156 have ended"),
            std::string::npos);
  EXPECT_NE(
      fault_of([] { launch(different_barriers, {1}, kThreads, 0, nullptr, 64u); }).find("different barriers"),
      std::string::npos);
  EXPECT_NE(fault_of([] { launch(half_a_shuffle, {1}, kThreads, 0, nullptr, 7u); }).find("wait at"),
            std::string::npos);
  EXPECT_NE(
      fault_of([] { launch(writes_past_shared, {1}, kThreads, 0, nullptr, 1u); }).find("beside a shared"),
      std::string::npos);
  DeviceArray<char> from(16);
  const auto start = [&] {
    launch(never_waits, {1}, kThreads, 0, nullptr, static_cast<const char*>(from.data()));
  };
  EXPECT_NE(fault_of(start).find("copies on their way"), std::string::npos);
  EXPECT_EQ(fault_of([] { launch(some_end_early, {1}, kThreads, 0, nullptr, kThreads); }), "");
}

TEST_F(EmulatorTest, RefusesWhatNoDeviceCouldLaunch) {
  EXPECT_NE(launch(some_end_early, {0}, kThreads, 0, nullptr, kThreads), 0);
  EXPECT_NE(launch(some_end_early, {1, 65536}, kThreads, 0, nullptr, kThreads), 0);
  EXPECT_NE(launch(some_end_early, {1}, 2048, 0, nullptr, kThreads), 0);
  EXPECT_NE(launch(some_end_early, {1}, kThreads, size_t{1} << 20, nullptr, kThreads), 0);
}

struct LaneResults {
  uint32_t xored[kThreads], up[kThreads], sum[kThreads];
  uint64_t ballot[kThreads];
};
KVC_KERNEL(kThreads, 1) use_lanes(LaneResults* out) {
  const uint32_t i = threadIdx.x;
  out->xored[i] = shuffle_xor(i, 5);
  out->up[i] = shuffle_up(i, 2);
  out->ballot[i] = ballot(i % 3 == 0);
  out->sum[i] = team_sum(i, 8);
}

TEST_F(EmulatorTest, LanesOfAWaveHearEachOther) {
  DeviceArray<LaneResults> array(1);
  ASSERT_EQ(launch(use_lanes, {1}, kThreads, 0, nullptr, array.data()), 0);
  const LaneResults out = array.get()[0];
  for (uint32_t i = 0; i < kThreads; ++i) {
    const uint32_t first = i / kWave * kWave;
    EXPECT_EQ(out.xored[i], i ^ 5);
    EXPECT_EQ(out.up[i], i - first < 2 ? i : i - 2);
    EXPECT_EQ(out.sum[i], i / 8 * 64 + 28);
    uint64_t mask = 0;
    for (uint32_t l = 0; l < kWave; ++l) mask |= uint64_t{(first + l) % 3 == 0} << l;
    EXPECT_EQ(out.ballot[i], mask);
  }
}

struct AsyncArgs {
  const uint32_t* in;
  uint32_t *early, *late;
};
KVC_KERNEL(64, 1) copy_in_stages(KVC_ARGUMENT(AsyncArgs) args) {
  KVC_SHARED(uint32_t, tile, 512);
  for (uint32_t stage = 0; stage < 2; ++stage) {
    copy_async(tile + 256 * stage + 4 * threadIdx.x, args.in + 256 * stage + 4 * threadIdx.x,
               stage == 0 ? 16 : 4);
    commit_async();
  }
  wait_async<1>();
  for (uint32_t i = 0; i < 8; ++i)
    args.early[8 * threadIdx.x + i] = tile[i / 4 * 256 + 4 * threadIdx.x + i % 4];
  wait_async<0>();
  for (uint32_t i = 0; i < 4; ++i) args.late[4 * threadIdx.x + i] = tile[256 + 4 * threadIdx.x + i];
}

TEST_F(EmulatorTest, AsynchronousCopiesArriveWhenTheyAreWaitedFor) {
  std::vector<uint32_t> in(512);
  for (uint32_t& x : in) x = static_cast<uint32_t>(random() % 1000);
  DeviceArray<uint32_t> from(in), early(512), late(256);
  ASSERT_EQ(launch(copy_in_stages, {1}, 64, 0, nullptr, AsyncArgs{from.data(), early.data(), late.data()}),
            0);
  const std::vector<uint32_t> a = early.get(), b = late.get();
  for (uint32_t i = 0; i < 512; ++i) {
    const uint32_t thread = i / 8;
    EXPECT_EQ(a[i], i % 8 < 4 ? in[4 * thread + i % 4] : UINT32_MAX);  // the second stage is still poison
  }
  for (uint32_t i = 0; i < 256; ++i)
    EXPECT_EQ(b[i], i % 4 == 0 ? in[256 + i] : 0);  // 4 of 16 bytes are valid
}

TEST_F(EmulatorTest, GuardedMemoryEndsAtAPageThatNobodyMayTouch) {
  DeviceArray<char> array(48);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data()) % 16, 0u);
  EXPECT_DEATH(static_cast<volatile char*>(array.data())[48] = 0, "");
}

}  // namespace
}  // namespace kvc::gpu::test
