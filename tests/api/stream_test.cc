// SPDX-License-Identifier: Apache-2.0
// Storages with streams through the C API: what is copied at the call, what comes after what, and that errors
// come at once. A test stops a stream by a task of its own, so that nothing here is a matter of luck.
#include "cpu/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/storage.h"
#include "api/storage_handle.h"

namespace {

using kvc::test::Destroyer;
using kvc::test::StoragePtr;
using StreamPtr = std::unique_ptr<kvc_stream, Destroyer<kvc_stream_destroy>>;
using EventPtr = std::unique_ptr<kvc_stream_event, Destroyer<kvc_stream_event_destroy>>;

constexpr uint32_t kLayers = 2, kHeads = 2, kDim = 16, kBlock = 16, kBlocks = 6;

kvc_storage_config base_config() {
  kvc_storage_config c = {};
  c.struct_size = sizeof c;
  c.num_blocks = kBlocks, c.num_layers = kLayers, c.num_heads = kHeads, c.head_dim = kDim;
  c.dtype = KVC_FLOAT32, c.block_size = kBlock;
  return c;
}

StreamPtr make_stream() {
  kvc_stream* stream = nullptr;
  EXPECT_EQ(kvc_stream_create(kvc::test::device(), &stream), KVC_OK) << kvc_last_error();
  return StreamPtr(stream);
}

EventPtr make_event() {
  kvc_stream_event* event = nullptr;
  EXPECT_EQ(kvc_stream_event_create(kvc::test::device(), &event), KVC_OK) << kvc_last_error();
  return EventPtr(event);
}

// Holds a stream up until it is opened, at the latest by its destruction, which sees to it that nobody waits.
// A GPU's is not held: there the tests see what comes out, not when.
class Gate {
 public:
  explicit Gate(kvc_stream* stream) : stream_(stream) {
    if (kvc::test::is_emulated()) kvc::test::control()->hold(handle());
    if (kvc::test::device() != nullptr) return;
    auto* task = static_cast<kvc::Stream*>(stream->impl)->make<Task>(0);
    task->gate = this;
    task->run = [](kvc::Stream::Task* self) {
      Gate& gate = *static_cast<Task*>(self)->gate;
      while (!gate.open_) std::this_thread::yield();
      gate.passed_ = true;
    };
    static_cast<kvc::Stream*>(stream->impl)->submit(task);
  }
  ~Gate() {
    open();
    while (kvc::test::device() == nullptr && !passed_) std::this_thread::yield();
  }
  void open() {
    if (!open_.exchange(true) && kvc::test::is_emulated()) kvc::test::control()->let_go(handle());
  }
  static bool holds() { return kvc::test::device() == nullptr || kvc::test::is_emulated(); }

 private:
  struct Task : kvc::Stream::Task {
    Gate* gate;
  };
  void* handle() const {
    void* handle = nullptr;
    EXPECT_EQ(kvc_stream_handle(stream_, &handle), KVC_OK) << kvc_last_error();
    return handle;
  }

  kvc_stream* const stream_;
  std::atomic<bool> open_{false}, passed_{false};
};

struct Rows {
  kvc_rows rows = {};
  std::vector<float> k, v;

  explicit Rows(size_t tokens, float value = 0)
      : k(kLayers * tokens * kHeads * kDim, value), v(k.size(), -value) {
    rows.struct_size = sizeof rows;
    rows.k = k.data(), rows.v = v.data();
    rows.num_tokens = tokens, rows.num_layers = kLayers;
  }
};

float key_at(kvc_storage* s, int64_t slot) {
  Rows one(1);
  one.rows.slots = &slot;
  EXPECT_EQ(kvc_storage_gather(s, &one.rows, nullptr), KVC_OK) << kvc_last_error();
  return one.k[0];
}

bool is_done(kvc_stream_event* event) {
  int32_t done = 7;
  EXPECT_EQ(kvc_stream_event_query(event, &done), KVC_OK);
  return done == 1;
}

TEST(Stream, WorkIsDoneInOrderAndLater) {
  const StoragePtr s = kvc::test::make(base_config());
  const StreamPtr stream = make_stream();
  const EventPtr event = make_event();
  Gate gate(stream.get());
  Rows first(3, 1), second(2, 2), read(4);
  int64_t slots[] = {5, 17, 40, 18};
  const kvc_block_copy copy = {1, 3};
  const int32_t zeroed = 0;
  first.rows.slots = slots, second.rows.slots = slots + 1, read.rows.slots = slots;
  ASSERT_EQ(kvc_storage_store(s.get(), &first.rows, stream.get()), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_storage_store(s.get(), &second.rows, stream.get()), KVC_OK);
  ASSERT_EQ(kvc_storage_copy_blocks(s.get(), &copy, 1, stream.get()), KVC_OK);
  ASSERT_EQ(kvc_storage_zero_blocks(s.get(), &zeroed, 1, stream.get()), KVC_OK);
  ASSERT_EQ(kvc_storage_gather(s.get(), &read.rows, stream.get()), KVC_OK);
  ASSERT_EQ(kvc_stream_event_record(event.get(), stream.get()), KVC_OK);
  if (Gate::holds()) {
    EXPECT_EQ(key_at(s.get(), 5), 0.0f) << "nothing has been done yet";
    EXPECT_FALSE(is_done(event.get()));
  }
  gate.open();
  ASSERT_EQ(kvc_stream_synchronize(stream.get()), KVC_OK);
  EXPECT_TRUE(is_done(event.get()));
  const float wanted[] = {0, 2, 2, 0};
  for (size_t t = 0; t < 4; ++t) EXPECT_EQ(read.k[t * kHeads * kDim], wanted[t]) << t;
  EXPECT_EQ(key_at(s.get(), 3 * kBlock + 1), 2.0f) << "copied after it was stored";
}

TEST(Stream, HostArraysAreCopiedAtTheCall) {
  const StoragePtr s = kvc::test::make(base_config());
  const StreamPtr stream = make_stream();
  Rows by_slot(2, 1), by_table(3, 2), rotated(1, 4);
  std::vector<float> angles(2 * kDim);  // all cosines of row 1 are 3
  std::fill_n(angles.begin() + kDim, kDim / 2, 3.0f);
  {
    Gate gate(stream.get());
    std::vector<int64_t> slots = {3, 20, 7}, angle = {1};
    std::vector<int32_t> table = {-9, 5, 4}, blocks = {1};
    std::vector<kvc_block_copy> copies = {{4, 2}};
    by_slot.rows.slots = slots.data();
    by_table.rows.block_table = table.data(), by_table.rows.block_table_size = table.size();
    by_table.rows.first_token = kBlock + 14;  // slots 5 * 16 + 14, + 15, 4 * 16
    ASSERT_EQ(kvc_storage_store(s.get(), &by_slot.rows, stream.get()), KVC_OK);
    ASSERT_EQ(kvc_storage_store(s.get(), &by_table.rows, stream.get()), KVC_OK) << kvc_last_error();
    rotated.rows.slots = slots.data() + 2, rotated.rows.rope_rows = angle.data();
    rotated.rows.rope_table = angles.data(), rotated.rows.rope_table_rows = 2;
    ASSERT_EQ(kvc_storage_store(s.get(), &rotated.rows, stream.get()), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_storage_copy_blocks(s.get(), copies.data(), 1, stream.get()), KVC_OK);
    ASSERT_EQ(kvc_storage_zero_blocks(s.get(), blocks.data(), 1, stream.get()), KVC_OK);
    angle[0] = INT64_MAX;
    std::fill(slots.begin(), slots.end(), INT64_MAX);
    std::fill(table.begin(), table.end(), INT32_MAX);
    copies[0] = {INT32_MAX, INT32_MAX};
    blocks[0] = INT32_MAX;
    by_slot.rows.num_tokens = by_table.rows.num_tokens = SIZE_MAX;
  }
  ASSERT_EQ(kvc_stream_synchronize(stream.get()), KVC_OK);
  EXPECT_EQ(key_at(s.get(), 3), 1.0f);
  EXPECT_EQ(key_at(s.get(), 7), 12.0f) << "rotated by the row that was given";
  EXPECT_EQ(key_at(s.get(), 20), 0.0f) << "stored and zeroed";
  EXPECT_EQ(key_at(s.get(), 5 * kBlock + 14), 2.0f);
  EXPECT_EQ(key_at(s.get(), 5 * kBlock + 15), 2.0f);
  EXPECT_EQ(key_at(s.get(), 4 * kBlock), 2.0f);
  EXPECT_EQ(key_at(s.get(), 2 * kBlock), 2.0f) << "copied";
}

TEST(Stream, AttentionInAStreamGivesTheSameBits) {
  for (const uint32_t threads : {1u, 3u}) {
    kvc_storage_config c = base_config();
    c.num_threads = threads;
    const StoragePtr s = kvc::test::make(c);
    Rows rows(40);
    for (size_t i = 0; i < rows.k.size(); ++i)
      rows.k[i] = static_cast<float>(i % 23) / 8 - 1, rows.v[i] = static_cast<float>(i % 31);
    const int32_t table[] = {2, 0, 4};
    rows.rows.block_table = table, rows.rows.block_table_size = 3;
    ASSERT_EQ(kvc_storage_store(s.get(), &rows.rows, nullptr), KVC_OK);

    constexpr uint32_t kQHeads = 4, kStride = 9;
    std::vector<float> q(4 * kQHeads * kDim), out(q.size()), later(q.size()), lse(4 * kQHeads),
        late(4 * kQHeads);
    for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 17) / 4 - 2;
    std::vector<uint64_t> offsets = {0, 3, 4}, starts = {37, 20}, lens = {40, 33}, bits = {0, 120};
    std::vector<int32_t> tables(2 * kStride, -1);
    for (size_t r = 0; r < 2; ++r) std::copy(table, table + 3, tables.data() + r * kStride);
    std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 0.0625f}, sinks = {1, 2, -3, 4};
    std::vector<uint8_t> mask(20, 0xdb);
    kvc_attention a = {};
    a.struct_size = sizeof a;
    a.q = q.data(), a.out = out.data(), a.lse = lse.data();
    a.num_requests = 2, a.q_offsets = offsets.data(), a.q_starts = starts.data(), a.kv_lens = lens.data();
    a.block_tables = tables.data(), a.table_stride = kStride, a.num_q_heads = kQHeads;
    a.alibi_slopes = slopes.data(), a.mask = mask.data(), a.mask_offsets = bits.data();
    a.sink_logits = sinks.data();
    ASSERT_EQ(kvc_storage_attend(s.get(), &a, nullptr), KVC_OK) << kvc_last_error();

    const StreamPtr stream = make_stream();
    {
      Gate gate(stream.get());
      a.out = later.data(), a.lse = late.data();
      ASSERT_EQ(kvc_storage_attend(s.get(), &a, stream.get()), KVC_OK) << kvc_last_error();
      for (auto* array : {&offsets, &starts, &lens, &bits})
        std::fill(array->begin(), array->end(), UINT64_MAX);
      std::fill(tables.begin(), tables.end(), INT32_MAX);
      std::fill(slopes.begin(), slopes.end(), 1e30f);
      std::fill(sinks.begin(), sinks.end(), 1e30f);
      if (Gate::holds()) {
        EXPECT_EQ(later, std::vector<float>(later.size())) << "not yet";
      }
    }
    ASSERT_EQ(kvc_stream_synchronize(stream.get()), KVC_OK);
    EXPECT_EQ(later, out);
    EXPECT_EQ(late, lse);
    EXPECT_NE(out, std::vector<float>(out.size()));
  }
}

TEST(Stream, EventsOrderStreams) {
  const StoragePtr s = kvc::test::make(base_config());
  const StreamPtr writer = make_stream(), reader = make_stream();
  const EventPtr written = make_event();
  Gate gate(writer.get());
  Rows in(1, 3), out(1);
  const int64_t slot = 33;
  in.rows.slots = out.rows.slots = &slot;
  ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, writer.get()), KVC_OK);
  ASSERT_EQ(kvc_stream_event_record(written.get(), writer.get()), KVC_OK);
  ASSERT_EQ(kvc_stream_wait_event(reader.get(), written.get()), KVC_OK);
  ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, reader.get()), KVC_OK);
  gate.open();
  ASSERT_EQ(kvc_stream_synchronize(reader.get()), KVC_OK);
  EXPECT_EQ(out.k[0], 3.0f);
  ASSERT_EQ(kvc_stream_event_synchronize(written.get()), KVC_OK);
}

TEST(Stream, StreamsWithoutEventsDoNotWaitForEachOther) {
  const StoragePtr s = kvc::test::make(base_config());
  const StreamPtr stopped = make_stream(), free = make_stream();
  Gate gate(stopped.get());
  Rows in(1, 4);
  const int64_t slot = 1;
  in.rows.slots = &slot;
  ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, free.get()), KVC_OK);
  ASSERT_EQ(kvc_stream_synchronize(free.get()), KVC_OK);
  EXPECT_EQ(key_at(s.get(), 1), 4.0f);
}

TEST(Stream, DestroyingAStorageWaitsForItsWork) {
  std::vector<char> memory(1 << 20);
  char* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  kvc_storage_config c = base_config();
  c.memory = aligned, c.memory_size = (1 << 20) - 64;
  StoragePtr s = kvc::test::make(c);
  const StreamPtr stream = make_stream();
  Rows in(1, 1);
  const int64_t slot = 0;
  in.rows.slots = &slot;
  Gate gate(stream.get());
  ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, stream.get()), KVC_OK);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.open();
  });
  s.reset();
  float stored;
  std::memcpy(&stored, aligned, sizeof stored);
  EXPECT_EQ(stored, 1.0f);
  later.join();
}

// Pieces of work that were ever put in the stream (emulated: in any; on a GPU nobody counts them).
uint64_t enqueued(kvc_stream* stream) {
  if (kvc::test::is_emulated()) return kvc::test::control()->num_occasions(kvc::gpu::Failure::kLaunch);
  if (kvc::test::device() != nullptr) return 0;
  return static_cast<kvc::Stream*>(stream->impl)->end();
}

TEST(Stream, AnErrorComesAtTheCallAndEnqueuesNothing) {
  const StoragePtr s = kvc::test::make(base_config());
  const StreamPtr stream = make_stream();
  const uint64_t before = enqueued(stream.get());
  Rows in(1, 1);
  const int64_t slot = kBlocks * kBlock;
  in.rows.slots = &slot;
  const kvc_block_copy copy = {0, kBlocks};
  const int32_t block = -1;
  EXPECT_EQ(kvc_storage_store(s.get(), &in.rows, stream.get()), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("slots[0]"), std::string::npos);
  EXPECT_EQ(kvc_storage_gather(s.get(), &in.rows, stream.get()), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_copy_blocks(s.get(), &copy, 1, stream.get()), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_zero_blocks(s.get(), &block, 1, stream.get()), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(enqueued(stream.get()), before);
  EXPECT_EQ(kvc_stream_synchronize(nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_stream_wait_event(stream.get(), nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_stream_event_query(nullptr, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_stream_create(nullptr, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  kvc_stream_destroy(nullptr);
  kvc_stream_event_destroy(nullptr);
}

TEST(Device, AnUnknownOneIsNamedTogetherWithThoseThatThereAre) {
  kvc_stream* stream = nullptr;
  EXPECT_EQ(kvc_stream_create("cuda:1", &stream), KVC_ERROR_NOT_FOUND);
  EXPECT_NE(std::string(kvc_last_error()).find("libkvcache_cuda.so"), std::string::npos) << kvc_last_error();
  EXPECT_NE(std::string(kvc_last_error()).find("\"cpu\""), std::string::npos) << kvc_last_error();
  EXPECT_EQ(stream, nullptr);
  kvc_stream_event* event = nullptr;
  EXPECT_EQ(kvc_stream_event_create("", &event), KVC_ERROR_NOT_FOUND);
  kvc_device_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_device_read_info("hip", &info), KVC_ERROR_NOT_FOUND);
  kvc_storage_config c = base_config();
  c.device = "cuda";
  kvc_storage* s = nullptr;
  EXPECT_EQ(kvc_storage_create(&c, &s), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(s, nullptr);
}

TEST(Device, MemoryIsOfTheKindAskedForOrRefused) {
  kvc_device_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_device_read_info(nullptr, &info), KVC_OK);
  EXPECT_GT(info.memory_bytes, uint64_t{1} << 20);
  EXPECT_GE(info.num_processors, 1u);
  alignas(64) static char foreign[1 << 16];
  for (uint32_t kind = 0; kind <= 7; ++kind)
    for (const bool adopted : {false, true}) {
      kvc_storage_config c = base_config();
      c.memory_kind = kind;
      if (adopted) c.memory = foreign, c.memory_size = sizeof foreign;
      kvc_storage* s = nullptr;
      const kvc_status status = kvc_storage_create(&c, &s);
      const StoragePtr owner(s);
      const bool possible = kind == KVC_MEMORY_DEFAULT || (info.memory_kinds >> kind & 1) != 0;
      const bool fits =
          adopted ? kind == KVC_MEMORY_DEFAULT || kind == KVC_MEMORY_EXTERNAL : kind != KVC_MEMORY_EXTERNAL;
      if (kind == KVC_MEMORY_HOST_HUGE && status == KVC_ERROR_UNSUPPORTED) continue;  // a system without them
      ASSERT_EQ(status, possible && fits               ? KVC_OK
                        : kind > 6 || adopted || !fits ? KVC_ERROR_INVALID_ARGUMENT
                                                       : KVC_ERROR_UNSUPPORTED)
          << "kind " << kind << ", adopted " << adopted << ": " << kvc_last_error();
      if (status == KVC_ERROR_UNSUPPORTED) {
        EXPECT_NE(std::string(kvc_last_error()).find("GPU"), std::string::npos) << kvc_last_error();
      }
      if (status != KVC_OK) continue;
      kvc_storage_info of = {};
      of.struct_size = sizeof of;
      ASSERT_EQ(kvc_storage_properties(s, &of), KVC_OK);
      EXPECT_EQ(of.memory_kind, adopted                        ? uint32_t{KVC_MEMORY_EXTERNAL}
                                : kind == KVC_MEMORY_HOST_HUGE ? uint32_t{KVC_MEMORY_HOST_HUGE}
                                                               : uint32_t{KVC_MEMORY_HOST});
      if (kind == KVC_MEMORY_HOST_HUGE) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(of.data) % (2 << 20), 0u);
      }
    }
}

TEST(Device, HugePagesAndAnAllocatorExcludeEachOther) {
  kvc_allocator allocator = {sizeof allocator, nullptr,
                             [](void*, size_t size, size_t alignment) -> void* {
                               return std::aligned_alloc(alignment,
                                                         (size + alignment - 1) / alignment * alignment);
                             },
                             [](void*, void* memory, size_t, size_t) { std::free(memory); }};
  kvc_storage_config c = base_config();
  c.allocator = &allocator;
  c.memory_kind = KVC_MEMORY_HOST_HUGE;
  kvc_storage* s = nullptr;
  EXPECT_EQ(kvc_storage_create(&c, &s), KVC_ERROR_UNSUPPORTED);
  c.memory_kind = KVC_MEMORY_HOST;
  ASSERT_EQ(kvc_storage_create(&c, &s), KVC_OK) << kvc_last_error();
  kvc_storage_destroy(s);
}

TEST(Device, TheTableOfTheCpuIsComplete) {
  const kvc_backend* backend = nullptr;
  uint32_t device = 7;
  ASSERT_EQ(kvc::find_device("cpu", &backend, &device), KVC_OK);
  EXPECT_EQ(device, 0u);
  EXPECT_EQ(backend->struct_size, sizeof(kvc_backend));
  EXPECT_EQ(backend->abi_version, KVC_BACKEND_ABI);
  const auto* first = reinterpret_cast<void (*const*)()>(&backend->event_create);
  const auto* last = reinterpret_cast<void (*const*)()>(&backend->swap_blocks);
  for (const auto* function = first; function <= last; ++function) EXPECT_NE(*function, nullptr);
}

}  // namespace
