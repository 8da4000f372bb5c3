// SPDX-License-Identifier: Apache-2.0
// Blocks that go to pages of host memory and come back, on any device: bytes, refusals, streams, threads.
#include <map>
#include <string>

#include "api/channels.h"
#include "rounds.h"

namespace kvc::test {
namespace {

using StreamPtr = std::unique_ptr<kvc_stream, Destroyer<kvc_stream_destroy>>;

// Pages with bytes that nothing else has, from an address that is a multiple of 16 and of no more.
class Pages {
 public:
  Pages(uint64_t page_bytes, size_t count)
      : page_bytes_(page_bytes), memory_(page_bytes * count + 48, kFill) {
    const auto number = reinterpret_cast<uintptr_t>(memory_.data());
    begin_ = memory_.data() + (48 - number % 32);
  }
  char* data() { return begin_; }
  size_t size() const { return memory_.size() - 48; }
  std::string page(size_t index, size_t bytes) const {
    return {begin_ + index * page_bytes_, begin_ + index * page_bytes_ + bytes};
  }
  std::string all() const { return {memory_.begin(), memory_.end()}; }

  static constexpr char kFill = 0x6b;

 private:
  uint64_t page_bytes_;
  std::vector<char> memory_;
  char* begin_;
};

// What kvc_storage_runs lists of a block, run after run.
std::string packed(kvc_storage* s, int32_t block) {
  kvc_run runs[64];
  size_t count = 0;
  EXPECT_EQ(kvc_storage_runs(s, block, nullptr, runs, 64, &count), KVC_OK) << kvc_last_error();
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out.append(static_cast<const char*>(info_of(s).data) + runs[i].offset, runs[i].bytes);
  return out;
}

void fill_storage(kvc_storage* s, std::mt19937& random) {
  const kvc_storage_info info = info_of(s);
  Rows all(info, KVC_FLOAT32, shuffled_slots(random, info), info.num_layers);
  all.fill(random);
  ASSERT_EQ(kvc_storage_store(s, &all.rows, nullptr), KVC_OK) << kvc_last_error();
}

kvc_status swap_out(kvc_storage* s, const std::vector<kvc_block_copy>& copies, Pages& pages,
                    uint64_t page_bytes = 0, kvc_stream* stream = nullptr) {
  return kvc_storage_swap_out(s, copies.data(), copies.size(), pages.data(), pages.size(), page_bytes,
                              stream);
}
kvc_status swap_in(kvc_storage* s, const std::vector<kvc_block_copy>& copies, Pages& pages,
                   uint64_t page_bytes = 0, kvc_stream* stream = nullptr) {
  return kvc_storage_swap_in(s, copies.data(), copies.size(), pages.data(), pages.size(), page_bytes, stream);
}

StreamPtr make_stream() {
  kvc_stream* stream = nullptr;
  EXPECT_EQ(kvc_stream_create(device(), &stream), KVC_OK) << kvc_last_error();
  return StreamPtr(stream);
}

// Blocks 5, 0 and 2 to pages 3, 0 and 1, cleared, and back to blocks 4, 5 and 0.
void expect_round_trip(const kvc_storage_config& config, std::mt19937& random, kvc_stream* stream) {
  const StoragePtr s = make(config);
  ASSERT_NE(s, nullptr);
  ASSERT_NO_FATAL_FAILURE(fill_storage(s.get(), random));
  const kvc_storage_info info = info_of(s.get());
  const uint64_t page_bytes = info.block_bytes + 16 * (random() % 3);
  Pages pages(page_bytes, 4);
  std::map<int32_t, std::string> before;
  for (int32_t b = 0; b < 7; ++b) before[b] = packed(s.get(), b);
  const std::vector<char> slab = bytes_of(s.get());
  const auto wait = [&] {
    if (stream == nullptr) return;
    ASSERT_EQ(kvc_stream_synchronize(stream), KVC_OK);
  };

  std::vector<kvc_block_copy> copies = {{5, 3}, {0, 0}, {2, 1}};
  ASSERT_EQ(swap_out(s.get(), copies, pages, page_bytes, stream), KVC_OK) << kvc_last_error();
  copies.assign(3, {-1, -1});  // copied at the call
  wait();
  EXPECT_EQ(bytes_of(s.get()), slab);
  std::string rest(page_bytes, Pages::kFill);
  EXPECT_EQ(pages.page(0, page_bytes), before[0] + rest.substr(info.block_bytes));
  EXPECT_EQ(pages.page(1, page_bytes), before[2] + rest.substr(info.block_bytes));
  EXPECT_EQ(pages.page(2, page_bytes), rest);
  EXPECT_EQ(pages.page(3, page_bytes), before[5] + rest.substr(info.block_bytes));

  const std::vector<int32_t> cleared = {0, 2, 5};
  const std::string there = pages.all();
  ASSERT_EQ(kvc_storage_zero_blocks(s.get(), cleared.data(), cleared.size(), stream), KVC_OK);
  ASSERT_EQ(swap_in(s.get(), {{3, 4}, {0, 5}, {1, 0}}, pages, page_bytes, stream), KVC_OK)
      << kvc_last_error();
  wait();
  EXPECT_EQ(pages.all(), there);
  const std::string zeros(info.block_bytes, 0);
  const std::map<int32_t, std::string> wanted = {{0, before[2]}, {1, before[1]}, {2, zeros},
                                                 {3, before[3]}, {4, before[5]}, {5, before[0]},
                                                 {6, before[6]}};
  for (const auto& [block, bytes] : wanted) EXPECT_EQ(packed(s.get(), block), bytes) << "block " << block;
}

TEST(StorageSwap, BringsEveryBitBackInEveryKindOfStorage) {
  std::mt19937 random(31);
  const StreamPtr stream = make_stream();
  Sample sample;
  for (const uint32_t layout : kLayouts)
    for (const int32_t dtype :
         {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2, KVC_INT8, KVC_INT4})
      for (const uint32_t block_size : {1u, 5u, 16u}) {
        if (!sample.takes_next()) continue;
        kvc_storage_config c = base_config();
        c.layout = layout, c.dtype = dtype, c.block_size = block_size;
        c.alignment = 16u << random() % 4;
        const bool integer = dtype == KVC_INT8 || dtype == KVC_INT4;
        const bool quantized = integer || dtype == KVC_FLOAT8_E4M3 || dtype == KVC_FLOAT8_E5M2;
        if (quantized && random() % 2 != 0) c.scale_group = 8;
        if (integer && random() % 2 != 0) c.flags = KVC_STORAGE_ASYMMETRIC;
        SCOPED_TRACE("layout " + std::to_string(layout) + ", type " + std::to_string(dtype) + ", blocks of " +
                     std::to_string(block_size));
        ASSERT_NO_FATAL_FAILURE(expect_round_trip(c, random, random() % 2 != 0 ? stream.get() : nullptr));
      }
}

TEST(StorageSwap, BringsLatentRowsBack) {
  std::mt19937 random(32);
  for (const uint32_t layout : kLayouts)
    for (const int32_t dtype : {KVC_BFLOAT16, KVC_FLOAT8_E4M3, KVC_INT8}) {
      kvc_storage_config c = base_config();
      c.layout = layout, c.dtype = dtype, c.flags = KVC_STORAGE_LATENT, c.num_heads = 1;
      ASSERT_NO_FATAL_FAILURE(expect_round_trip(c, random, nullptr)) << layout << ' ' << dtype;
    }
}

TEST(StorageSwap, BringsTiledKeysBack) {
  if (device() != nullptr) GTEST_SKIP() << "tiled keys are the CPU's";
  std::mt19937 random(33);
  kvc_storage_config c = base_config();
  c.block_size = 32, c.flags = KVC_STORAGE_TILED_KEYS;
  expect_round_trip(c, random, nullptr);
}

TEST(StorageSwap, APageGoesToAnotherStorageAndAnotherDevice) {
  std::mt19937 random(34);
  for (const uint32_t layout : kLayouts) {
    kvc_storage_config c = base_config(), other = base_config();
    c.layout = other.layout = layout, c.dtype = other.dtype = KVC_INT8;
    other.num_blocks = 3, other.device = "cpu";
    const StoragePtr here = make(c), there = make(other);
    fill_storage(here.get(), random);
    Pages pages(info_of(here.get()).block_bytes, 2);
    ASSERT_EQ(swap_out(here.get(), {{6, 1}, {3, 0}}, pages), KVC_OK) << kvc_last_error();
    ASSERT_EQ(swap_in(there.get(), {{0, 2}, {1, 0}}, pages), KVC_OK) << kvc_last_error();
    EXPECT_EQ(packed(there.get(), 2), packed(here.get(), 3));
    EXPECT_EQ(packed(there.get(), 0), packed(here.get(), 6));
    const int32_t block = 1;
    ASSERT_EQ(kvc_storage_zero_blocks(there.get(), &block, 1, nullptr), KVC_OK);
    ASSERT_EQ(swap_out(there.get(), {{1, 0}}, pages), KVC_OK);
    ASSERT_EQ(swap_in(here.get(), {{0, 3}}, pages), KVC_OK);
    EXPECT_EQ(packed(here.get(), 3), packed(there.get(), 1));
  }
}

TEST(StorageSwap, OfLargeBlocksByManyThreadsIsThatOfOne) {
  std::mt19937 random(35);
  for (const uint32_t layout : {KVC_LAYOUT_LBHNC, KVC_LAYOUT_BLHNC}) {
    kvc_storage_config c = base_config();
    c.layout = layout, c.block_size = 512, c.head_dim = 72, c.v_head_dim = 72, c.num_layers = 5;
    c.num_threads = 3;
    ASSERT_NO_FATAL_FAILURE(expect_round_trip(c, random, nullptr));
  }
}

TEST(StorageSwap, BadCallsChangeNothing) {
  std::mt19937 random(36);
  const StoragePtr s = make(base_config());
  fill_storage(s.get(), random);
  const kvc_storage_info info = info_of(s.get());
  const uint64_t bytes = info.block_bytes;
  Pages pages(bytes, 3);
  const std::vector<char> slab = bytes_of(s.get());
  const std::string there = pages.all();
  const auto refused = [&](std::vector<kvc_block_copy> out, void* at, size_t size, uint64_t page_bytes,
                           const char* text) {
    std::vector<kvc_block_copy> in = out;
    for (kvc_block_copy& copy : in) std::swap(copy.source, copy.destination);
    for (const bool outward : {true, false}) {
      EXPECT_EQ(outward ? kvc_storage_swap_out(s.get(), out.data(), out.size(), at, size, page_bytes, nullptr)
                        : kvc_storage_swap_in(s.get(), in.data(), in.size(), at, size, page_bytes, nullptr),
                KVC_ERROR_INVALID_ARGUMENT);
      EXPECT_NE(std::string(kvc_last_error()).find(text), std::string::npos) << kvc_last_error();
    }
    EXPECT_EQ(bytes_of(s.get()), slab);
    EXPECT_EQ(pages.all(), there);
  };
  char* const data = pages.data();
  const size_t size = pages.size();
  refused({{0, 0}, {7, 1}}, data, size, 0, "no block 7");
  refused({{0, 0}, {-1, 1}}, data, size, 0, "no block -1");
  refused({{0, 0}, {1, 3}}, data, size, 0, "no page 3; there is room for 3");
  refused({{0, 0}, {1, -1}}, data, size, 0, "no page -1");
  refused({{0, 2}}, data, size - 1, 0, "no page 2; there is room for 2");
  refused({{0, 0}}, data, bytes - 1, 0, "no page 0; there is room for 0");
  refused({{0, 0}, {1, 2}}, data, size, bytes + 16, "no page 2; there is room for 2");
  refused({{0, 0}}, data, size, bytes - 16, "page_bytes");
  refused({{0, 0}}, data, size, bytes + 8, "page_bytes");
  refused({{0, 0}}, data + 8, size - 8, 0, "not aligned");
  refused({{0, 0}}, nullptr, size, 0, "pages is NULL");
  refused({{0, 0}}, nullptr, 0, 0, "pages is NULL");
  refused({{0, 0}}, data, SIZE_MAX, 0, "more elements than memory can have");
  refused({{0, 0}}, static_cast<char*>(info.data) + info.slab_bytes - 16, bytes, 0, "overlaps");
  refused({{0, 0}}, info.data, info.slab_bytes, 0, "overlaps");
  EXPECT_EQ(kvc_storage_swap_out(s.get(), nullptr, 1, data, size, 0, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_swap_out(nullptr, nullptr, 0, data, size, 0, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_swap_in(nullptr, nullptr, 0, data, size, 0, nullptr), KVC_ERROR_INVALID_ARGUMENT);

  EXPECT_EQ(swap_out(s.get(), {{0, 1}, {1, 0}, {2, 1}}, pages), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("page 1 is a destination twice"), std::string::npos);
  EXPECT_EQ(swap_in(s.get(), {{0, 4}, {1, 4}}, pages), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("block 4 is a destination twice"), std::string::npos);
  EXPECT_EQ(bytes_of(s.get()), slab);
  EXPECT_EQ(pages.all(), there);
  EXPECT_EQ(swap_out(s.get(), {{4, 2}, {4, 0}}, pages), KVC_OK) << "a block twice: " << kvc_last_error();
  EXPECT_EQ(pages.page(0, bytes), packed(s.get(), 4));
  EXPECT_EQ(pages.page(2, bytes), packed(s.get(), 4));
  EXPECT_EQ(kvc_storage_swap_out(s.get(), nullptr, 0, nullptr, 0, 0, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(kvc_storage_swap_in(s.get(), nullptr, 0, nullptr, 0, 0, nullptr), KVC_OK) << kvc_last_error();
}

TEST(StorageSwap, ComesAfterWhatTheStreamHasToDoBefore) {
  std::mt19937 random(37);
  const StoragePtr s = make(base_config());
  fill_storage(s.get(), random);
  const StreamPtr stream = make_stream();
  Pages pages(info_of(s.get()).block_bytes, 1);
  const std::string first = packed(s.get(), 1);
  const kvc_block_copy copy = {1, 2};
  ASSERT_EQ(kvc_storage_copy_blocks(s.get(), &copy, 1, stream.get()), KVC_OK);
  ASSERT_EQ(swap_out(s.get(), {{2, 0}}, pages, 0, stream.get()), KVC_OK) << kvc_last_error();
  const int32_t block = 2;
  ASSERT_EQ(kvc_storage_zero_blocks(s.get(), &block, 1, stream.get()), KVC_OK);
  ASSERT_EQ(swap_in(s.get(), {{0, 6}}, pages, 0, stream.get()), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_stream_synchronize(stream.get()), KVC_OK);
  EXPECT_EQ(pages.page(0, first.size()), first);
  EXPECT_EQ(packed(s.get(), 6), first);
  EXPECT_EQ(packed(s.get(), 2), std::string(first.size(), 0));
}

TEST(StorageSwapChannelKeys, SealsWhatGoesOutAndReplacesWhatIsOpen) {
  std::mt19937 random(38);
  for (const bool streamed : {false, true}) {
    const kvc_storage_config c = channel_config(KVC_INT8);
    const StoragePtr s = make(c), quantized = make(c);
    kvc_stream* made = nullptr;
    ASSERT_EQ(kvc_stream_create(nullptr, &made), KVC_OK);
    const StreamPtr owner(made);
    kvc_stream* const stream = streamed ? made : nullptr;
    const kvc_storage_info info = info_of(s.get());
    Rows part(info, KVC_FLOAT32, slots_of_block(5, 0, 3), 3),
        other(info, KVC_FLOAT32, slots_of_block(2, 0, 2), 3);
    part.fill(random), other.fill(random);
    for (kvc_storage* each : {s.get(), quantized.get()}) {
      store(each, part), store(each, other);
      ASSERT_TRUE(is_residual(each, 5) && is_residual(each, 2));
    }
    const int32_t five = 5;
    ASSERT_EQ(kvc_storage_quantize_blocks(quantized.get(), &five, 1, nullptr), KVC_OK);
    Pages pages(info.block_bytes, 1);
    ASSERT_EQ(swap_out(s.get(), {{5, 0}}, pages, 0, stream), KVC_OK) << kvc_last_error();
    ASSERT_EQ(swap_in(s.get(), {{0, 2}}, pages, 0, stream), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_stream_synchronize(made), KVC_OK);
    EXPECT_FALSE(is_residual(s.get(), 5) || is_residual(s.get(), 2));
    EXPECT_EQ(pages.page(0, info.block_bytes), packed(quantized.get(), 5));
    EXPECT_EQ(packed(s.get(), 2), packed(quantized.get(), 5));
    Rows five_rows(info, KVC_FLOAT32, slots_of_block(5, 0, 3), 3),
        two_rows(info, KVC_FLOAT32, slots_of_block(2, 0, 3), 3);
    ASSERT_EQ(kvc_storage_gather(quantized.get(), &five_rows.rows, nullptr), KVC_OK);
    ASSERT_EQ(kvc_storage_gather(s.get(), &two_rows.rows, nullptr), KVC_OK);
    EXPECT_EQ(two_rows.k, five_rows.k);
    EXPECT_EQ(two_rows.v, five_rows.v);
  }
}

}  // namespace
}  // namespace kvc::test
