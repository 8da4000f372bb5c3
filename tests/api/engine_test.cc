// SPDX-License-Identifier: Apache-2.0
// Streams and graphs as an engine uses them: decode steps enqueued or replayed without waiting give what the
// CPU gives. In test_api on emulated devices, in test_gpu_cuda and test_gpu_hip on a GPU.
#include <atomic>
#include <string>
#include <thread>

#include "api/engine_stream.h"
#include "attention_call.h"
#include "rounds.h"

namespace kvc::test {
namespace {

constexpr uint32_t kLayers = 2, kTokens = 8;  // of a block
constexpr size_t kRequests = 3, kStride = 2;  // blocks of a request
constexpr size_t kQueryHeads = 2 * kHeads;

// The same values in memory of the host and of the device.
template <typename T>
struct Both {
  std::vector<T> host;
  DeviceMemory device;
  explicit Both(size_t count) : host(count), device(engine::device(), count * sizeof(T)) {}
  T* of(bool on_device) { return on_device ? device.as<T>() : host.data(); }
  kvc_upload upload() { return {host.data(), device.data, host.size() * sizeof(T)}; }
};

kvc_storage_config config_of(const char* device, int32_t dtype, size_t blocks) {
  kvc_storage_config c = small_config(device);
  c.num_layers = kLayers, c.dtype = dtype, c.num_blocks = blocks, c.block_size = kTokens;
  return c;
}

// Requests that decode in blocks of their own, beside a CPU that does the same.
class Batch {
 public:
  static constexpr size_t kOutputs = kLayers * kRequests * kQueryHeads * kDim;
  static constexpr size_t kBlocksEach = kRequests * kStride;
  static constexpr uint64_t kPlanBytes = 4096;

  Batch(kvc_storage* device, int32_t dtype, size_t index)
      : device_(device),
        cpu_(make(config_of("cpu", dtype, (index + 1) * kBlocksEach))),
        random_(static_cast<uint32_t>(index) + 1),
        shares_plan_(index % 2 == 0) {
    for (size_t i = 0; i < kBlocksEach; ++i)
      tables_.host[i] = static_cast<int32_t>(index * kBlocksEach + kBlocksEach - 1 - i);
    for (size_t r = 0; r <= kRequests; ++r) offsets_.host[r] = r;
  }

  // The next token of each request: its rows and queries are sent to the device, and the step is done on the
  // CPU.
  std::vector<float> next(kvc_stream* stream) {
    std::normal_distribution<float> normal;
    for (Both<float>* rows : {&k_, &v_, &q_})
      for (float& x : rows->host) x = normal(random_);
    for (size_t r = 0; r < kRequests; ++r) {
      const uint64_t position = lens_.host[r]++;
      slots_.host[r] = int64_t{tables_.host[r * kStride + position / kTokens]} * kTokens +
                       static_cast<int64_t>(position % kTokens);
    }
    const kvc_upload uploads[] = {k_.upload(),      v_.upload(),    q_.upload(),      slots_.upload(),
                                  tables_.upload(), lens_.upload(), offsets_.upload()};
    kvc_table_update update = {};
    update.struct_size = sizeof update;
    update.uploads = uploads, update.num_uploads = std::size(uploads);
    EXPECT_EQ(kvc_stream_update_tables(stream, &update), KVC_OK) << kvc_last_error();
    std::vector<float> expected(kOutputs);
    step(cpu_.get(), false, false, expected.data(), nullptr);
    return expected;
  }

  // Slots, lengths and tables as they are on the device when the step is done, for a graph; or as they are
  // now.
  void enqueue(kvc_stream* stream, float* out, bool for_graph) {
    step(device_, true, for_graph, out, stream);
  }

  bool full() const { return lens_.host[0] == kStride * kTokens; }

 private:
  void step(kvc_storage* storage, bool rows_on_device, bool indices_on_device, float* out,
            kvc_stream* stream) {
    kvc_rows rows = {};
    rows.struct_size = sizeof rows;
    rows.k = k_.of(rows_on_device), rows.v = v_.of(rows_on_device), rows.num_tokens = kRequests,
    rows.num_layers = 1;
    rows.slots = slots_.of(indices_on_device);
    rows.flags = indices_on_device ? KVC_ROWS_ON_DEVICE : 0;
    AttentionCall a;
    a.q = q_.of(rows_on_device), a.q_offsets = offsets_.of(indices_on_device),
    a.kv_lens = lens_.of(indices_on_device), a.block_tables = tables_.of(indices_on_device);
    a.table_stride = kStride, a.num_requests = kRequests, a.num_q_heads = kQueryHeads;
    a.run.flags = indices_on_device ? KVC_LAUNCH_ON_DEVICE : 0;
    if (indices_on_device) a.run.total_queries = kRequests, a.run.max_queries = 1;
    // Of every second batch each layer works out its own.
    if (storage == device_ && shares_plan_) a.run.plan = plan_.data, a.run.plan_bytes = kPlanBytes;
    const uint32_t flags = a.run.flags;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      rows.first_layer = a.layer = layer;
      a.run.flags = flags | (a.run.plan != nullptr && layer != 0 ? KVC_LAUNCH_PLANNED : 0);
      a.out = out + layer * kOutputs / kLayers;
      EXPECT_EQ(kvc_storage_store(storage, &rows, stream), KVC_OK) << kvc_last_error();
      EXPECT_EQ(kvc_storage_attend(storage, &a, stream), KVC_OK) << kvc_last_error();
    }
  }

  kvc_storage* const device_;
  const StoragePtr cpu_;
  std::mt19937 random_;
  const bool shares_plan_;
  DeviceMemory plan_{engine::device(), kPlanBytes};
  Both<float> k_{kRequests * kHeads * kDim}, v_{kRequests * kHeads * kDim},
      q_{kRequests * kQueryHeads * kDim};
  Both<int64_t> slots_{kRequests};
  Both<uint64_t> lens_{kRequests}, offsets_{kRequests + 1};
  Both<int32_t> tables_{kBlocksEach};
};

// Of many steps, in memory that host and device see.
class Results {
 public:
  explicit Results(size_t steps)
      : memory_(engine::device(), steps * Batch::kOutputs * sizeof(float), KVC_MEMORY_PINNED) {}
  float* of(size_t step) { return memory_.as<float>() + step * Batch::kOutputs; }
  void expect(size_t step, const std::vector<float>& expected, const std::string& what) {
    float most = 0;
    for (size_t i = 0; i < expected.size(); ++i) most = std::max(most, std::abs(of(step)[i] - expected[i]));
    EXPECT_LE(most, 1e-4f) << what << ", step " << step;
  }

 private:
  DeviceMemory memory_;
};

class Engine : public testing::Test {
 protected:
  void SetUp() override {
    if (engine::device() == nullptr) GTEST_SKIP() << "there is no device with graphs";
  }
  static StoragePtr storage(int32_t dtype, size_t batches) {
    return make(config_of(engine::device(), dtype, batches * Batch::kBlocksEach));
  }
};

TEST_F(Engine, ADecodeStepReplaysFromAGraph) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16, KVC_INT8}) {
    const StoragePtr s = storage(dtype, 1);
    const Adopted stream;
    Batch batch(s.get(), dtype, 0);
    Results results(1);
    engine::begin_capture(stream.handle);
    batch.enqueue(stream.stream.get(), results.of(0), true);
    void* graph = engine::end_capture(stream.handle);
    ASSERT_NE(graph, nullptr) << "something in the step cannot be captured";
    for (uint64_t seed = 1; !batch.full(); ++seed) {
      engine::set_seed(seed);
      const std::vector<float> expected = batch.next(stream.stream.get());
      engine::launch_graph(graph, stream.handle);
      ASSERT_EQ(kvc_stream_synchronize(stream.stream.get()), KVC_OK) << kvc_last_error();
      results.expect(0, expected, "dtype " + std::to_string(dtype));
    }
    engine::destroy_graph(graph);
  }
}

// Whatever else the library is asked for meanwhile, by a thread that has no part in the capture.
TEST_F(Engine, ACaptureSurvivesWhatOtherStreamsDo) {
  const char* const device = engine::device();
  const StoragePtr s = storage(KVC_FLOAT32, 1);
  const Adopted stream, other;
  Batch batch(s.get(), KVC_FLOAT32, 0);
  Results results(1);
  constexpr size_t kMany = 1 << 16;
  DeviceMemory many_keys(device, kMany * kHeads * kDim * sizeof(float));
  kvc_stream_event* event = nullptr;
  ASSERT_EQ(kvc_stream_event_create(device, &event), KVC_OK) << kvc_last_error();
  std::vector<char> pages(1 << 20);
  const auto survives = [&](const char* what, const auto& work) {
    engine::begin_capture(stream.handle, engine::Capture::kOfAllThreads);
    batch.enqueue(stream.stream.get(), results.of(0), true);
    std::thread(work).join();
    void* graph = engine::end_capture(stream.handle);
    EXPECT_NE(graph, nullptr) << what << " has ended the capture";
    if (graph != nullptr) engine::destroy_graph(graph);
  };
  survives("memory", [&] {
    for (const uint32_t kind : {KVC_MEMORY_DEVICE, KVC_MEMORY_PINNED}) DeviceMemory(device, 5000, kind);
  });
  survives("memory that grows", [&] {
    void* memory = nullptr;
    EXPECT_EQ(kvc_device_reserve_addresses(device, 1, &memory), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_device_map(memory, 0, 1), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_device_release(memory), KVC_OK) << kvc_last_error();
  });
  survives("registered memory", [&] {
    EXPECT_EQ(kvc_device_register(device, pages.data(), pages.size()), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_device_unregister(device, pages.data()), KVC_OK) << kvc_last_error();
  });
  survives("an event", [&] {
    int32_t done = 0;
    EXPECT_EQ(kvc_stream_event_record(event, other.stream.get()), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_stream_event_query(event, &done), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_stream_event_synchronize(event), KVC_OK) << kvc_last_error();
  });
  survives("a stream", [&] { EXPECT_EQ(kvc_stream_synchronize(other.stream.get()), KVC_OK); });
  survives("calls that send much and wait", [&] {
    const std::vector<int64_t> skipped(kMany, -1);
    kvc_rows rows = {};
    rows.struct_size = sizeof rows;
    rows.k = rows.v = many_keys.data, rows.num_tokens = kMany, rows.slots = skipped.data();
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(kvc_storage_store(s.get(), &rows, nullptr), KVC_OK) << kvc_last_error();
  });
  survives("a storage", [] { storage(KVC_FLOAT32, 1); });
  StoragePtr used = storage(KVC_FLOAT32, 1);
  Batch before(used.get(), KVC_FLOAT32, 0);
  before.next(stream.stream.get());
  before.enqueue(stream.stream.get(), results.of(0), false);
  survives("the end of a storage that the stream has used", [&] { used.reset(); });
  kvc_stream* again = nullptr;
  ASSERT_EQ(kvc_stream_adopt(device, stream.handle, 0, &again), KVC_OK) << kvc_last_error();
  survives("letting go of the stream, which is the engine's", [&] { kvc_stream_destroy(again); });
  kvc_stream_event_destroy(event);
}

// No step waits for the one before: workspace and staging memory go from call to call in the stream's order.
TEST_F(Engine, MemoryOfCallsIsReusedInTheStreamsOrder) {
  const StoragePtr s = storage(KVC_FLOAT32, 1);
  const Adopted stream;
  Batch batch(s.get(), KVC_FLOAT32, 0);
  constexpr size_t kSteps = kStride * kTokens;
  Results results(kSteps);
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < kSteps; ++i) {
    expected.push_back(batch.next(stream.stream.get()));
    batch.enqueue(stream.stream.get(), results.of(i), false);
  }
  ASSERT_EQ(kvc_stream_synchronize(stream.stream.get()), KVC_OK) << kvc_last_error();
  for (size_t i = 0; i < kSteps; ++i) results.expect(i, expected[i], "one stream");
}

// Threads with streams of their own on one storage; every second one replays a graph.
TEST_F(Engine, StreamsThatRaceGetMemoryOfTheirOwn) {
  constexpr size_t kThreads = 4;
  const size_t steps = rounds(3);
  const StoragePtr s = storage(KVC_FLOAT32, kThreads);
  std::atomic<int> allocating{kThreads};  // a capture forbids it to all threads; HIP has no std::latch
  const auto decode = [&](size_t index) {
    const Adopted stream;
    Batch batch(s.get(), KVC_FLOAT32, index);
    Results results(steps);
    --allocating;
    while (allocating != 0) std::this_thread::yield();
    const bool replays = index % 2 != 0;
    void* graph = nullptr;
    if (replays) {
      engine::begin_capture(stream.handle);
      batch.enqueue(stream.stream.get(), results.of(0), true);
      graph = engine::end_capture(stream.handle);
      ASSERT_NE(graph, nullptr) << "other threads are at work, but nothing of this step may fail for it";
    }
    std::vector<std::vector<float>> expected;
    for (size_t i = 0; i < steps; ++i) {
      expected.push_back(batch.next(stream.stream.get()));
      if (replays)
        engine::launch_graph(graph, stream.handle);
      else
        batch.enqueue(stream.stream.get(), results.of(i), false);
    }
    ASSERT_EQ(kvc_stream_synchronize(stream.stream.get()), KVC_OK) << kvc_last_error();
    if (replays)
      results.expect(0, expected.back(), "stream " + std::to_string(index));
    else
      for (size_t i = 0; i < steps; ++i) results.expect(i, expected[i], "stream " + std::to_string(index));
    if (replays) engine::destroy_graph(graph);
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back(decode, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kvc::test
