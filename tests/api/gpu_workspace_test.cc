// SPDX-License-Identifier: Apache-2.0
// kvc_attention_launch.workspace on emulated devices: graphs that the caller gives memory take none of the
// library's, and what replays bring beyond the limits of a capture gives NaN.
#include <cmath>
#include <cstring>
#include <functional>

#include "api/device_step.h"

namespace kvc::test {
namespace {

class GpuWorkspace : public OnEmulatedDevices {
 protected:
  static void on_device(Step& step) {
    step.a.run.flags = KVC_LAUNCH_ON_DEVICE;
    step.a.run.total_queries = kRequests, step.a.run.max_queries = 1, step.a.run.max_kv_len = 32;
  }
  static void* capture(const EngineStream& engine, const std::function<void()>& calls) {
    control()->begin_capture(engine.handle);
    calls();
    return control()->end_capture(engine.handle);
  }
  static void replay(void* graph, const EngineStream& engine) {
    control()->launch_graph(graph, engine.handle);
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK) << kvc_last_error();
  }
  static kvc_status attend(Step& step, std::vector<float>& out, kvc_stream* stream = nullptr) {
    step.a.out = out.data();
    return kvc_storage_attend(step.storage.get(), &step.a, stream);
  }
};

TEST_F(GpuWorkspace, ManyGraphsTakeNoMemoryBeyondTheCallers) {
  for (const uint64_t shared : {uint64_t{0}, uint64_t{kBlock}}) {
    Step step, own;
    own.a.shared_tokens = step.a.shared_tokens = shared;
    std::vector<float> expected(step.q.size());
    ASSERT_EQ(attend(own, expected), KVC_OK) << kvc_last_error();
    on_device(step);
    const kvc_attention_info plan = step.plan();
    EXPECT_EQ(plan.shared_tokens, shared);
    ASSERT_GT(plan.workspace_bytes, 0u);
    const DeviceMemory workspace("emulated", plan.workspace_bytes);
    step.a.run.workspace = workspace.data, step.a.run.workspace_bytes = plan.workspace_bytes;
    const EngineStream engine;
    const uint64_t before = control()->bytes_in_use(0);
    std::vector<void*> graphs;
    for (int i = 0; i < 64; ++i) graphs.push_back(capture(engine, [&] { step.attend(engine.stream.get()); }));
    EXPECT_EQ(control()->bytes_in_use(0), before);
    for (size_t g = 0; g < graphs.size(); ++g) {
      ASSERT_NE(graphs[g], nullptr);
      if (g % 16 == 0) {
        step.clear();
        replay(graphs[g], engine);
        for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(step.outs[0][i], expected[i], 1e-5) << i;
      }
      control()->destroy_graph(graphs[g]);
    }
    EXPECT_EQ(control()->bytes_in_use(0), before);
  }
}

// The plan's bytes are those of the call, whatever arrays come from the host.
TEST_F(GpuWorkspace, HoldsHostArraysAndTheCallsOwnPlan) {
  const EngineStream engine;
  for (const bool planned : {false, true}) {
    Step step;
    std::vector<float> expected(step.q.size()), out(step.q.size());
    ASSERT_EQ(attend(step, expected), KVC_OK) << kvc_last_error();
    if (planned) step.give_memory();
    const uint64_t needed = step.plan().workspace_bytes;
    const DeviceMemory workspace("emulated", needed);
    step.a.run.workspace = workspace.data, step.a.run.workspace_bytes = needed;
    const uint64_t before = control()->bytes_in_use(0);
    ASSERT_EQ(attend(step, out, engine.stream.get()), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
    EXPECT_EQ(control()->bytes_in_use(0), before);
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof out[0]), 0);
  }
}

TEST_F(GpuWorkspace, ServesTheChoiceOfBlocksToo) {
  Step step;
  on_device(step);
  const kvc_attention_info plan = step.plan();
  ASSERT_GT(plan.selection_bytes, 0u);
  const DeviceMemory workspace("emulated", plan.selection_bytes);
  step.a.run.workspace = workspace.data, step.a.run.workspace_bytes = plan.selection_bytes;
  std::vector<uint16_t> bounds(size_t{kBlocks} * kHeads * 2 * kDim);
  std::vector<uint8_t> mask(kRequests * kHeads);
  int32_t blocks[kBlocks];
  for (uint32_t i = 0; i < kBlocks; ++i) blocks[i] = static_cast<int32_t>(i);
  ASSERT_EQ(kvc_storage_key_bounds(step.storage.get(), 0, blocks, kBlocks, bounds.data(), nullptr), KVC_OK);
  kvc_block_choice choice = {};
  choice.struct_size = sizeof choice;
  choice.bounds = bounds.data(), choice.top_k = 1, choice.block_mask = mask.data(),
  choice.block_mask_stride = 1;
  const EngineStream engine;
  const uint64_t before = control()->bytes_in_use(0);
  void* graph = capture(engine, [&] {
    EXPECT_EQ(kvc_storage_select_blocks(step.storage.get(), &step.a, &choice, engine.stream.get()), KVC_OK)
        << kvc_last_error();
  });
  ASSERT_NE(graph, nullptr);
  replay(graph, engine);
  EXPECT_EQ(control()->bytes_in_use(0), before);
  EXPECT_EQ(mask, std::vector<uint8_t>(mask.size(), 2)) << "the newest block";
  control()->destroy_graph(graph);
  --step.a.run.workspace_bytes;
  EXPECT_EQ(kvc_storage_select_blocks(step.storage.get(), &step.a, &choice, nullptr),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("selection_bytes")) << kvc_last_error();
}

TEST_F(GpuWorkspace, IsRefusedIfItDoesNotServe) {
  Step step;
  std::vector<float> out(step.q.size(), -99.0f);
  const uint64_t needed = step.plan().workspace_bytes;
  DeviceMemory memory("emulated", needed + 256);
  const auto refuses = [&](void* workspace, uint64_t bytes, const std::string& part) {
    step.a.run.workspace = workspace, step.a.run.workspace_bytes = bytes;
    EXPECT_EQ(attend(step, out), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(says(part)) << kvc_last_error();
    EXPECT_EQ(out[0], -99.0f);
  };
  refuses(memory.data, needed - 1, std::to_string(needed));
  refuses(memory.as<char>() + 16, needed, "a multiple of 256");
  refuses(nullptr, needed, "give both or neither");
  Step of_other_device("emulated:1");
  std::vector<char> host(needed + 256);
  of_other_device.a.run.workspace =
      reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(host.data()) + 255) / 256 * 256);
  of_other_device.a.run.workspace_bytes = needed;
  EXPECT_EQ(attend(of_other_device, out), KVC_ERROR_INVALID_ARGUMENT)
      << "host memory that the device cannot read";
}

// What is worked out of limits beyond all memory would not be a number of bytes.
TEST_F(GpuWorkspace, OfLimitsBeyondAllMemoryIsRefused) {
  Step step;
  on_device(step);
  step.a.run.flags |= KVC_LAUNCH_INVARIANT;
  step.a.num_requests = UINT32_MAX, step.a.run.total_queries = INT32_MAX, step.a.run.max_queries = INT32_MAX;
  kvc_attention_info plan = {};
  plan.struct_size = sizeof plan;
  EXPECT_EQ(kvc_storage_explain(step.storage.get(), &step.a, &plan), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("4294967295 requests")) << kvc_last_error();
}

TEST_F(GpuWorkspace, ReplaysBeyondTheLimitsGiveNaN) {
  for (const uint64_t shared : {uint64_t{0}, uint64_t{kBlock}}) {
    Step step;
    on_device(step);
    step.a.shared_tokens = shared;
    std::vector<float> lse(kRequests * 2 * kHeads);
    step.a.lse = lse.data();
    const EngineStream engine;
    void* graph = capture(engine, [&] { step.attend(engine.stream.get()); });
    ASSERT_NE(graph, nullptr);
    replay(graph, engine);
    const std::vector<float> right = step.outs[0];
    const size_t of_query = right.size() / kRequests;
    for (const uint64_t length : {uint64_t{33}, uint64_t{1} << 31, ~uint64_t{0}}) {
      for (size_t r = 0; r < kRequests; ++r) {
        const uint64_t before = std::exchange(step.lens[r], length);
        step.clear();
        replay(graph, engine);
        for (size_t i = 0; i < right.size(); ++i) {
          if (i / of_query == r) {
            ASSERT_TRUE(std::isnan(step.outs[0][i])) << length << ", request " << r << ", " << i;
          } else {
            ASSERT_NEAR(step.outs[0][i], right[i], 1e-5) << length << ", request " << r << ", " << i;
          }
        }
        for (size_t i = 0; i < lse.size(); ++i) EXPECT_EQ(std::isnan(lse[i]), i / (2 * kHeads) == r);
        step.lens[r] = before;
      }
    }
    control()->destroy_graph(graph);
  }
}

}  // namespace
}  // namespace kvc::test
