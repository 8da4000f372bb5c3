// SPDX-License-Identifier: Apache-2.0
// kvc_attention's strides and sink logits on emulated devices: the CPU's results, with arrays of the host and
// with those of the device, also in graphs, and what the kernels make of odd strides.
#include <string>

#include "api/emulated.h"
#include "attention_call.h"

namespace kvc::test {
namespace {

using GpuAttentionRows = OnEmulatedDevices;

constexpr size_t kRequests = 3, kStride = 3, kQHeads = 2 * kHeads;
constexpr uint64_t kMostQueries = 9;  // of all requests

// Requests over a storage of float32, for plain kernels, or of bfloat16, for tensor cores, and over the same
// storage of the CPU. Queries are a part of a fused QKV.
struct Step {
  explicit Step(int32_t type) : dtype(type), dim(type == KVC_FLOAT32 ? 16 : 64) {
    for (auto [storage, device] : {std::pair{&on_device, "emulated"}, std::pair{&on_cpu, "cpu"}}) {
      kvc_storage_config c = small_config(device);
      c.dtype = dtype, c.head_dim = dim;
      *storage = make(c);
      store_rows(storage->get());
    }
    q.resize(static_cast<size_t>(kMostQueries) * q_token() * bytes());
    for (size_t i = 0; i < q.size() / bytes(); ++i) put(q, i, std::sin(static_cast<float>(i)) * 2);
    a.dtype = dtype, a.q = q.data(), a.q_token_stride = static_cast<int64_t>(q_token());
    a.q_offsets = offsets, a.kv_lens = lens, a.block_tables = tables, a.table_stride = kStride;
    a.num_requests = kRequests, a.num_q_heads = kQHeads, a.sink_logits = sinks;
    lay_out(dim, kQHeads * dim + 8);
  }
  uint64_t bytes() const { return dtype == KVC_FLOAT32 ? 4 : 2; }
  uint64_t q_token() const { return (kQHeads + 2 * kHeads) * uint64_t{dim}; }
  // Where results go.
  void lay_out(int64_t head, int64_t token) {
    a.out_head_stride = head, a.out_token_stride = token;
    out.resize(kMostQueries * static_cast<uint64_t>(token > head ? token : head * kQHeads) * bytes());
  }
  void put(std::vector<char>& to, size_t i, float x) const {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    const auto upper = static_cast<uint16_t>(bits >> 16);
    std::memcpy(&to[i * bytes()], bytes() == 4 ? static_cast<const void*>(&bits) : &upper, bytes());
  }
  float get(const std::vector<char>& from, size_t i) const {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char*>(&bits) + 4 - bytes(), &from[i * bytes()], bytes());
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
  }
  void store_rows(kvc_storage* s) const {
    std::vector<int64_t> slots(kBlocks * kBlock);
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
    std::vector<float> k(slots.size() * kHeads * dim), v(k.size());
    for (size_t i = 0; i < k.size(); ++i) {
      k[i] = static_cast<float>(i * 7 % 19) / 4 - 2;
      v[i] = static_cast<float>(i * 5 % 23) / 4 - 2;
    }
    kvc_rows rows = {};
    rows.struct_size = sizeof rows;
    rows.k = k.data(), rows.v = v.data(), rows.num_tokens = slots.size(), rows.slots = slots.data();
    EXPECT_EQ(kvc_storage_store(s, &rows, nullptr), KVC_OK) << kvc_last_error();
  }
  void clear() {
    std::fill(out.begin(), out.end(), '\x7b');
    std::fill(std::begin(lse), std::end(lse), -99.0f);
    a.out = out.data(), a.lse = lse;
  }
  kvc_status attend(kvc_stream* stream = nullptr) { return kvc_storage_attend(on_device.get(), &a, stream); }
  // That out and lse hold what the CPU makes of `wanted`, and the bytes between rows what was there.
  void expect_right(AttentionCall wanted, const std::string& what) const {
    std::vector<char> cpu_out(out.size(), '\x7b');
    std::vector<float> cpu_lse(std::size(lse), -99.0f);
    wanted.out = cpu_out.data(), wanted.lse = cpu_lse.data(), wanted.run.flags = 0;
    ASSERT_EQ(kvc_storage_attend(on_cpu.get(), &wanted, nullptr), KVC_OK) << kvc_last_error();
    std::vector<char> rest = out;
    for (uint64_t t = 0; t < wanted.q_offsets[kRequests]; ++t) {
      for (uint64_t h = 0; h < kQHeads; ++h) {
        const uint64_t row = t * static_cast<uint64_t>(wanted.out_token_stride) +
                             h * static_cast<uint64_t>(wanted.out_head_stride);
        for (uint64_t e = row; e < row + dim; ++e)
          ASSERT_NEAR(get(out, e), get(cpu_out, e), dtype == KVC_FLOAT32 ? 1e-5 : 3e-2) << what;
        ASSERT_NEAR(lse[t * kQHeads + h], cpu_lse[t * kQHeads + h], 1e-3) << what;
        std::memcpy(&rest[row * bytes()], &cpu_out[row * bytes()], dim * bytes());
      }
    }
    EXPECT_EQ(rest, cpu_out) << what << ": only rows are written";
    for (uint64_t row = wanted.q_offsets[kRequests] * kQHeads; row < std::size(lse); ++row)
      EXPECT_EQ(lse[row], -99.0f) << what;
  }

  const int32_t dtype;
  const uint32_t dim;
  StoragePtr on_device, on_cpu;
  std::vector<char> q, out;
  float lse[kMostQueries * kQHeads];
  uint64_t offsets[kRequests + 1] = {0, 1, 6, 8}, starts[kRequests] = {30, 25, 17};
  uint64_t lens[kRequests] = {31, 40, 20};
  int32_t tables[kRequests * kStride] = {4, 1, 0, 4, 2, 5, 4, 3, 0};
  float sinks[kQHeads] = {2.5f, -HUGE_VALF, 0, -60};
  AttentionCall a;
};

// Strides of results: side by side, with gaps, head by head, and odd ones.
std::vector<std::pair<int64_t, int64_t>> layouts(const Step& step) {
  const int64_t dim = step.dim, heads = kQHeads, queries = kMostQueries;
  return {{dim, heads * dim},
          {dim + 2, heads * (dim + 2) + 6},
          {queries * (dim + 4), dim + 4},
          {dim + 1, heads * (dim + 1) + 3}};
}

TEST_F(GpuAttentionRows, StridesAndSinkLogitsGiveTheCpusResults) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16}) {
    Step step(dtype);
    for (const auto& [head, token] : layouts(step)) {
      for (const uint64_t shared : {0u, kBlock}) {
        step.lay_out(head, token);
        step.a.shared_tokens = shared;
        step.clear();
        ASSERT_EQ(step.attend(), KVC_OK) << kvc_last_error();
        step.expect_right(step.a, std::to_string(head) + ", " + std::to_string(shared));
      }
    }
  }
}

// All arrays of the host that a call can have, with a prefix that is read once.
TEST_F(GpuAttentionRows, EveryArrayOfTheHostComesAlong) {
  Step step(KVC_BFLOAT16);
  const std::vector<uint8_t> bits(64, 0xb7);
  const uint64_t bit_offsets[] = {3, 40, 200}, mask_starts[] = {30, 25, 17};
  const float slopes[] = {0.5f, 0.25f, 0.125f, 0.0625f};
  step.a.q_starts = step.starts;
  step.a.mask = bits.data(), step.a.mask_offsets = bit_offsets, step.a.mask_starts = mask_starts;
  for (const bool shares : {true, false}) {
    step.a.shared_tokens = shares ? kBlock : 0, step.a.alibi_slopes = shares ? nullptr : slopes;
    kvc_attention_info plan = {};
    plan.struct_size = sizeof plan;
    ASSERT_EQ(kvc_storage_explain(step.on_device.get(), &step.a, &plan), KVC_OK) << kvc_last_error();
    EXPECT_EQ(plan.shared_tokens, step.a.shared_tokens);
    step.clear();
    ASSERT_EQ(step.attend(), KVC_OK) << kvc_last_error();
    step.expect_right(step.a, shares ? "shared" : "with ALiBi");
  }
}

// Each replay takes the sink logits, lengths and queries that it finds; the strides are the capture's.
TEST_F(GpuAttentionRows, AReplayReadsTheSinkLogitsOfTheDevice) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16}) {
    for (const uint64_t shared : {0u, kBlock}) {
      Step step(dtype);
      const auto [head, token] = layouts(step)[2];
      step.lay_out(head, token);
      step.a.run.flags = KVC_LAUNCH_ON_DEVICE, step.a.shared_tokens = shared;
      step.a.run.total_queries = kMostQueries, step.a.run.max_queries = kMostQueries;
      step.clear();
      const EngineStream engine;
      control()->begin_capture(engine.handle);
      ASSERT_EQ(step.attend(engine.stream.get()), KVC_OK) << kvc_last_error();
      void* graph = control()->end_capture(engine.handle);
      ASSERT_NE(graph, nullptr) << "something in it cannot be captured";
      for (uint64_t round = 0; round < 6; ++round) {
        for (size_t h = 0; h < kQHeads; ++h)
          step.sinks[h] = round == h ? -HUGE_VALF : static_cast<float>((round * 5 + h * 3) % 11) - 4;
        for (size_t r = 0; r < kRequests; ++r) {
          step.offsets[r + 1] = step.offsets[r] + (round + r) % 4;
          step.lens[r] = kBlock + 4 + (round * 11 + r * 7) % 20;
        }
        step.put(step.q, round, static_cast<float>(round));
        step.clear();
        control()->launch_graph(graph, engine.handle);
        ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
        step.expect_right(step.a, "round " + std::to_string(round));
      }
      control()->destroy_graph(graph);
    }
  }
}

TEST_F(GpuAttentionRows, SinkLogitsOfTheHostAreTheGraphs) {
  Step step(KVC_BFLOAT16);
  step.clear();
  const EngineStream engine;
  control()->begin_capture(engine.handle);
  ASSERT_EQ(step.attend(engine.stream.get()), KVC_OK) << kvc_last_error();
  void* graph = control()->end_capture(engine.handle);
  ASSERT_NE(graph, nullptr);
  const std::vector<float> given(std::begin(step.sinks), std::end(step.sinks));
  for (int round = 0; round < 3; ++round) {
    std::fill(std::begin(step.sinks), std::end(step.sinks), 50.0f);
    step.clear();
    control()->launch_graph(graph, engine.handle);
    ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
    std::copy(given.begin(), given.end(), step.sinks);
    step.expect_right(step.a, "round " + std::to_string(round));
  }
  control()->destroy_graph(graph);
}

TEST_F(GpuAttentionRows, OddStridesOfResultsOf16BitsAreForThePlainKernel) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16}) {
    Step step(dtype);
    for (const auto& [head, token] : layouts(step)) {
      step.lay_out(head, token);
      kvc_attention_info plan = {};
      plan.struct_size = sizeof plan;
      ASSERT_EQ(kvc_storage_explain(step.on_device.get(), &step.a, &plan), KVC_OK) << kvc_last_error();
      EXPECT_STREQ(plan.kernels, dtype == KVC_BFLOAT16 && head % 2 == 0 ? "mma" : "plain") << head;
    }
  }
}

TEST_F(GpuAttentionRows, SinkLogitsThatTheDeviceCannotReadAreRefused) {
  const StoragePtr storage = make(small_config("emulated:1"));  // a device that reads no ordinary memory
  DeviceMemory memory("emulated:1", 4096);
  const std::vector<float> sinks(kQHeads);
  AttentionCall a;
  a.q = a.out = memory.data, a.q_offsets = a.kv_lens = memory.as<uint64_t>();
  a.block_tables = memory.as<int32_t>(), a.table_stride = 1, a.num_requests = 1, a.num_q_heads = kQHeads;
  a.run.flags = KVC_LAUNCH_ON_DEVICE, a.run.total_queries = 1, a.sink_logits = sinks.data();
  EXPECT_EQ(kvc_storage_attend(storage.get(), &a, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("kvc_attention.sink_logits is in host memory")) << kvc_last_error();
}

}  // namespace
}  // namespace kvc::test
