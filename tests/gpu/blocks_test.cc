// SPDX-License-Identifier: Apache-2.0
// Kernels that copy, clear and swap whole blocks do what the CPU does, and nothing beside it.
#include <numeric>

#include "gpu/storage.h"
#include "layout/parts.h"

namespace kvc::gpu::test {
namespace {

using BlocksTest = KernelTest;

// Different blocks in any order.
std::vector<int32_t> some_blocks(std::mt19937& random, uint64_t num_blocks, size_t count) {
  std::vector<int32_t> blocks(num_blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), random);
  blocks.resize(count);
  return blocks;
}

// Copies whose destinations are all different and none of them a source; sources may be.
std::vector<kvc_block_copy> some_copies(std::mt19937& random, uint64_t num_blocks) {
  const std::vector<int32_t> blocks = some_blocks(random, num_blocks, num_blocks);
  const size_t sources = 1 + random() % (num_blocks - 1);
  std::vector<kvc_block_copy> copies;
  for (size_t i = sources; i < num_blocks; ++i) copies.push_back({blocks[random() % sources], blocks[i]});
  return copies;
}

template <typename Check>
void for_each_shape(std::mt19937& random, Check&& check) {
  for (const uint32_t layout : kLayouts)
    for (const uint32_t dim : {1u, 20u, 128u})
      for (const uint32_t alignment : {16u, 64u, 4096u}) {
        kvc_storage_config c = kvc::test::base_config();
        c.layout = layout, c.head_dim = dim, c.v_head_dim = dim, c.alignment = alignment;
        c.num_blocks = 2 + random() % 12;
        c.block_size = 1 + static_cast<uint32_t>(random() % 20);
        std::optional<Pair> pair = Pair::make(c, random);
        ASSERT_TRUE(pair) << kvc_last_error();
        ASSERT_NO_FATAL_FAILURE(check(*pair)) << text_of(c);
      }
}

TEST_F(BlocksTest, CopiesAreThoseOfTheCpu) {
  for_each_shape(random, [&](Pair& pair) {
    const std::vector<kvc_block_copy> copies = some_copies(random, pair.info().num_blocks);
    DeviceArray<kvc_block_copy> list(copies);
    for (const size_t count : {size_t{0}, size_t{1}, copies.size()}) {
      ASSERT_EQ(kvc_storage_copy_blocks(pair.cpu(), copies.data(), count, nullptr), KVC_OK);
      ASSERT_EQ(copy_blocks(pair.layout(), pair.slab(), list.data(), count, nullptr), 0);
      ASSERT_EQ(pair.difference(), "");
    }
  });
}

TEST_F(BlocksTest, ACopyToItselfChangesNothing) {
  std::optional<Pair> pair = Pair::make(kvc::test::base_config(), random);
  const std::vector<char> before = pair->device_bytes();
  DeviceArray<kvc_block_copy> list(std::vector<kvc_block_copy>{{2, 2}});
  ASSERT_EQ(copy_blocks(pair->layout(), pair->slab(), list.data(), 1, nullptr), 0);
  EXPECT_EQ(pair->device_bytes(), before);
}

TEST_F(BlocksTest, ClearedBlocksAreThoseOfTheCpu) {
  for_each_shape(random, [&](Pair& pair) {
    const uint64_t all = pair.info().num_blocks;
    for (const size_t count : {size_t{0}, size_t{1}, size_t{all}}) {
      const std::vector<int32_t> blocks = some_blocks(random, all, count);
      DeviceArray<int32_t> list(blocks);
      ASSERT_EQ(kvc_storage_zero_blocks(pair.cpu(), blocks.data(), count, nullptr), KVC_OK);
      ASSERT_EQ(zero_blocks(pair.layout(), pair.slab(), list.data(), count, nullptr), 0);
      ASSERT_EQ(pair.difference(), "");
    }
  });
}

TEST_F(BlocksTest, APageHoldsTheRunsOfItsBlock) {
  for_each_shape(random, [&](Pair& pair) {
    const kvc_storage_info info = pair.info();
    const uint64_t page_bytes = info.block_bytes + 16 * (random() % 3);
    const size_t num_pages = 3;
    const std::vector<int32_t> blocks =
        some_blocks(random, info.num_blocks, std::min<size_t>(2, info.num_blocks));
    std::vector<char> expected(num_pages * page_bytes);
    for (char& x : expected) x = static_cast<char>(random());
    DeviceArray<char> pages(expected);
    std::vector<kvc_block_copy> pairs;
    const std::vector<char> slab = pair.device_bytes();
    for (size_t i = 0; i < blocks.size(); ++i) {
      pairs.push_back({blocks[i], static_cast<int32_t>(2 - 2 * i)});
      std::vector<kvc_run> runs(1000);
      size_t count;
      ASSERT_EQ(kvc_storage_runs(pair.cpu(), blocks[i], nullptr, runs.data(), runs.size(), &count), KVC_OK);
      size_t at = (2 - 2 * i) * page_bytes;
      for (size_t r = 0; r < count; ++r) {
        std::memcpy(&expected[at], &slab[runs[r].offset], runs[r].bytes);
        at += runs[r].bytes;
      }
    }
    DeviceArray<kvc_block_copy> list(pairs);
    const auto limit = static_cast<uint32_t>(random() % 3);
    const kvc_backend_swap out = {list.data(), pairs.size(), pages.data(), pages.size(), page_bytes, 1, 0};
    ASSERT_EQ(swap_blocks(pair.layout(), pair.slab(), out, limit, nullptr), 0);
    ASSERT_EQ(pages.get(), expected);
    ASSERT_EQ(pair.device_bytes(), slab);

    // Back into other blocks: as if they had been copied there.
    std::vector<kvc_block_copy> back, copies;
    const std::vector<int32_t> targets = some_blocks(random, info.num_blocks, blocks.size());
    std::vector<char> after = slab;
    const BlockParts parts = block_parts(pair.layout());
    for (size_t i = 0; i < blocks.size(); ++i) {
      back.push_back({pairs[i].destination, targets[i]});
      for (uint64_t p = 0; p < parts.count; ++p) {
        std::memcpy(&after[static_cast<uint64_t>(targets[i]) * parts.block + p * parts.part],
                    &slab[static_cast<uint64_t>(blocks[i]) * parts.block + p * parts.part], parts.bytes);
      }
    }
    DeviceArray<kvc_block_copy> back_list(back);
    const kvc_backend_swap in = {back_list.data(), back.size(), pages.data(), pages.size(), page_bytes, 0, 0};
    ASSERT_EQ(swap_blocks(pair.layout(), pair.slab(), in, limit, nullptr), 0);
    ASSERT_EQ(pair.device_bytes(), after);
  });
}

// Memory of which few pages are touched, with offsets past 2^32 elements.
TEST_F(BlocksTest, OffsetsPastFourGigaElementsAreReached) {
  for (const uint32_t layout : {KVC_LAYOUT_LBHNC, KVC_LAYOUT_BLNHC}) {
    LayoutShape shape = {};
    shape.preset = layout, shape.dtype = KVC_BFLOAT16, shape.num_layers = 2, shape.num_heads = 8;
    shape.block_size = 16, shape.num_blocks = 200000, shape.k_dim = 128, shape.v_dim = 128,
    shape.alignment = 64;
    const Layout made = make_layout(shape);
    ASSERT_GT(made.slab_bytes / 2, uint64_t{1} << 32);
    void* memory = device_allocate_if(made.slab_bytes);
    if (memory == nullptr) GTEST_SKIP() << "no address space for a slab of " << made.slab_bytes << " bytes";
    const std::vector<int64_t> where = {199999 * 16 + 15, 0, 131072 * 16 + 3};
    const size_t count = where.size() * 8 * 128;
    std::vector<char> k(2 * count * 2), v(k.size());
    fill_any(random, KVC_BFLOAT16, k);
    fill_any(random, KVC_BFLOAT16, v);
    DeviceArray<char> in_k(k), in_v(v), out_k(k.size()), out_v(v.size());
    DeviceArray<int64_t> slots(where);
    kvc_backend_rows rows = {};
    rows.k = in_k.data(), rows.v = in_v.data(), rows.num_tokens = where.size(), rows.num_layers = 2;
    rows.dtype = KVC_BFLOAT16, rows.slots = slots.data();
    rows.k_head_stride = rows.v_head_stride = 128, rows.k_token_stride = rows.v_token_stride = 1024;
    rows.k_layer_stride = rows.v_layer_stride = static_cast<int64_t>(count);
    ASSERT_EQ(store_rows(made, memory, rows, nullptr), 0);
    synchronize();
    for (uint32_t l = 0; l < 2; ++l)
      for (size_t t = 0; t < where.size(); ++t)
        for (uint32_t h = 0; h < 8; ++h) {
          char row[256];
          const auto slot = static_cast<uint64_t>(where[t]);
          copy_out(row, static_cast<char*>(memory) + made.k.offset(l, slot / 16, h, slot % 16), sizeof row);
          ASSERT_EQ(std::memcmp(row, &k[((l * where.size() + t) * 8 + h) * 256], sizeof row), 0);
        }
    // The last block, by way of another one far up.
    DeviceArray<kvc_block_copy> first(std::vector<kvc_block_copy>{{199999, 140000}, {0, 5}});
    ASSERT_EQ(copy_blocks(made, memory, first.data(), 2, nullptr), 0);
    DeviceArray<int32_t> cleared(std::vector<int32_t>{199999, 0});
    ASSERT_EQ(zero_blocks(made, memory, cleared.data(), 2, nullptr), 0);
    slots.set({140000 * 16 + 15, 5 * 16, 131072 * 16 + 3});
    rows.k = out_k.data(), rows.v = out_v.data();
    ASSERT_EQ(gather_rows(made, memory, rows, nullptr), 0);
    EXPECT_EQ(out_k.get(), k);
    EXPECT_EQ(out_v.get(), v);
    device_free(memory, made.slab_bytes);
  }
}

}  // namespace
}  // namespace kvc::gpu::test
