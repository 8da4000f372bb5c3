// SPDX-License-Identifier: Apache-2.0
// One block id, several storages: of one manager, each device has a storage with some heads (tensor
// parallelism) or some layers (a pipeline), and the id means the same tokens in all of them. The pages of
// each slab tile it without gap or overlap, and together they are the block that one device would have.
#include "api/storage.h"

namespace kvc::test {
namespace {

constexpr uint32_t kDevices = 4, kAllHeads = 8, kAllLayers = 8;

// Rows of 64 bytes: no layout has padding.
kvc_storage_config whole_config(uint32_t layout, int32_t dtype) {
  kvc_storage_config c = base_config();
  c.num_layers = kAllLayers, c.num_heads = kAllHeads, c.head_dim = c.v_head_dim = 64, c.block_size = 16;
  c.layout = layout, c.dtype = dtype;
  return c;
}

// The second device is the one of the test, the others are the CPU.
StoragePtr make_shard(kvc_storage_config config, uint32_t device) {
  config.device = device == 1 ? nullptr : "cpu";
  return make(config);
}

std::vector<kvc_run> runs_of(kvc_storage* s, int32_t block, const kvc_selection* selection = nullptr) {
  size_t count = 0;
  std::vector<kvc_run> runs(1 << 14);
  EXPECT_EQ(kvc_storage_runs(s, block, selection, runs.data(), runs.size(), &count), KVC_OK)
      << kvc_last_error();
  runs.resize(count);
  return runs;
}

// What a page is: the address of its first byte is info.data + runs[0].offset.
std::vector<char> page_of(kvc_storage* s, int32_t block, const kvc_selection* selection = nullptr) {
  const char* data = static_cast<const char*>(info_of(s).data);
  std::vector<char> bytes;
  for (const kvc_run& run : runs_of(s, block, selection))
    bytes.insert(bytes.end(), data + run.offset, data + run.offset + run.bytes);
  return bytes;
}

// Ranges that lie side by side from 0 to `end`.
void expect_tiles(std::vector<kvc_run> runs, uint64_t end) {
  std::sort(runs.begin(), runs.end(), [](const kvc_run& a, const kvc_run& b) { return a.offset < b.offset; });
  uint64_t at = 0;
  for (const kvc_run& run : runs) {
    ASSERT_EQ(run.offset, at) << "a gap or an overlap";
    at += run.bytes;
  }
  EXPECT_EQ(at, end);
}

void append(std::vector<kvc_run>* runs, const std::vector<kvc_run>& more) {
  runs->insert(runs->end(), more.begin(), more.end());
}

TEST(StorageShards, PagesTileTheSlabOfEachDevice) {
  for (const uint32_t layout : kLayouts) {
    for (const int32_t dtype : {KVC_BFLOAT16, KVC_FLOAT32, KVC_INT8}) {
      kvc_storage_config config = whole_config(layout, dtype);
      config.num_heads = kAllHeads / kDevices;
      for (uint32_t d = 0; d < 2; ++d) {
        const StoragePtr shard = make_shard(config, d);
        std::vector<kvc_run> all;
        for (int32_t block = 0; block < 7; ++block) append(&all, runs_of(shard.get(), block));
        expect_tiles(std::move(all), info_of(shard.get()).slab_bytes);
      }
    }
  }
}

// The shares of all devices of one block, as a storage of all heads and layers has them, tile that block.
TEST(StorageShards, SharesTileTheBlock) {
  for (const uint32_t layout : kLayouts) {
    const StoragePtr whole = make(whole_config(layout, KVC_BFLOAT16));
    for (const bool by_heads : {true, false}) {
      std::vector<kvc_run> all;
      for (int32_t block = 0; block < 7; ++block) {
        for (uint32_t d = 0; d < kDevices; ++d) {
          const kvc_selection share = by_heads ? kvc_selection{0, kAllLayers, d * 2, 2, 0, 16}
                                               : kvc_selection{d * 2, 2, 0, kAllHeads, 0, 16};
          append(&all, runs_of(whole.get(), block, &share));
        }
      }
      expect_tiles(std::move(all), info_of(whole.get()).slab_bytes);
    }
  }
}

// Stores `all` in one storage and each device's part in its own, at the same slots: each page of a device has
// the bytes of its share of the block.
void expect_shares(uint32_t layout, int32_t dtype, bool by_heads) {
  std::mt19937 random(77);
  const kvc_storage_config config = whole_config(layout, dtype);
  const StoragePtr whole = make(config);
  const kvc_storage_info info = info_of(whole.get());
  Rows all(info, KVC_BFLOAT16, shuffled_slots(random, info), kAllLayers);
  all.fill(random);
  ASSERT_EQ(kvc_storage_store(whole.get(), &all.rows, nullptr), KVC_OK) << kvc_last_error();
  const size_t tokens = all.slots.size(), row = 64, token = kAllHeads * row, layer = tokens * token;
  for (uint32_t d = 0; d < kDevices; ++d) {
    kvc_storage_config part = config;
    (by_heads ? part.num_heads : part.num_layers) = 2;
    const StoragePtr shard = make_shard(part, d);
    kvc_rows rows = all.rows;
    const size_t first = 2 * d * (by_heads ? row : layer);
    rows.k = &all.k[first * 2], rows.v = &all.v[first * 2];
    rows.num_layers = part.num_layers;
    rows.k_head_stride = rows.v_head_stride = row, rows.k_token_stride = rows.v_token_stride = token;
    rows.k_layer_stride = rows.v_layer_stride = static_cast<int64_t>(layer);
    ASSERT_EQ(kvc_storage_store(shard.get(), &rows, nullptr), KVC_OK) << kvc_last_error();
    const kvc_selection share = by_heads ? kvc_selection{0, kAllLayers, 2 * d, 2, 0, 16}
                                         : kvc_selection{2 * d, 2, 0, kAllHeads, 0, 16};
    for (int32_t block = 0; block < 7; ++block) {
      ASSERT_EQ(page_of(shard.get(), block), page_of(whole.get(), block, &share))
          << "layout " << layout << ", device " << d << ", block " << block;
    }
  }
}

TEST(StorageShards, AnIdMeansTheSameTokensOnEveryDevice) {
  for (const uint32_t layout : kLayouts)
    for (const bool by_heads : {true, false}) expect_shares(layout, KVC_BFLOAT16, by_heads);
  for (const bool by_heads : {true, false}) expect_shares(KVC_LAYOUT_BHLNC, KVC_INT8, by_heads);
}

// Block first: a block is one run, so its address is one sum.
TEST(StorageShards, BlockFirstLayoutsHaveOneAddressPerBlock) {
  for (const uint32_t layout : {KVC_LAYOUT_BLHNC, KVC_LAYOUT_BLNHC, KVC_LAYOUT_BHLNC}) {
    const StoragePtr s = make(whole_config(layout, KVC_BFLOAT16));
    const kvc_storage_info info = info_of(s.get());
    for (int32_t block = 0; block < 7; ++block) {
      const std::vector<kvc_run> runs = runs_of(s.get(), block);
      ASSERT_EQ(runs.size(), 1u);
      EXPECT_EQ(runs[0].offset, static_cast<uint64_t>(block) * info.block_bytes);
      EXPECT_EQ(runs[0].bytes, info.block_bytes);
    }
    const kvc_selection share = {0, kAllLayers, 2, 2, 0, 16};
    if (layout == KVC_LAYOUT_BHLNC) {
      EXPECT_EQ(runs_of(s.get(), 3, &share).size(), 1u) << "some heads";
    }
  }
}

}  // namespace
}  // namespace kvc::test
