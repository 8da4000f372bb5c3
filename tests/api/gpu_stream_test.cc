// SPDX-License-Identifier: Apache-2.0
// Streams of an engine on emulated devices: nothing waits, the current device stays, graphs replay.
#include "api/emulated.h"
#include "attention_call.h"

namespace kvc::test {
namespace {

class GpuStream : public OnEmulatedDevices {};

AttentionCall decode(const float* q, float* out, const uint64_t* offsets, const uint64_t* lens,
                     const int32_t* tables, size_t stride, size_t requests) {
  AttentionCall a;
  a.q = q, a.out = out, a.q_offsets = offsets, a.kv_lens = lens, a.block_tables = tables,
  a.table_stride = stride;
  a.num_requests = requests, a.num_q_heads = 2 * kHeads;
  return a;
}

TEST_F(GpuStream, ADefaultStreamIsAskedForByName) {
  kvc_stream* stream = nullptr;
  EXPECT_EQ(kvc_stream_adopt("emulated", nullptr, 0, &stream), KVC_ERROR_INVALID_ARGUMENT);
  int other;
  EXPECT_EQ(kvc_stream_adopt("emulated", &other, KVC_STREAM_LEGACY, &stream), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_stream_adopt("emulated", nullptr, 2, &stream), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(kvc_stream_adopt("cpu", &other, 0, &stream), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(stream, nullptr);
  ASSERT_EQ(kvc_stream_adopt("emulated", nullptr, KVC_STREAM_LEGACY, &stream), KVC_OK) << kvc_last_error();
  const StreamPtr owner(stream);
  const StoragePtr s = make(small_config("emulated"));
  ASSERT_EQ(store(s.get(), 3, 7, stream), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_stream_synchronize(stream), KVC_OK);
  EXPECT_EQ(key_at(s.get(), 3), 7.0f);
}

TEST_F(GpuStream, AHandleComesBackAndTheCpuHasNone) {
  const EngineStream engine;
  void* handle = nullptr;
  ASSERT_EQ(kvc_stream_handle(engine.stream.get(), &handle), KVC_OK);
  EXPECT_EQ(handle, engine.handle);
  kvc_stream* cpu = nullptr;
  ASSERT_EQ(kvc_stream_create("cpu", &cpu), KVC_OK);
  const StreamPtr owner(cpu);
  EXPECT_EQ(kvc_stream_handle(cpu, &handle), KVC_ERROR_UNSUPPORTED);
}

TEST_F(GpuStream, OfAnotherDeviceIsRefused) {
  const StoragePtr s = make(small_config("emulated:0"));
  const EngineStream other("emulated:1", 1);
  kvc_stream* cpu = nullptr;
  ASSERT_EQ(kvc_stream_create("cpu", &cpu), KVC_OK);
  const StreamPtr owner(cpu);
  for (kvc_stream* stream : {other.stream.get(), cpu}) {
    EXPECT_EQ(store(s.get(), 1, 1, stream), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(says("emulated:0")) << kvc_last_error();
  }
  kvc_stream_event* event = nullptr;
  ASSERT_EQ(kvc_stream_event_create("emulated:0", &event), KVC_OK);
  EXPECT_EQ(kvc_stream_event_record(event, cpu), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_stream_wait_event(other.stream.get(), event), KVC_ERROR_INVALID_ARGUMENT);
  kvc_stream_event_destroy(event);
}

TEST_F(GpuStream, CallsEnqueueAndNeverWait) {
  const StoragePtr s = make(small_config("emulated"));
  const EngineStream engine;
  const std::vector<float> q(2 * kHeads * kDim, 1);
  std::vector<float> out(q.size());
  const uint64_t offsets[] = {0, 1}, lens[] = {5};
  const int32_t table[] = {2};
  const AttentionCall a = decode(q.data(), out.data(), offsets, lens, table, 1, 1);
  std::vector<kvc_block_copy> copies(kBlocks - 2);
  for (size_t i = 0; i < copies.size(); ++i)
    copies[i] = {static_cast<int32_t>(i), static_cast<int32_t>(i + 1)};
  const int32_t zeroed[] = {0};
  std::vector<int64_t> many(kBlocks * kBlock);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i);
  ValueRows all(many.size(), 3);
  all.rows.slots = many.data();
  ASSERT_EQ(store(s.get(), 0, 1, engine.stream.get()), KVC_OK);

  control()->hold(engine.handle);
  const uint64_t before = control()->num_synchronized();
  EXPECT_EQ(kvc_storage_store(s.get(), &all.rows, engine.stream.get()), KVC_OK);
  EXPECT_EQ(store(s.get(), 1, 5, engine.stream.get()), KVC_OK);
  EXPECT_EQ(kvc_storage_copy_blocks(s.get(), copies.data(), copies.size(), engine.stream.get()), KVC_OK);
  EXPECT_EQ(kvc_storage_zero_blocks(s.get(), zeroed, 1, engine.stream.get()), KVC_OK);
  EXPECT_EQ(kvc_storage_attend(s.get(), &a, engine.stream.get()), KVC_OK) << kvc_last_error();
  EXPECT_EQ(control()->num_synchronized(), before);
  control()->let_go(engine.handle);

  ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
  EXPECT_EQ(key_at(s.get(), 1), 0.0f) << "cleared last";
  EXPECT_EQ(key_at(s.get(), kBlock * (kBlocks - 2) + 1), 5.0f) << "copies follow each other";
  EXPECT_NE(out[0], 0.0f);
}

TEST_F(GpuStream, TheCurrentDeviceIsTheCallersAfterEachCall) {
  const StoragePtr s = make(small_config("emulated:1"));
  const EngineStream engine("emulated:1", 1);
  EXPECT_EQ(control()->current_device(), 0u);
  DeviceMemory rows("emulated:1", kHeads * kDim * sizeof(float));
  EXPECT_EQ(control()->current_device(), 0u);
  kvc_rows r = {};
  r.struct_size = sizeof r;
  r.k = r.v = rows.data, r.num_tokens = 1;
  const int64_t slot = 4;
  r.slots = &slot;
  for (kvc_stream* stream : {static_cast<kvc_stream*>(nullptr), engine.stream.get()}) {
    ASSERT_EQ(kvc_storage_store(s.get(), &r, stream), KVC_OK) << kvc_last_error();
    EXPECT_EQ(control()->current_device(), 0u);
  }
  ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
  r.k = nullptr;
  EXPECT_NE(kvc_storage_store(s.get(), &r, nullptr), KVC_OK);
  EXPECT_EQ(control()->current_device(), 0u);
}

// The lengths of a replay are its own; how much is shared is the capture's.
TEST_F(GpuStream, AttentionOverASharedPrefixReplaysFromAGraph) {
  const StoragePtr s = make(small_config("emulated")), plain = make(small_config("cpu"));
  std::vector<int64_t> slots(kBlocks * kBlock);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  ValueRows rows(slots.size());
  for (size_t i = 0; i < rows.k.size(); ++i) {
    rows.k[i] = static_cast<float>(i * 7 % 19) / 4 - 2;
    rows.v[i] = static_cast<float>(i * 5 % 23) / 4 - 2;
  }
  rows.rows.slots = slots.data();
  for (kvc_storage* each : {s.get(), plain.get()})
    ASSERT_EQ(kvc_storage_store(each, &rows.rows, nullptr), KVC_OK) << kvc_last_error();
  const EngineStream engine;
  constexpr size_t kRequests = 3, kStride = 3;
  std::vector<float> q(kRequests * 2 * kHeads * kDim), out(q.size()), expected(q.size());
  for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 13) / 8;
  const uint64_t offsets[] = {0, 1, 2, 3};
  uint64_t lens[] = {17, 20, 33};
  int32_t tables[] = {4, 1, 5, 4, 2, 5, 4, 3, 0};
  AttentionCall a = decode(q.data(), out.data(), offsets, lens, tables, kStride, kRequests);
  a.run.flags = KVC_LAUNCH_ON_DEVICE, a.run.total_queries = kRequests, a.run.max_queries = 1;
  a.shared_tokens = kStride * kBlock + 1;
  EXPECT_EQ(kvc_storage_attend(s.get(), &a, engine.stream.get()), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("shared_tokens")) << kvc_last_error();
  a.shared_tokens = kBlock;
  control()->begin_capture(engine.handle);
  ASSERT_EQ(kvc_storage_attend(s.get(), &a, engine.stream.get()), KVC_OK) << kvc_last_error();
  void* graph = control()->end_capture(engine.handle);
  ASSERT_NE(graph, nullptr) << "something in it cannot be captured";
  for (int step = 0; step < 12; ++step) {
    for (uint64_t& len : lens) ++len;
    std::swap(tables[1], tables[4]);
    AttentionCall wanted = decode(q.data(), expected.data(), offsets, lens, tables, kStride, kRequests);
    ASSERT_EQ(kvc_storage_attend(plain.get(), &wanted, nullptr), KVC_OK) << kvc_last_error();
    control()->launch_graph(graph, engine.handle);
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(out[i], expected[i], 1e-4) << "step " << step << ", " << i;
  }
  control()->destroy_graph(graph);
}

TEST_F(GpuStream, HostArraysOfACapturedCallAreTheGraphs) {
  const StoragePtr s = make(small_config("emulated"));
  const EngineStream engine;
  ValueRows rows(1, 9);
  std::vector<int64_t> slots = {11};
  rows.rows.slots = slots.data();
  control()->begin_capture(engine.handle);
  ASSERT_EQ(kvc_storage_store(s.get(), &rows.rows, engine.stream.get()), KVC_OK) << kvc_last_error();
  slots[0] = INT64_MAX;
  void* graph = control()->end_capture(engine.handle);
  ASSERT_NE(graph, nullptr);
  for (const float value : {1.0f, 2.0f}) {
    for (int64_t slot = 20; slot < 30; ++slot)  // what other calls use in between is not the graph's
      ASSERT_EQ(store(s.get(), slot, value, engine.stream.get()), KVC_OK);
    std::fill(rows.k.begin(), rows.k.end(), value), std::fill(rows.v.begin(), rows.v.end(), -value);
    control()->launch_graph(graph, engine.handle);
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
    EXPECT_EQ(key_at(s.get(), 11), value);
    EXPECT_EQ(key_at(s.get(), 29), value);
  }
  control()->destroy_graph(graph);
}

// Rows of the table and slots are the capture's, or with KVC_ROWS_ON_DEVICE what lies there at each replay;
// then nothing is looked up for a token that is skipped.
TEST_F(GpuStream, KeysRotateInAGraph) {
  const StoragePtr s = make(small_config("emulated"));
  const EngineStream engine;
  std::vector<float> table(3 * kDim);  // the cosines of row r are r
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = i % kDim < kDim / 2 ? static_cast<float>(i / kDim) : 0.0f;
  const auto key = [&](int64_t slot) {
    ValueRows one(1);
    one.rows.slots = &slot;
    EXPECT_EQ(kvc_storage_gather(s.get(), &one.rows, nullptr), KVC_OK) << kvc_last_error();
    return one.k[0];
  };
  for (const uint32_t on_device : {0u, uint32_t{KVC_ROWS_ON_DEVICE}}) {
    std::vector<int64_t> slots = {11, 12, -1}, rope_rows = {1, 2, on_device != 0 ? INT64_MIN : 0};
    ValueRows rows(slots.size(), 5);
    rows.rows.slots = slots.data(), rows.rows.rope_rows = rope_rows.data();
    rows.rows.rope_table = table.data(), rows.rows.rope_table_rows = 3, rows.rows.flags = on_device;
    control()->begin_capture(engine.handle);
    ASSERT_EQ(kvc_storage_store(s.get(), &rows.rows, engine.stream.get()), KVC_OK) << kvc_last_error();
    void* graph = control()->end_capture(engine.handle);
    ASSERT_NE(graph, nullptr);
    slots = {12, -1, 11}, rope_rows = {2, INT64_MIN, 2};
    control()->launch_graph(graph, engine.handle);
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
    EXPECT_EQ(key(11), on_device != 0 ? 10.0f : 5.0f);
    EXPECT_EQ(key(12), 10.0f);
    for (const int64_t outside : {INT64_MIN, int64_t{-1}, int64_t{3}, INT64_MAX}) {
      rope_rows[0] = outside;
      control()->launch_graph(graph, engine.handle);
      ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
      const float rotated = key(12);
      EXPECT_TRUE(rotated == 0 || rotated == 5 || rotated == 10) << rotated;
    }
    control()->destroy_graph(graph);
  }
}

TEST_F(GpuStream, WaitingInACaptureIsTheCallersFaultAndSaysSo) {
  const EngineStream engine;
  control()->begin_capture(engine.handle);
  EXPECT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_ERROR_DEVICE);
  EXPECT_TRUE(says("captured")) << kvc_last_error();
  EXPECT_EQ(control()->end_capture(engine.handle), nullptr);
}

TEST_F(GpuStream, EndedWhileItsWorkspaceIsInUseLeavesItToOthers) {
  const StoragePtr s = make(small_config("emulated"));
  for (int i = 0; i < 20; ++i) {
    const EngineStream engine;
    ASSERT_EQ(store(s.get(), i, static_cast<float>(i), engine.stream.get()), KVC_OK);
  }
  const uint64_t used = control()->bytes_in_use(0);
  for (int i = 20; i < 40; ++i) {
    const EngineStream engine;
    ASSERT_EQ(store(s.get(), i, static_cast<float>(i), engine.stream.get()), KVC_OK);
  }
  EXPECT_EQ(control()->bytes_in_use(0), used) << "streams that are gone have left their workspace";
  for (int i = 0; i < 40; ++i) EXPECT_EQ(key_at(s.get(), i), static_cast<float>(i));
}

}  // namespace
}  // namespace kvc::test
