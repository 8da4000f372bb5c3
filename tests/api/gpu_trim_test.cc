// SPDX-License-Identifier: Apache-2.0
// kvc_storage_trim on emulated devices: what calls left goes back, what graphs and enqueued work use does
// not, and results stay right beside captures and other threads; and the sizes that workspace comes in.
#include <atomic>
#include <cstdio>
#include <thread>

#include "../gpu/backend/size_class.h"
#include "api/device_step.h"

namespace kvc::test {
namespace {

struct Freed {
  uint64_t on_device = 0, on_host = 0;
};

Freed trim(kvc_storage* s) {
  Freed freed;
  EXPECT_EQ(kvc_storage_trim(s, &freed.on_device, &freed.on_host), KVC_OK) << kvc_last_error();
  return freed;
}

class GpuTrim : public OnEmulatedDevices {
 protected:
  static uint64_t in_use() { return control()->bytes_in_use(0); }
  static void synchronize(const EngineStream& engine) {
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK) << kvc_last_error();
  }
  // As a step without a stream computes it.
  static std::vector<float> expected() {
    Step step;
    step.attend(nullptr);
    return step.outs[kLayers - 1];
  }
};

TEST_F(GpuTrim, GivesBackWhatCallsLeft) {
  const std::vector<float> right = expected();
  Step step;
  const Freed set_up = trim(step.storage.get());
  const uint64_t least = in_use();
  const EngineStream one, other;
  step.attend(one.stream.get());
  synchronize(one);
  step.attend(other.stream.get());
  synchronize(other);
  step.attend(nullptr);
  const uint64_t left = in_use() - least;
  EXPECT_GT(left, 0u);
  EXPECT_EQ(trim(step.storage.get()).on_device, left) << set_up.on_device;
  EXPECT_EQ(in_use(), least);
  EXPECT_EQ(trim(step.storage.get()).on_device, 0u) << "twice";
  EXPECT_EQ(kvc_storage_trim(step.storage.get(), nullptr, nullptr), KVC_OK);
  step.clear();
  step.attend(one.stream.get());
  synchronize(one);
  EXPECT_EQ(step.outs[kLayers - 1], right) << "calls go on as before";
}

TEST_F(GpuTrim, GivesBackPinnedMemoryOfHostArrays) {
  kvc_storage_config config = small_config("emulated");
  config.num_blocks = 256;
  const StoragePtr s = make(config);
  std::vector<int64_t> slots(config.num_blocks * kBlock);  // 32 KiB: more than the arguments of launches take
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  ValueRows rows(slots.size(), 3);
  rows.rows.slots = slots.data();
  ASSERT_EQ(kvc_storage_store(s.get(), &rows.rows, nullptr), KVC_OK) << kvc_last_error();
  const Freed freed = trim(s.get());
  EXPECT_GE(freed.on_host, slots.size() * sizeof slots[0]);
  EXPECT_GT(freed.on_device, 0u);
  EXPECT_EQ(trim(s.get()).on_host, 0u);
  ASSERT_EQ(kvc_storage_store(s.get(), &rows.rows, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(key_at(s.get(), 4000), 3.0f);
}

TEST_F(GpuTrim, WaitsForEnqueuedWorkThatUsesThePieces) {
  const std::vector<float> right = expected();
  Step step;
  const EngineStream engine;
  control()->hold(engine.handle);
  step.attend(engine.stream.get());
  Freed freed;
  std::thread other([&] { freed = trim(step.storage.get()); });
  control()->let_go(engine.handle);
  other.join();
  synchronize(engine);
  EXPECT_GT(freed.on_device, 0u);
  EXPECT_EQ(step.outs[kLayers - 1], right);
}

TEST_F(GpuTrim, LeavesWhatGraphsUseAlsoWhileTheyAreCaptured) {
  const std::vector<float> right = expected();
  Step step;
  const EngineStream engine, outside;
  step.attend(outside.stream.get());  // leaves a piece that may go
  trim(step.storage.get());
  const uint64_t least = in_use();
  step.a.run.flags = KVC_LAUNCH_ON_DEVICE;
  step.a.run.total_queries = kRequests, step.a.run.max_queries = 1, step.a.run.max_kv_len = 32;
  control()->begin_capture(engine.handle);
  step.attend(engine.stream.get());
  EXPECT_EQ(trim(step.storage.get()).on_device, 0u) << "of a capture";
  step.attend(engine.stream.get());
  void* graph = control()->end_capture(engine.handle);
  ASSERT_NE(graph, nullptr) << "the capture goes on";
  const uint64_t captured = in_use() - least;
  EXPECT_GT(captured, 0u);

  control()->begin_capture(engine.handle);  // another capture, and pieces of work outside of it
  Step second;
  second.attend(outside.stream.get());
  EXPECT_GT(trim(second.storage.get()).on_device, 0u);
  EXPECT_EQ(trim(step.storage.get()).on_device, 0u) << "of a graph";
  void* empty = control()->end_capture(engine.handle);
  EXPECT_NE(empty, nullptr) << "the capture goes on";

  for (int time = 0; time < 2; ++time) {
    step.clear();
    control()->launch_graph(graph, engine.handle);
    synchronize(engine);
    for (size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(step.outs[kLayers - 1][i], right[i], 1e-5) << i;
    EXPECT_EQ(trim(step.storage.get()).on_device, 0u);
  }
  control()->destroy_graph(empty);
  control()->destroy_graph(graph);
}

TEST_F(GpuTrim, BesideCallsOfOtherThreads) {
  const std::vector<float> right = expected();
  Step shared;
  std::atomic<int> running = 2, wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      const EngineStream engine;
      std::vector<float> out(right.size());
      AttentionCall own = shared.a;
      own.out = out.data(), own.layer = kLayers - 1;
      for (int time = 0; time < 10; ++time) {
        std::fill(out.begin(), out.end(), -99.0f);
        if (kvc_storage_attend(shared.storage.get(), &own, engine.stream.get()) != KVC_OK ||
            kvc_stream_synchronize(engine.stream.get()) != KVC_OK || out != right)
          ++wrong;
      }
      --running;
    });
  }
  while (running != 0) trim(shared.storage.get());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Trim, GivesBackScratchMemoryOfTheCpu) {
  Step step("cpu");
  step.store_rows();
  EXPECT_EQ(trim(step.storage.get()).on_host, 0u) << "no attention yet";
  step.attend(nullptr);
  const std::vector<float> right = step.outs[kLayers - 1];
  const Freed freed = trim(step.storage.get());
  EXPECT_EQ(freed.on_device, 0u);
  EXPECT_GT(freed.on_host, 0u);
  EXPECT_EQ(trim(step.storage.get()).on_host, 0u) << "twice";
  step.clear();
  step.attend(nullptr);
  EXPECT_EQ(step.outs[kLayers - 1], right);
  EXPECT_EQ(kvc_storage_trim(step.storage.get(), nullptr, nullptr), KVC_OK);
  EXPECT_EQ(kvc_storage_trim(nullptr, nullptr, nullptr), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Workspace, ItsSizesLoseLittle) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(12, 30);
  uint64_t asked = 0, given = 0;
  for (int i = 0; i < 100000; ++i) {
    const auto bytes = static_cast<uint64_t>(std::exp2(exponent(random)));
    const uint64_t piece = gpu::size_class(bytes);
    ASSERT_GE(piece, bytes);
    ASSERT_LE((piece - bytes) * 5, piece) << bytes << ": more than a fifth is lost";
    ASSERT_EQ(gpu::size_class(piece), piece) << "a piece fits its own class";
    asked += bytes, given += piece;
  }
  const double lost = 1 - static_cast<double>(asked) / static_cast<double>(given);
  std::printf("100000 random sizes from 4 KiB to 1 GiB: %.1f %% of workspace is unused\n", 100 * lost);
  EXPECT_LT(lost, 0.25);
}

}  // namespace
}  // namespace kvc::test
