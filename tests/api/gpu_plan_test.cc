// SPDX-License-Identifier: Apache-2.0
// kvc_attention_launch.plan on emulated devices: the first layer of a step works it out, the others use it,
// in graphs too; what is refused, and what memory that is no plan does.
#include <cstring>

#include "api/device_step.h"
#include "attention_call.h"

namespace kvc::test {
namespace {

class GpuPlan : public OnEmulatedDevices {
 protected:
  static uint64_t launches() { return control()->num_occasions(Failure::kLaunch); }
};

TEST_F(GpuPlan, OfTheFirstLayerGivesTheBitsOfTheOthers) {
  for (const uint64_t shared : {uint64_t{0}, uint64_t{kBlock}}) {
    for (const uint32_t flags : {0u, uint32_t{KVC_LAUNCH_INVARIANT}, uint32_t{KVC_LAUNCH_ON_DEVICE}}) {
      Step own, step;
      for (Step* each : {&own, &step}) {
        each->a.shared_tokens = shared, each->a.run.flags = flags;
        each->a.run.total_queries = (flags & KVC_LAUNCH_ON_DEVICE) != 0 ? kRequests : 0;
      }
      const uint64_t before = launches();
      own.attend(nullptr);
      const uint64_t of_own = launches() - before;
      step.give_memory();
      EXPECT_LT(step.plan().scratch_bytes, own.plan().scratch_bytes);
      step.attend(nullptr);
      // A prefix that is read once makes two plans.
      const uint64_t saved = shared != 0 && flags != KVC_LAUNCH_INVARIANT ? 2 : 1;
      EXPECT_EQ(launches() - before - of_own, of_own - saved * (kLayers - 1));
      for (uint32_t layer = 0; layer < kLayers; ++layer)
        EXPECT_EQ(step.outs[layer], own.outs[layer]) << layer;
      EXPECT_NE(own.outs[0], own.outs[1]);
    }
  }
}

// The first layer's call is in the graph, so that each replay makes a plan for its own lengths.
TEST_F(GpuPlan, IsMadeAnewByEachReplay) {
  Step own, step;
  step.a.run.flags = KVC_LAUNCH_ON_DEVICE, step.a.run.total_queries = kRequests, step.a.run.max_queries = 1;
  own.a.run.flags = step.a.run.flags, own.a.run.total_queries = kRequests, own.a.run.max_queries = 1;
  step.give_memory();
  const EngineStream engine;
  control()->begin_capture(engine.handle);
  step.attend(engine.stream.get());
  void* graph = control()->end_capture(engine.handle);
  ASSERT_NE(graph, nullptr) << "something in it cannot be captured";
  for (uint64_t round = 0; round < 8; ++round) {
    for (size_t r = 0; r < kRequests; ++r) step.lens[r] = own.lens[r] = (round * 11 + r * 7) % 32 + 1;
    std::swap(step.tables[1], step.tables[3]), std::swap(own.tables[1], own.tables[3]);
    step.clear();
    own.attend(nullptr);
    control()->launch_graph(graph, engine.handle);
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
    for (uint32_t layer = 0; layer < kLayers; ++layer) EXPECT_EQ(step.outs[layer], own.outs[layer]) << round;
  }
  control()->destroy_graph(graph);
}

TEST_F(GpuPlan, OfTheLargestStepIsEnoughForAll) {
  Step step;
  step.a.run.flags = KVC_LAUNCH_ON_DEVICE;
  uint64_t most = 0;
  for (const uint64_t queries : {uint64_t{kRequests}, uint64_t{40}, uint64_t{3000}}) {
    step.a.run.total_queries = step.a.run.max_queries = queries;
    EXPECT_GE(step.plan().plan_bytes, most);
    most = step.plan().plan_bytes;
  }
  step.a.num_requests = 1;
  EXPECT_LE(step.plan().plan_bytes, most);
  step.a.num_requests = 0;
  EXPECT_EQ(step.plan().plan_bytes, 0u);
}

TEST_F(GpuPlan, MemoryThatIsNoPlanGivesNaNAndOtherLengthsToo) {
  Step step;
  step.give_memory();
  step.a.run.flags = KVC_LAUNCH_PLANNED, step.a.out = step.outs[0].data();
  const auto expect_nan = [&] {
    step.clear();
    ASSERT_EQ(kvc_storage_attend(step.storage.get(), &step.a, nullptr), KVC_OK) << kvc_last_error();
    for (const float x : step.outs[0]) ASSERT_TRUE(std::isnan(x));
  };
  expect_nan();
  step.a.run.flags = 0;
  ASSERT_EQ(kvc_storage_attend(step.storage.get(), &step.a, nullptr), KVC_OK) << kvc_last_error();
  step.a.run.flags = KVC_LAUNCH_PLANNED;
  step.a.window = 100;  // of layers of another kind, even where it hides nothing yet
  expect_nan();
  step.a.window = 0, step.a.num_requests = 2;
  step.clear();
  ASSERT_EQ(kvc_storage_attend(step.storage.get(), &step.a, nullptr), KVC_OK) << kvc_last_error();
  const size_t known = step.outs[0].size() / kRequests * 2;
  for (size_t i = 0; i < step.outs[0].size(); ++i) ASSERT_EQ(std::isnan(step.outs[0][i]), i < known) << i;
}

TEST_F(GpuPlan, WhatCannotHoldOneIsRefused) {
  Step step("emulated:1");  // a device that reads no ordinary memory
  DeviceMemory q("emulated:1", step.q.size() * sizeof(float)),
      out("emulated:1", step.q.size() * sizeof(float));
  step.a.q = q.data, step.a.out = out.data;
  const uint64_t needed = step.plan().plan_bytes;
  ASSERT_GT(needed, 0u);
  DeviceMemory memory("emulated:1", needed + 16);
  const uint64_t before = launches();
  const auto expect_refused = [&](const std::string& text) {
    EXPECT_EQ(kvc_storage_attend(step.storage.get(), &step.a, nullptr), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(says(text)) << kvc_last_error();
  };
  step.a.run.flags = KVC_LAUNCH_PLANNED;
  expect_refused("KVC_LAUNCH_PLANNED without kvc_attention_launch.plan");
  step.a.run.plan = memory.data, step.a.run.plan_bytes = needed - 1;
  expect_refused("plan_bytes is " + std::to_string(needed - 1) + "; this call needs " +
                 std::to_string(needed));
  step.a.run.plan = static_cast<char*>(memory.data) + 8, step.a.run.plan_bytes = needed;
  expect_refused("a multiple of 16");
  alignas(16) static char host[1 << 16];
  ASSERT_LE(needed, sizeof host);
  step.a.run.plan = host;
  expect_refused("kvc_attention_launch.plan is in host memory");
  step.a.run.plan = memory.data, step.a.out = static_cast<char*>(out.data) + 2;
  expect_refused("with kvc_attention_launch.plan a multiple of 4");
  EXPECT_EQ(launches(), before) << "nothing was enqueued";
  step.a.out = out.data, step.a.run.flags = 0;
  EXPECT_EQ(kvc_storage_attend(step.storage.get(), &step.a, nullptr), KVC_OK) << kvc_last_error();
}

TEST(CpuPlan, IsTakenAndNotLookedAt) {
  const StoragePtr storage = make(small_config("cpu"));
  ASSERT_EQ(store(storage.get(), 0, 3), KVC_OK);
  const std::vector<float> q(2 * kHeads * kDim, 1);
  std::vector<float> out(q.size());
  const uint64_t offsets[] = {0, 1}, lens[] = {1};
  const int32_t table[] = {0};
  AttentionCall a;
  a.q = q.data(), a.out = out.data(), a.q_offsets = offsets, a.kv_lens = lens, a.block_tables = table;
  a.table_stride = a.num_requests = 1, a.num_q_heads = 2 * kHeads;
  kvc_attention_info plan = {};
  plan.struct_size = sizeof plan;
  ASSERT_EQ(kvc_storage_explain(storage.get(), &a, &plan), KVC_OK);
  EXPECT_EQ(plan.plan_bytes, 0u);
  char* const nowhere = nullptr;
  for (char* const given : {nowhere, nowhere + 1}) {
    a.run.plan = given, a.run.flags = KVC_LAUNCH_PLANNED;
    std::fill(out.begin(), out.end(), 0.0f);
    ASSERT_EQ(kvc_storage_attend(storage.get(), &a, nullptr), KVC_OK) << kvc_last_error();
    for (const float x : out) EXPECT_EQ(x, -3.0f);
  }
}

}  // namespace
}  // namespace kvc::test
