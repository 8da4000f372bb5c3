// SPDX-License-Identifier: Apache-2.0
// Swaps on emulated devices: memory of the host that they refuse, graphs, failures, and the way that is
// measured once. What a process does first is tested in a process of its own.
#include <sys/mman.h>

#include <cstdlib>
#include <string>

#include "api/emulated.h"

namespace kvc::test {
namespace {

class GpuSwap : public OnEmulatedDevices {};
using GpuSwapDeathTest = GpuSwap;

kvc_device_info properties(const char* device) {
  kvc_device_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_device_read_info(device, &info), KVC_OK) << kvc_last_error();
  return info;
}
bool is_measured(const char* device) { return (properties(device).flags & KVC_DEVICE_SWAP_MEASURED) != 0; }

void measure(kvc_storage* s) {
  ASSERT_EQ(kvc_storage_swap_out(s, nullptr, 0, nullptr, 0, 0, nullptr), KVC_OK) << kvc_last_error();
}

TEST_F(GpuSwap, TheCpuHasOneWay) {
  const kvc_device_info cpu = properties("cpu");
  EXPECT_EQ(cpu.swap_out_kernel_bytes, 0u);
  EXPECT_EQ(cpu.swap_in_kernel_bytes, 0u);
  EXPECT_FALSE(is_measured("cpu"));
}

TEST_F(GpuSwap, OrdinaryHostMemoryIsRefusedByADeviceThatCannotReadIt) {
  const StoragePtr s = make(small_config("emulated:1"));
  const uint64_t bytes = info_of(s.get()).block_bytes;
  const kvc_block_copy copies[] = {{1, 0}, {2, 1}};
  auto* ordinary = static_cast<char*>(std::aligned_alloc(4096, (2 * bytes + 4095) / 4096 * 4096));
  std::memset(ordinary, 5, 2 * bytes);
  const auto refused = [&](const char* text) {
    EXPECT_EQ(kvc_storage_swap_out(s.get(), copies, 2, ordinary, 2 * bytes, 0, nullptr),
              KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(says(text)) << kvc_last_error();
    EXPECT_EQ(std::count(ordinary, ordinary + 2 * bytes, 5), static_cast<ptrdiff_t>(2 * bytes));
    const kvc_block_copy back[] = {{0, 1}, {1, 2}};
    EXPECT_EQ(kvc_storage_swap_in(s.get(), back, 2, ordinary, 2 * bytes, 0, nullptr),
              KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(says(text)) << kvc_last_error();
  };
  refused("pages is in host memory that emulated:1 does not read");
  ASSERT_EQ(kvc_device_register("emulated:1", ordinary, bytes), KVC_OK) << kvc_last_error();
  refused("the end of pages is in host memory that emulated:1 does not read");
  ASSERT_EQ(kvc_device_unregister("emulated:1", ordinary), KVC_OK);
  ASSERT_EQ(kvc_device_register("emulated:1", ordinary, 2 * bytes), KVC_OK) << kvc_last_error();
  EXPECT_EQ(kvc_storage_swap_out(s.get(), copies, 2, ordinary, 2 * bytes, 0, nullptr), KVC_OK)
      << kvc_last_error();
  EXPECT_EQ(std::count(ordinary, ordinary + 2 * bytes, 0), static_cast<ptrdiff_t>(2 * bytes))
      << "fresh blocks";
  ASSERT_EQ(kvc_device_unregister("emulated:1", ordinary), KVC_OK);
  std::free(ordinary);
}

// A kernel, since what is pinned is not known; with pinned memory whichever way was measured to be faster.
TEST_F(GpuSwap, OrdinaryHostMemoryThatADeviceReadsGoesByAKernel) {
  const StoragePtr s = make(small_config("emulated"));
  ASSERT_NO_FATAL_FAILURE(measure(s.get()));
  ASSERT_EQ(store(s.get(), 2 * kBlock, 7), KVC_OK);
  const uint64_t bytes = info_of(s.get()).block_bytes;
  std::vector<char> pages(kBlocks * bytes + 16);
  char* const begin = pages.data() + (16 - reinterpret_cast<uintptr_t>(pages.data()) % 16) % 16;
  std::vector<kvc_block_copy> copies;
  for (int32_t b = 0; b < static_cast<int32_t>(kBlocks); ++b) copies.push_back({b, b});
  const uint64_t before = control()->num_occasions(Failure::kLaunch);
  ASSERT_EQ(kvc_storage_swap_out(s.get(), copies.data(), copies.size(), begin, kBlocks * bytes, 0, nullptr),
            KVC_OK)
      << kvc_last_error();
  EXPECT_EQ(control()->num_occasions(Failure::kLaunch) - before, 2u) << "the list, and all blocks at once";
  EXPECT_EQ(*reinterpret_cast<float*>(begin + 2 * bytes), 7.0f);
}

TEST_F(GpuSwap, IsMeasuredOnceForEachDevice) {
  for (const char* device : {"emulated:0", "emulated:1"}) {
    const StoragePtr s = make(small_config(device));
    ASSERT_NO_FATAL_FAILURE(measure(s.get()));
    EXPECT_TRUE(is_measured(device));
    const uint64_t before = control()->num_occasions(Failure::kLaunch);
    ASSERT_NO_FATAL_FAILURE(measure(s.get()));
    EXPECT_EQ(control()->num_occasions(Failure::kLaunch), before);
  }
}

TEST_F(GpuSwap, WithAStreamNeverWaitsAndReplaysFromAGraph) {
  for (const char* device : {"emulated:0", "emulated:1"}) {
    const StoragePtr s = make(small_config(device));
    const uint32_t index = device[9] == '1';
    const EngineStream engine(device, index);
    const uint64_t bytes = info_of(s.get()).block_bytes;
    const DeviceMemory pages(device, 2 * bytes, KVC_MEMORY_PINNED);
    ASSERT_NO_FATAL_FAILURE(measure(s.get()));
    const uint64_t before = control()->num_synchronized();
    control()->hold(engine.handle);
    const kvc_block_copy out = {3, 1}, in = {1, 5};
    EXPECT_EQ(kvc_storage_swap_out(s.get(), &out, 1, pages.data, 2 * bytes, 0, engine.stream.get()), KVC_OK)
        << kvc_last_error();
    control()->let_go(engine.handle);
    EXPECT_EQ(control()->num_synchronized(), before);

    control()->begin_capture(engine.handle);
    std::vector<kvc_block_copy> list = {out};
    ASSERT_EQ(kvc_storage_swap_out(s.get(), list.data(), 1, pages.data, 2 * bytes, 0, engine.stream.get()),
              KVC_OK)
        << kvc_last_error();
    list[0] = in;
    ASSERT_EQ(kvc_storage_swap_in(s.get(), list.data(), 1, pages.data, 2 * bytes, 0, engine.stream.get()),
              KVC_OK)
        << kvc_last_error();
    list[0] = {-1, -1};
    void* graph = control()->end_capture(engine.handle);
    ASSERT_NE(graph, nullptr) << "a swap that cannot be captured";
    for (const float value : {2.0f, 3.0f}) {
      DeviceMemory rows(device, kHeads * kDim * sizeof(float), KVC_MEMORY_PINNED);
      std::fill_n(rows.as<float>(), kHeads * kDim, value);
      kvc_rows row = {};
      row.struct_size = sizeof row;
      const int64_t slot = 3 * kBlock + 1;
      row.k = row.v = rows.data, row.num_tokens = 1, row.slots = &slot;
      ASSERT_EQ(kvc_storage_store(s.get(), &row, nullptr), KVC_OK) << kvc_last_error();
      control()->launch_graph(graph, engine.handle);
      ASSERT_EQ(kvc_stream_synchronize(engine.stream.get()), KVC_OK);
      const int64_t copied = 5 * kBlock + 1;
      std::fill_n(rows.as<float>(), kHeads * kDim, 0.0f);
      row.slots = &copied;
      ASSERT_EQ(kvc_storage_gather(s.get(), &row, nullptr), KVC_OK) << kvc_last_error();
      EXPECT_EQ(*rows.as<float>(), value);
    }
    control()->destroy_graph(graph);
  }
}

TEST_F(GpuSwap, AFailedLaunchIsReportedAtTheCall) {
  const StoragePtr s = make(small_config("emulated"));
  const uint64_t bytes = info_of(s.get()).block_bytes;
  ASSERT_NO_FATAL_FAILURE(measure(s.get()));
  const DeviceMemory pinned("emulated", bytes, KVC_MEMORY_PINNED);
  std::vector<char> any(bytes + 16);
  char* const ordinary = any.data() + (16 - reinterpret_cast<uintptr_t>(any.data()) % 16) % 16;
  const kvc_block_copy copy = {0, 0};
  for (void* pages : {static_cast<void*>(ordinary), pinned.data}) {
    control()->fail(Failure::kLaunch, 1);
    EXPECT_EQ(kvc_storage_swap_out(s.get(), &copy, 1, pages, bytes, 0, nullptr), KVC_ERROR_DEVICE);
    EXPECT_TRUE(says("the launch failed")) << kvc_last_error();
    EXPECT_EQ(kvc_storage_swap_in(s.get(), &copy, 1, pages, bytes, 0, nullptr), KVC_OK) << kvc_last_error();
  }
}

// ---- in processes that have not swapped before ----

// Runs `test` there, which must call leave().
void expect_leaves_well(void (*test)()) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(test(), testing::ExitedWithCode(0), "");
}

void leave(bool good, const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, kvc_last_error());
  std::_Exit(good ? 0 : 1);
}
#define MUST(condition) \
  if (!(condition)) leave(false, #condition)

void swap_in_a_capture() {
  const StoragePtr s = make(small_config("emulated"));
  const EngineStream engine;
  const uint64_t bytes = info_of(s.get()).block_bytes;
  const DeviceMemory pages("emulated", bytes, KVC_MEMORY_PINNED);
  const kvc_block_copy copy = {0, 0};
  MUST(!is_measured("emulated"));
  const kvc_device_info guess = properties("emulated");
  MUST(guess.swap_out_kernel_bytes == 65536 && guess.swap_in_kernel_bytes == 65536);
  control()->begin_capture(engine.handle);
  MUST(kvc_storage_swap_out(s.get(), &copy, 1, pages.data, bytes, 0, engine.stream.get()) == KVC_OK);
  MUST(!is_measured("emulated"));
  // In another stream, while this one is captured.
  MUST(kvc_storage_swap_out(s.get(), &copy, 1, pages.data, bytes, 0, nullptr) == KVC_OK);
  MUST(is_measured("emulated"));
  leave(control()->end_capture(engine.handle) != nullptr, "the capture is broken");
}

void swap_without_memory() {
  const StoragePtr s = make(small_config("emulated"));
  const uint64_t used = control()->bytes_in_use(0);
  control()->fail(Failure::kAllocate, 1);
  MUST(kvc_storage_swap_in(s.get(), nullptr, 0, nullptr, 0, 0, nullptr) == KVC_OK);
  MUST(!is_measured("emulated"));
  const uint64_t before = control()->num_occasions(Failure::kAllocate);
  MUST(kvc_storage_swap_in(s.get(), nullptr, 0, nullptr, 0, 0, nullptr) == KVC_OK);
  MUST(control()->num_occasions(Failure::kAllocate) == before);
  leave(control()->bytes_in_use(0) == used, "memory is left behind");
}

void measure_ways() {
  const StoragePtr s = make(small_config("emulated"));
  const uint64_t used = control()->bytes_in_use(0);
  MUST(kvc_storage_swap_out(s.get(), nullptr, 0, nullptr, 0, 0, nullptr) == KVC_OK);
  MUST(is_measured("emulated"));
  leave(control()->bytes_in_use(0) == used, "memory is left behind");
}

// The guess stays, by which runs of 64 KiB and more go by the copy engine: many together, but for those of a
// graph.
void swap_large_runs() {
  constexpr int32_t kManyBlocks = 180;
  constexpr uint64_t kRuns = 2 * kManyBlocks, kTogether = 256;
  kvc_storage_config c = small_config("emulated");
  c.num_blocks = kManyBlocks, c.num_layers = 2, c.block_size = 512;  // keys and values of a layer: 128 KiB
  const StoragePtr s = make(c);
  control()->fail(Failure::kAllocate, 1);
  MUST(kvc_storage_swap_out(s.get(), nullptr, 0, nullptr, 0, 0, nullptr) == KVC_OK &&
       !is_measured("emulated"));
  const uint64_t bytes = info_of(s.get()).block_bytes;
  const DeviceMemory pages("emulated", kManyBlocks * bytes, KVC_MEMORY_PINNED),
      captured("emulated", kManyBlocks * bytes, KVC_MEMORY_PINNED);
  std::vector<kvc_block_copy> out, in;
  for (int32_t b = 0; b < kManyBlocks; ++b) {
    MUST(store(s.get(), b * 512 + b, static_cast<float>(b + 1)) == KVC_OK);
    out.push_back({b, kManyBlocks - 1 - b});
    in.push_back({kManyBlocks - 1 - b, (b + 1) % kManyBlocks});
  }
  const EngineStream engine;
  const auto occasions = [&](const auto& call) {
    const uint64_t before = control()->num_occasions(Failure::kLaunch);
    MUST(call() == KVC_OK && kvc_stream_synchronize(engine.stream.get()) == KVC_OK);
    return control()->num_occasions(Failure::kLaunch) - before;
  };
  const auto swap_out = [&](void* to) {
    return kvc_storage_swap_out(s.get(), out.data(), out.size(), to, kManyBlocks * bytes, 0,
                                engine.stream.get());
  };
  MUST(occasions([&] { return swap_out(pages.data); }) == (kRuns + kTogether - 1) / kTogether);

  control()->begin_capture(engine.handle);
  const uint64_t before = control()->num_occasions(Failure::kLaunch);
  MUST(swap_out(captured.data) == KVC_OK);
  MUST(control()->num_occasions(Failure::kLaunch) - before == kRuns);
  void* graph = control()->end_capture(engine.handle);
  MUST(graph != nullptr);
  control()->launch_graph(graph, engine.handle);
  MUST(kvc_stream_synchronize(engine.stream.get()) == KVC_OK);
  MUST(std::memcmp(pages.data, captured.data, kManyBlocks * bytes) == 0);
  control()->destroy_graph(graph);

  MUST(occasions([&] {
         return kvc_storage_swap_in(s.get(), in.data(), in.size(), pages.data, kManyBlocks * bytes, 0,
                                    engine.stream.get());
       }) == (kRuns + kTogether - 1) / kTogether);
  for (int32_t b = 0; b < kManyBlocks; ++b)
    MUST(key_at(s.get(), (b + 1) % kManyBlocks * 512 + b) == static_cast<float>(b + 1));
  leave(!is_measured("emulated"), "it was measured");
}

// Large memory is registered in pieces, in which a page may end and begin.
void swap_across_pieces() {
  constexpr uint64_t kPiece = uint64_t{1} << 30, kPage = 4096;
  kvc_storage_config c = small_config("emulated");
  c.num_blocks = 1, c.block_size = 1024;  // 256 KiB
  const StoragePtr s = make(c);
  control()->fail(Failure::kAllocate, 1);
  MUST(kvc_storage_swap_out(s.get(), nullptr, 0, nullptr, 0, 0, nullptr) == KVC_OK &&
       !is_measured("emulated"));
  const uint64_t bytes = info_of(s.get()).block_bytes, size = 2 * kPiece;
  MUST(bytes >= 65536 && kPiece % bytes == 0);
  void* mapped =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  MUST(mapped != MAP_FAILED);
  // Begins inside a page of the host, so that pieces and pages of blocks do not end together.
  char* const memory = static_cast<char*>(mapped) + kPage - 64;
  const uint64_t first = kPiece - bytes / 2, pages = size - kPage - first;
  MUST(kvc_device_register("emulated", memory, size - kPage) == KVC_OK);
  MUST(store(s.get(), 5, 3) == KVC_OK && store(s.get(), 1000, 4) == KVC_OK);
  const kvc_block_copy copy = {0, 0};
  MUST(kvc_storage_swap_out(s.get(), &copy, 1, memory + first, pages, 0, nullptr) == KVC_OK);
  MUST(store(s.get(), 5, 1) == KVC_OK && store(s.get(), 1000, 2) == KVC_OK);
  MUST(kvc_storage_swap_in(s.get(), &copy, 1, memory + first, pages, 0, nullptr) == KVC_OK);
  MUST(key_at(s.get(), 5) == 3 && key_at(s.get(), 1000) == 4);
  MUST(kvc_device_unregister("emulated", memory) == KVC_OK);
  leave(munmap(mapped, size) == 0, "unmapped");
}

TEST_F(GpuSwapDeathTest, ABlockMayLieAcrossPiecesOfRegisteredMemory) {
  expect_leaves_well(swap_across_pieces);
}
TEST_F(GpuSwapDeathTest, ACaptureTakesAGuessAndIsNotBrokenByMeasuring) {
  expect_leaves_well(swap_in_a_capture);
}
TEST_F(GpuSwapDeathTest, WithoutMemoryToMeasureTheGuessStays) { expect_leaves_well(swap_without_memory); }
TEST_F(GpuSwapDeathTest, LargeRunsAreEnqueuedTogetherButInGraphs) { expect_leaves_well(swap_large_runs); }
TEST_F(GpuSwapDeathTest, MeasuringLeavesNothingBehind) { expect_leaves_well(measure_ways); }

}  // namespace
}  // namespace kvc::test
