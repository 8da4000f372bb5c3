// SPDX-License-Identifier: Apache-2.0
// kvcache/storage.hpp: owners of storages, streams, events and memory end once and move, errors carry status
// and text and have changed nothing, and each call reaches its function with all that it was given.
#include "api/hpp_storage.h"

#include <algorithm>

#include "api/device.h"

namespace hpp {
namespace {

template <class T>
constexpr bool kMovesOnly = !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
                            std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;
static_assert(kMovesOnly<kvc::Storage> && kMovesOnly<kvc::Stream> && kMovesOnly<kvc::Event> &&
              kMovesOnly<kvc::Memory> && kMovesOnly<kvc::Registration>);
static_assert(!std::is_convertible_v<const char*, kvc::Stream>, "a device is no stream by accident");
static_assert(std::is_convertible_v<kvc::Memory&, kvc::Span<uint8_t>>);
static_assert(std::is_convertible_v<kvc::Registration&, kvc::Span<uint8_t>>);

TEST(HppStorage, IsWhatItWasMadeAs) {
  const kvc_storage_config c = config();
  const kvc::Storage s(c);
  const kvc_storage_info info = s.info();
  EXPECT_EQ(info.num_blocks, kBlocks);
  EXPECT_EQ(info.block_size, kBlock);
  const kvc::Storage::Size size = kvc::Storage::size(c);
  EXPECT_EQ(size.block_bytes, info.block_bytes);
  EXPECT_EQ(size.slab_bytes, info.slab_bytes);
  kvc_run room[8];
  uint64_t bytes = 0;
  for (const kvc_run& run : s.runs(1, room)) bytes += run.bytes;
  EXPECT_EQ(bytes, info.block_bytes);
  const kvc_selection part = {0, 1, 1, 1, 0, 1};
  const kvc::Span<kvc_run> runs = s.runs(1, room, &part);
  ASSERT_EQ(runs.size(), 2u) << "a key and a value";
  EXPECT_EQ(runs[0].bytes, kDim * sizeof(float));
  const kvc_view view = s.view(KVC_PLANE_V, 0);
  EXPECT_EQ(view.dtype, KVC_FLOAT32);
  EXPECT_EQ(view.shape[0], kBlocks);
  EXPECT_GE(view.data, info.data);
}

TEST(HppStorage, Trims) {
  kvc::Storage s(config());
  EXPECT_EQ(s.trim(), 0u) << "no call has left anything";
  const kvc::Storage none = std::move(s);
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "storage is NULL", [&] { s.trim(); });
}

TEST(HppStorage, MovesAndEndsOnce) {
  kvc::Storage first(config());
  fill(first, 2, 5);
  kvc_storage* const same = first.get();
  kvc::Storage second = std::move(first);
  EXPECT_EQ(second.get(), same);
  EXPECT_EQ(first.get(), nullptr);
  EXPECT_EQ(key_in(second, 2), 5);
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "storage is NULL", [&] { first.info(); });
  second = kvc::Storage(config());
  EXPECT_EQ(key_in(second, 2), 0);

  kvc::Memory memory("cpu", KVC_MEMORY_HOST, 100);
  EXPECT_EQ(memory.size(), 100u);
  memory.data<float>()[24] = 1;
  const kvc::Memory taken = std::move(memory);
  EXPECT_EQ(taken.data<float>()[24], 1);
  EXPECT_EQ(memory.size(), 0u);
  EXPECT_EQ(memory.data(), nullptr);

  kvc::Stream stream("cpu");
  const kvc::Stream other = std::move(stream);
  EXPECT_EQ(stream.get(), nullptr);
  fill(second, 1, 3);
  second.copy(std::vector<kvc_block_copy>{{1, 0}}, stream);
  EXPECT_EQ(key_in(second, 0), 3) << "done on return";
}

TEST(HppStorage, AFailedCallSaysWhyAndChangesNothing) {
  kvc::Storage s(config());
  fill(s, 1, 2);
  const Rows bad({16, 64}, 9);
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "64", [&] { s.store(bad.rows); });
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "no block 4", [&] { s.zero(std::vector<int32_t>{1, 4}); });
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "no block -1", [&] {
    s.copy(std::vector<kvc_block_copy>{{0, 1}, {-1, 2}});
  });
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "no block 9", [&] { s.quantize(std::vector<int32_t>{9}); });
  EXPECT_EQ(key_in(s, 1), 2);

  Question question;
  question.a.num_q_heads = 3;
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "num_q_heads is 3", [&] { s.attend(question.a); });
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "num_q_heads is 3", [&] { (void)s.explain(question.a); });
  EXPECT_EQ(question.out[0], 77);

  kvc_run room[1];
  const kvc_selection part = {0, 1, 0, 2, 3, 1};
  expect_error(KVC_ERROR_BUFFER_TOO_SMALL, "4 runs, room for 1", [&] { s.runs(0, room, &part); });
  expect_error(KVC_ERROR_NOT_FOUND, "no plane 2", [&] { (void)s.view(KVC_PLANE_K_SCALE, 0); });
  auto none = config();
  none.num_layers = 0;
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "num_layers", [&] { kvc::Storage made(none); });
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "num_layers", [&] { kvc::Storage::size(none); });
  expect_error(KVC_ERROR_NOT_FOUND, "nowhere", [] { kvc::Stream("nowhere"); });
  expect_error(KVC_ERROR_NOT_FOUND, "nowhere", [] { kvc::Event("nowhere"); });
  expect_error(KVC_ERROR_NOT_FOUND, "nowhere", [] { kvc::Memory("nowhere", KVC_MEMORY_HOST, 1); });
  expect_error(KVC_ERROR_UNSUPPORTED, "cpu", [] { kvc::Stream::adopt("cpu", nullptr, KVC_STREAM_LEGACY); });
  const kvc::Stream stream("cpu");
  expect_error(KVC_ERROR_UNSUPPORTED, "cpu", [&] { (void)stream.handle(); });
  expect_error(KVC_ERROR_UNSUPPORTED, "cpu", [&] { stream.update_tables(kvc::make<kvc_table_update>()); });
}

TEST(HppStorage, DoesWhatTheManagerAsksFor) {
  auto shape = kvc::make<kvc_manager_config>();
  shape.num_blocks = kBlocks, shape.flags = KVC_MANAGER_ZERO_ALWAYS;
  kvc::Manager m(shape);
  kvc::Storage s(config());
  int32_t ids[kBlocks];
  kvc_block_copy room[kBlocks];
  const std::vector<int32_t> prompt(kBlock + 1, 1);
  kvc::Request low = m.allocate(prompt), r = m.allocate(prompt);
  for (int32_t block = 0; block < 4; ++block) fill(s, block, static_cast<float>(block + 1));
  const kvc::Span<int32_t> fresh = m.take_pending({}, ids).zero_blocks;
  EXPECT_EQ(std::vector<int32_t>(fresh.begin(), fresh.end()), (std::vector<int32_t>{0, 1, 2, 3}));
  s.zero(fresh);
  EXPECT_EQ(key_in(s, 3), 0);
  EXPECT_EQ(m.take_pending({}, ids).zero_blocks.size(), 0u);

  fill(s, 3, 8);
  r.commit(prompt.size());
  low.reset();
  kvc::Request child = r.fork();
  ASSERT_TRUE(child.append(std::vector<int32_t>{7}));
  const kvc::Span<kvc_block_copy> copies = m.take_pending(room).copies;
  ASSERT_EQ(copies.size(), 1u);
  const int32_t copied = copies[0].destination;
  s.copy(copies);
  EXPECT_EQ(key_in(s, copied), 8);
  child.reset();
  (void)m.take_pending({}, ids);
  const kvc::Span<kvc_block_copy> moves = m.compact(room);
  ASSERT_EQ(moves.size(), 2u);
  s.copy(moves);
  int32_t table[2];
  r.table(table);
  EXPECT_EQ(key_in(s, table[1]), 8);
}

TEST(HppStorage, StreamsAndEventsOrderTheWork) {
  kvc::Storage s(config());
  kvc::Stream writes("cpu"), reads("cpu");
  kvc::Event written("cpu");
  EXPECT_TRUE(written.done()) << "never recorded";
  Rows in(slots_of(1), 6), out(slots_of(2), 77);
  s.store(in.rows, writes);
  s.copy(std::vector<kvc_block_copy>{{1, 2}}, writes);
  s.zero(std::vector<int32_t>{1}, writes);
  writes.record(written);
  reads.wait(written);
  s.gather(out.rows, reads);
  reads.synchronize();
  EXPECT_TRUE(written.done());
  EXPECT_EQ(out.k, in.k);
  written.synchronize();
  EXPECT_EQ(key_in(s, 1), 0);
  s.store(in.rows, writes);
  writes = kvc::Stream();  // its end waits for the work
  EXPECT_EQ(key_in(s, 1), 6);
}

TEST(HppStorage, PagesGoOutAndComeBack) {
  kvc::Storage s(config());
  const kvc::Stream stream("cpu");
  const uint64_t page = s.info().block_bytes;
  kvc::Memory pages("cpu", KVC_MEMORY_HOST, 4 * page);
  fill(s, 3, 4);
  s.swap_out(std::vector<kvc_block_copy>{{3, 1}}, pages);
  s.zero(std::vector<int32_t>{3}, stream);
  s.swap_in(std::vector<kvc_block_copy>{{1, 0}}, pages, 0, stream);
  s.swap_out(std::vector<kvc_block_copy>{{0, 1}}, pages, 2 * page, stream);  // page 1 is at 2 * page
  stream.synchronize();
  EXPECT_EQ(key_in(s, 0), 4);
  EXPECT_EQ(key_in(s, 3), 0);
  EXPECT_TRUE(std::equal(pages.data() + page, pages.data() + 2 * page, pages.data() + 2 * page));
  expect_error(KVC_ERROR_INVALID_ARGUMENT, "no page 4", [&] {
    s.swap_in(std::vector<kvc_block_copy>{{4, 1}}, pages);
  });
}

TEST(HppStorage, MemoryIsADevicesToReadWhileItIsRegistered) {
  if (kvc::test::control() == nullptr)
    GTEST_SKIP() << "KVC_BACKEND_PATH names no folder with the emulated backend";
  auto c = config();
  c.device = "emulated:1";  // reads no ordinary memory of the host
  kvc::Storage s(c);
  const uint64_t page = s.info().block_bytes;
  constexpr size_t kPage = 4096;
  std::vector<uint8_t> room(4 * page + kPage, 5);
  void* begin = room.data();
  size_t left = room.size();
  ASSERT_NE(std::align(kPage, 4 * page, begin, left), nullptr);
  const auto swap = [&](kvc::Span<uint8_t> pages) { s.swap_out(std::vector<kvc_block_copy>{{0, 1}}, pages); };
  const auto refused = [&] {
    const kvc::Span<uint8_t> pages(static_cast<uint8_t*>(begin), 4 * page);
    expect_error(KVC_ERROR_INVALID_ARGUMENT, "does not read", [&] { swap(pages); });
  };
  refused();
  {
    kvc::Registration first("emulated:1", begin, 4 * page);
    EXPECT_EQ(first.data<void>(), begin);
    swap(first);
    expect_error(KVC_ERROR_INVALID_ARGUMENT, "registered",
                 [&] { kvc::Registration("emulated:1", begin, page); });
    swap(first);  // the refused one has ended nothing
    kvc::Registration second = std::move(first);
    EXPECT_EQ(first.data(), nullptr);
    EXPECT_EQ(first.size(), 0u);
    swap(second);
    second = kvc::Registration();
    refused();
    second = kvc::Registration("emulated:1", begin, 4 * page);
    swap(second);
  }
  refused();
  EXPECT_EQ(kvc_device_unregister("emulated:1", begin), KVC_ERROR_NOT_FOUND);
  expect_error(KVC_ERROR_NOT_FOUND, "emulated:7", [&] { kvc::Registration("emulated:7", begin, page); });
  EXPECT_EQ(kvc::Registration(nullptr, begin, page).size(), page) << "on the CPU there is nothing to do";
}

TEST(HppStorage, StreamsOfADevicesRuntimeStayTheCallers) {
  if (kvc::test::control() == nullptr)
    GTEST_SKIP() << "KVC_BACKEND_PATH names no folder with the emulated backend";
  void* const handle = kvc::test::control()->create_stream(0);
  {
    auto c = config();
    c.device = "emulated";
    kvc::Storage s(c);
    const kvc::Stream stream = kvc::Stream::adopt("emulated", handle);
    EXPECT_EQ(stream.handle(), handle);
    Rows rows({0}, 5);
    s.store(rows.rows, stream);
    stream.synchronize();
    EXPECT_EQ(key_in(s, 0), 5);
    expect_error(KVC_ERROR_INVALID_ARGUMENT, "a stream of cpu",
                 [&] { s.store(rows.rows, kvc::Stream("cpu")); });
    const kvc::Memory addresses(kvc::ask<void*>(kvc_device_reserve_addresses, "emulated", uint64_t{1} << 30),
                                1 << 30);
    EXPECT_NE(addresses.data(), nullptr);
  }
  kvc::test::control()->destroy_stream(handle);
}

}  // namespace
}  // namespace hpp
