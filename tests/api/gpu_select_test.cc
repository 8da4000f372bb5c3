// SPDX-License-Identifier: Apache-2.0
// Choosing blocks on emulated devices: it enqueues, replays from graphs, and changes nothing when it fails.
#include "api/emulated.h"
#include "attention_call.h"

namespace kvc::test {
namespace {

constexpr size_t kRequests = 2, kStride = 5, kQHeads = 2 * kHeads;

// A storage on a device and one on the CPU with the same keys, and a decode step over both. Keys are
// multiples of 1/4, and so are queries: bounds are exact.
class GpuSelect : public OnEmulatedDevices {
 protected:
  void SetUp() override {
    OnEmulatedDevices::SetUp();
    if (IsSkipped()) return;
    kvc_storage_config c = small_config("emulated");
    c.num_blocks = 2 * kStride;
    device_ = make(c);
    c.device = "cpu";
    cpu_ = make(c);
    std::vector<int64_t> slots(c.num_blocks * kBlock);
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
    ValueRows rows(slots.size());
    for (size_t i = 0; i < rows.k.size(); ++i) {
      rows.k[i] = static_cast<float>(i * i % 31) / 4 - 4;
      rows.v[i] = static_cast<float>(i * 5 % 23) / 4 - 2;
    }
    rows.rows.slots = slots.data();
    for (kvc_storage* each : {device_.get(), cpu_.get()})
      ASSERT_EQ(kvc_storage_store(each, &rows.rows, nullptr), KVC_OK) << kvc_last_error();
    for (size_t i = 0; i < q_.size(); ++i) q_[i] = static_cast<float>(i * 7 % 13) / 4 - 1;
    attention_.q = q_.data(), attention_.q_offsets = offsets_, attention_.kv_lens = lens_;
    attention_.block_tables = tables_, attention_.table_stride = kStride;
    attention_.num_requests = kRequests, attention_.num_q_heads = kQHeads;
    attention_.block_mask_stride = 1;
    choice_.struct_size = sizeof choice_;
    choice_.top_k = 3, choice_.block_mask_stride = 1;
  }

  struct Result {
    std::vector<uint16_t> bounds = std::vector<uint16_t>(2 * kStride * kHeads * 2 * kDim);
    std::vector<uint8_t> mask = std::vector<uint8_t>(kRequests * kHeads, 0xA5);
    std::vector<float> out = std::vector<float>(kRequests * kQHeads * kDim);
  };

  // Bounds, choice and attention.
  void step(kvc_storage* storage, uint32_t flags, Result& result, kvc_stream* stream) {
    ASSERT_EQ(kvc_storage_key_bounds(storage, 0, tables_, kRequests * kStride, result.bounds.data(), stream),
              KVC_OK)
        << kvc_last_error();
    AttentionCall a = attention_;
    a.out = result.out.data(), a.run.flags = flags;
    if (flags != 0) a.run.total_queries = kRequests, a.run.max_queries = 1;
    kvc_block_choice choice = choice_;
    choice.bounds = result.bounds.data(), choice.block_mask = result.mask.data();
    ASSERT_EQ(kvc_storage_select_blocks(storage, &a, &choice, stream), KVC_OK) << kvc_last_error();
    a.block_mask = result.mask.data();
    ASSERT_EQ(kvc_storage_attend(storage, &a, stream), KVC_OK) << kvc_last_error();
  }
  void expect_as_on_the_cpu(const Result& result) {
    Result expected;
    ASSERT_NO_FATAL_FAILURE(step(cpu_.get(), 0, expected, nullptr));
    EXPECT_EQ(result.bounds, expected.bounds);
    EXPECT_EQ(result.mask, expected.mask);
    for (size_t i = 0; i < result.out.size(); ++i) ASSERT_NEAR(result.out[i], expected.out[i], 1e-4) << i;
  }

  void replay();

  StoragePtr device_, cpu_;
  std::vector<float> q_ = std::vector<float>(kRequests * kQHeads * kDim);
  const uint64_t offsets_[kRequests + 1] = {0, 1, 2};
  uint64_t lens_[kRequests] = {70, 66};
  int32_t tables_[kRequests * kStride] = {4, 1, 5, 9, 2, 8, 3, 0, 6, 7};
  AttentionCall attention_;
  kvc_block_choice choice_ = {};
};

TEST_F(GpuSelect, EnqueuesAndNeverWaits) {
  const EngineStream engine;
  Result warm, result;
  ASSERT_NO_FATAL_FAILURE(step(device_.get(), 0, warm, engine.stream.get()));
  control()->hold(engine.handle);
  const uint64_t before = control()->num_synchronized();
  ASSERT_NO_FATAL_FAILURE(step(device_.get(), 0, result, engine.stream.get()));
  EXPECT_EQ(control()->num_synchronized(), before);
  EXPECT_EQ(result.mask, Result().mask) << "nothing has run yet";
  control()->let_go(engine.handle);
  ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
  expect_as_on_the_cpu(result);
}

TEST_F(GpuSelect, PicksByRatioAndThresholdAsTheCpu) {
  const EngineStream engine;
  Result by_number;
  ASSERT_NO_FATAL_FAILURE(step(cpu_.get(), 0, by_number, nullptr));
  choice_.top_k = 0;
  for (const double ratio : {0.3, 0.5, 1.0}) {
    choice_.ratio = ratio;
    Result result;
    ASSERT_NO_FATAL_FAILURE(step(device_.get(), 0, result, engine.stream.get()));
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
    expect_as_on_the_cpu(result);
    EXPECT_EQ(result.mask == by_number.mask, ratio == 0.5) << "3 of 5 blocks";
  }
  choice_.ratio = 0;
  for (const double threshold : {0.25, 2.0, 16.0, double{INFINITY}}) {
    choice_.threshold = threshold;
    Result result;
    ASSERT_NO_FATAL_FAILURE(step(device_.get(), 0, result, engine.stream.get()));
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
    expect_as_on_the_cpu(result);
  }
}

// Lengths and tables of a replay are its own; how many are picked, or how close, is the capture's.
TEST_F(GpuSelect, ReplaysFromAGraph) {
  for (const double threshold : {0.0, 1.5}) {
    choice_.threshold = threshold, choice_.top_k = threshold == 0 ? 3 : 0;
    ASSERT_NO_FATAL_FAILURE(replay());
  }
}

void GpuSelect::replay() {
  const EngineStream engine;
  Result result;
  control()->begin_capture(engine.handle);
  ASSERT_NO_FATAL_FAILURE(step(device_.get(), KVC_LAUNCH_ON_DEVICE, result, engine.stream.get()));
  void* graph = control()->end_capture(engine.handle);
  ASSERT_NE(graph, nullptr) << "something in it cannot be captured";
  for (int i = 0; i < 9; ++i) {
    lens_[0] = 80 - 8 * static_cast<uint64_t>(i), lens_[1] = 8 + 9 * static_cast<uint64_t>(i);
    for (float& x : q_) x = -x;
    control()->launch_graph(graph, engine.handle);
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
    ASSERT_NO_FATAL_FAILURE(expect_as_on_the_cpu(result)) << "replay " << i;
    std::fill(result.mask.begin(), result.mask.end(), uint8_t{0xA5});
  }
  control()->destroy_graph(graph);
}

TEST_F(GpuSelect, RoomForTheLongestRequestIsAskedForWhereLengthsAreOnTheDevice) {
  Result result;
  AttentionCall a = attention_;
  kvc_block_choice choice = choice_;
  choice.bounds = result.bounds.data(), choice.block_mask = result.mask.data();
  a.run.flags = KVC_LAUNCH_ON_DEVICE, a.run.total_queries = kRequests, a.table_stride = 9;
  EXPECT_EQ(kvc_storage_select_blocks(device_.get(), &a, &choice, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("max_kv_len")) << kvc_last_error();
  a.run.max_kv_len = 8 * kBlock + 1;
  EXPECT_EQ(kvc_storage_select_blocks(device_.get(), &a, &choice, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(result.mask, Result().mask);
  a.table_stride = kStride, a.run.max_kv_len = 0;
  EXPECT_EQ(kvc_storage_select_blocks(device_.get(), &a, &choice, nullptr), KVC_OK) << kvc_last_error();
}

// The same of the mask that attention reads, of which the host sees nothing else.
TEST_F(GpuSelect, AMaskWithoutRoomForTheLongestRequestIsNotRead) {
  Result result;
  AttentionCall a = attention_;
  a.run.flags = KVC_LAUNCH_ON_DEVICE, a.run.total_queries = kRequests, a.table_stride = 9;
  a.out = result.out.data(), a.block_mask = result.mask.data();
  const auto refused = [&] {
    kvc_attention_info plan = {};
    plan.struct_size = sizeof plan;
    EXPECT_EQ(kvc_storage_explain(device_.get(), &a, &plan), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(kvc_storage_attend(device_.get(), &a, nullptr), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(says("block_mask_stride is 1") && says("9 blocks") && says("need 2")) << kvc_last_error();
    EXPECT_EQ(result.out, Result().out);
  };
  refused();  // all that table_stride has room for
  a.run.max_kv_len = 8 * kBlock + 1;
  refused();
  a.table_stride = kStride, a.run.max_kv_len = 0;
  EXPECT_EQ(kvc_storage_attend(device_.get(), &a, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_NE(result.out, Result().out);
  a.block_mask = nullptr, a.block_mask_stride = 0;
  EXPECT_EQ(kvc_storage_attend(device_.get(), &a, nullptr), KVC_OK) << kvc_last_error();
}

TEST_F(GpuSelect, HostMemoryIsRefusedByNameWhereTheDeviceCannotReadIt) {
  kvc_storage_config c = small_config("emulated:1");
  c.num_blocks = 2 * kStride;
  const StoragePtr s = make(c);
  Result result;
  DeviceMemory bounds("emulated:1", 2 * result.bounds.size()), q("emulated:1", 4 * q_.size()),
      mask("emulated:1", result.mask.size());
  AttentionCall a = attention_;
  kvc_block_choice choice = choice_;
  const auto refused = [&](const char* name) {
    EXPECT_EQ(kvc_storage_select_blocks(s.get(), &a, &choice, nullptr), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(says(std::string(name) + " is in host memory")) << kvc_last_error();
  };
  choice.bounds = result.bounds.data(), choice.block_mask = mask.as<uint8_t>(), a.q = q.data;
  refused("kvc_block_choice.bounds");
  choice.bounds = bounds.as<uint16_t>(), choice.block_mask = result.mask.data();
  refused("kvc_block_choice.block_mask");
  choice.block_mask = mask.as<uint8_t>(), a.q = q_.data();
  refused("kvc_attention.q");
  a.q = q.data;
  a.alibi_slopes = q_.data(), a.mask = result.mask.data();  // not looked at
  EXPECT_EQ(kvc_storage_select_blocks(s.get(), &a, &choice, nullptr), KVC_OK) << kvc_last_error();
}

TEST_F(GpuSelect, WithoutMemoryOrALaunchNothingChanges) {
  kvc_storage_config c = small_config("emulated");
  c.num_blocks = 2 * kStride;
  const StoragePtr s = make(c);  // whose workspace is not there yet
  Result result;
  kvc_block_choice choice = choice_;
  choice.bounds = result.bounds.data(), choice.block_mask = result.mask.data();
  const auto select = [&] { return kvc_storage_select_blocks(s.get(), &attention_, &choice, nullptr); };
  control()->fail(Failure::kAllocate, 1);
  EXPECT_EQ(select(), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(result.mask, Result().mask);
  const uint64_t before = control()->num_occasions(Failure::kLaunch);
  ASSERT_EQ(select(), KVC_OK) << kvc_last_error();
  const uint64_t launches = control()->num_occasions(Failure::kLaunch) - before;
  EXPECT_GE(launches, 3u);
  std::fill(result.mask.begin(), result.mask.end(), uint8_t{0xA5});
  for (uint64_t n = 1; n <= launches; ++n) {
    control()->fail(Failure::kLaunch, n);
    EXPECT_EQ(select(), KVC_ERROR_DEVICE) << n;
    EXPECT_EQ(result.mask, Result().mask) << n;
  }
  EXPECT_EQ(select(), KVC_OK) << "it is over";
}

}  // namespace
}  // namespace kvc::test
