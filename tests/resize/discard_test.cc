// SPDX-License-Identifier: Apache-2.0
// kvc_storage_discard_blocks: the memory of unused blocks goes back, that of all others stays as it is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <kvcache/storage.hpp>
#include <string>
#include <vector>

#include "api/storage.h"

namespace kvc::test {
namespace {

constexpr uint64_t kBlocks = 64;

kvc_storage_config host_config(uint32_t layout) {
  kvc_storage_config c = {};
  c.struct_size = sizeof c;
  c.num_blocks = kBlocks, c.num_layers = 2, c.num_heads = 2, c.head_dim = 64, c.block_size = 16;
  c.layout = layout;
  return c;
}

StoragePtr create(const kvc_storage_config& config) {
  kvc_storage* s = nullptr;
  EXPECT_EQ(kvc_storage_create(&config, &s), KVC_OK) << kvc_last_error();
  return StoragePtr(s);
}

// The slots of all tokens of blocks [first, end).
std::vector<int64_t> slots_of(int64_t first, int64_t end) {
  std::vector<int64_t> slots;
  for (int64_t slot = first * 16; slot < end * 16; ++slot) slots.push_back(slot);
  return slots;
}

std::vector<float> gather(kvc_storage* s, const std::vector<int64_t>& slots) {
  std::vector<float> k(2 * slots.size() * 128), v(k.size());
  kvc_rows rows = {};
  rows.struct_size = sizeof rows;
  rows.slots = slots.data(), rows.num_tokens = slots.size(), rows.num_layers = 2;
  rows.k = k.data(), rows.v = v.data();
  EXPECT_EQ(kvc_storage_gather(s, &rows, nullptr), KVC_OK) << kvc_last_error();
  k.insert(k.end(), v.begin(), v.end());
  return k;
}

TEST(Discard, OtherBlocksKeepTheirBytes) {
  for (const uint32_t layout :
       {KVC_LAYOUT_LBNHC, KVC_LAYOUT_LBHNC, KVC_LAYOUT_BLNHC, KVC_LAYOUT_BLHNC, KVC_LAYOUT_BHLNC}) {
    const StoragePtr s = create(host_config(layout));
    std::vector<float> k(2 * kBlocks * 16 * 128), v(k.size());
    for (size_t i = 0; i < k.size(); ++i) k[i] = static_cast<float>(i % 1001) + 1, v[i] = -k[i];
    const std::vector<int64_t> all = slots_of(0, kBlocks);
    kvc_rows rows = {};
    rows.struct_size = sizeof rows;
    rows.slots = all.data(), rows.num_tokens = all.size(), rows.num_layers = 2;
    rows.k = k.data(), rows.v = v.data();
    ASSERT_EQ(kvc_storage_store(s.get(), &rows, nullptr), KVC_OK) << kvc_last_error();
    const std::vector<float> low = gather(s.get(), slots_of(0, 5)), high = gather(s.get(), slots_of(37, 64));

    kvc_storage_info info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(kvc_storage_properties(s.get(), &info), KVC_OK);
    uint64_t bytes = 77;
    ASSERT_EQ(kvc_storage_discard_blocks(s.get(), 5, 32, &bytes), KVC_OK) << kvc_last_error();
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    EXPECT_LE(bytes, 32 * info.block_bytes);
    EXPECT_GE(bytes + 2 * 2 * page, 32 * info.block_bytes) << "but for pages at both ends of two layers";
    EXPECT_EQ(gather(s.get(), slots_of(0, 5)), low);
    EXPECT_EQ(gather(s.get(), slots_of(37, 64)), high);
    const std::vector<float> middle = gather(s.get(), slots_of(15, 27));
    EXPECT_EQ(middle, std::vector<float>(middle.size())) << "fresh pages";
    ASSERT_EQ(kvc_storage_store(s.get(), &rows, nullptr), KVC_OK);
    EXPECT_EQ(gather(s.get(), slots_of(0, 5)), low);
  }
}

TEST(Discard, FromCxx) {
  kvc::Storage s(host_config(KVC_LAYOUT_BLNHC));
  EXPECT_GT(s.discard_blocks(0, 64), 0u);
  EXPECT_THROW(s.discard_blocks(64, 1), kvc::Error);
}

TEST(Discard, BoundsAreChecked) {
  const StoragePtr s = create(host_config(KVC_LAYOUT_BLNHC));
  uint64_t bytes = 77;
  EXPECT_EQ(kvc_storage_discard_blocks(s.get(), 64, 0, &bytes), KVC_OK);
  EXPECT_EQ(bytes, 0u);
  bytes = 77;
  EXPECT_EQ(kvc_storage_discard_blocks(s.get(), 60, 5, &bytes), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("5 blocks from 60 on; the storage has 64"), std::string::npos);
  EXPECT_EQ(kvc_storage_discard_blocks(s.get(), 65, 0, &bytes), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_discard_blocks(s.get(), 1, UINT64_MAX, &bytes), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_storage_discard_blocks(nullptr, 0, 0, &bytes), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(bytes, 77u);
  EXPECT_EQ(kvc_storage_discard_blocks(s.get(), 0, 64, nullptr), KVC_OK);
}

TEST(Discard, TheCallersMemoryIsTheCallers) {
  kvc_storage_config config = host_config(KVC_LAYOUT_BLNHC);
  uint64_t size = 0, bytes = 77;
  ASSERT_EQ(kvc_storage_size(&config, nullptr, &size), KVC_OK);
  std::vector<char> memory(size + 4096, 5);
  const size_t at = 4096 - reinterpret_cast<uintptr_t>(memory.data()) % 4096;
  config.memory = memory.data() + at, config.memory_size = size;
  const StoragePtr s = create(config);
  EXPECT_EQ(kvc_storage_discard_blocks(s.get(), 0, 64, &bytes), KVC_ERROR_UNSUPPORTED);
  EXPECT_NE(std::string(kvc_last_error()).find("the caller's"), std::string::npos);
  EXPECT_EQ(memory[at + size / 2], 5);
  EXPECT_EQ(bytes, 77u);
  kvc_allocator allocator = {};
  allocator.struct_size = sizeof allocator;
  allocator.allocate = [](void*, size_t bytes_wanted, size_t alignment) {
    return aligned_alloc(alignment, (bytes_wanted + alignment - 1) / alignment * alignment);
  };
  allocator.release = [](void*, void* piece, size_t, size_t) { free(piece); };
  kvc_storage_config own = host_config(KVC_LAYOUT_BLNHC);
  own.allocator = &allocator;
  const StoragePtr by_allocator = create(own);
  EXPECT_EQ(kvc_storage_discard_blocks(by_allocator.get(), 0, 64, &bytes), KVC_ERROR_UNSUPPORTED);
}

TEST(Discard, ResidualBlocksAreRefused) {
  kvc_storage_config config = host_config(KVC_LAYOUT_BLNHC);
  config.dtype = KVC_INT8, config.flags = KVC_STORAGE_CHANNEL_KEYS;
  const StoragePtr s = create(config);
  const std::vector<int64_t> slots = {16 * 3};
  std::vector<float> k(128, 1), v(128, 2);
  kvc_rows rows = {};
  rows.struct_size = sizeof rows;
  rows.slots = slots.data(), rows.num_tokens = 1, rows.k = k.data(), rows.v = v.data();
  ASSERT_EQ(kvc_storage_store(s.get(), &rows, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(kvc_storage_discard_blocks(s.get(), 0, 64, nullptr), KVC_ERROR_BUSY);
  EXPECT_NE(std::string(kvc_last_error()).find("block 3 is residual"), std::string::npos) << kvc_last_error();
  EXPECT_EQ(kvc_storage_discard_blocks(s.get(), 4, 60, nullptr), KVC_OK) << kvc_last_error();
  const int32_t block = 3;
  ASSERT_EQ(kvc_storage_zero_blocks(s.get(), &block, 1, nullptr), KVC_OK);
  EXPECT_EQ(kvc_storage_discard_blocks(s.get(), 0, 64, nullptr), KVC_OK) << kvc_last_error();
}

}  // namespace
}  // namespace kvc::test
