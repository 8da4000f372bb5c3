// SPDX-License-Identifier: Apache-2.0
// Blocks of a storage as bytes: copies, views, foreign memory, addresses past 32 bits.
#include <sys/mman.h>

#include "api/storage.h"

namespace kvc::test {
namespace {

TEST(Storage, CopiedBlocksAreEqualInAllLayersAndOthersAreAsBefore) {
  std::mt19937 random(8);
  for (const uint32_t layout : kLayouts) {
    kvc_storage_config c = base_config();
    c.layout = layout;
    const StoragePtr s = make(c);
    const kvc_storage_info info = info_of(s.get());
    Rows all(info, KVC_BFLOAT16, shuffled_slots(random, info), 3);
    std::sort(all.slots.begin(), all.slots.end());
    all.fill(random);
    ASSERT_EQ(kvc_storage_store(s.get(), &all.rows, nullptr), KVC_OK);
    const kvc_block_copy copies[] = {{1, 4}, {4, 6}, {2, 2}};  // in order: 6 gets what 1 had
    ASSERT_EQ(kvc_storage_copy_blocks(s.get(), copies, 3, nullptr), KVC_OK);
    const int32_t zeroed[] = {3};
    ASSERT_EQ(kvc_storage_zero_blocks(s.get(), zeroed, 1, nullptr), KVC_OK);
    Rows out(info, KVC_BFLOAT16, all.slots, 3);
    ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
    const size_t token = info.num_heads * info.v_head_dim * 2, block = token * info.block_size;
    const int from[] = {0, 1, 2, -1, 1, 5, 1};
    for (size_t l = 0; l < 3; ++l)
      for (size_t b = 0; b < 7; ++b) {
        const std::vector<char> now(&out.v[(l * 7 + b) * block], &out.v[(l * 7 + b) * block] + block);
        const std::vector<char> wanted =
            from[b] < 0 ? std::vector<char>(block)
                        : std::vector<char>(&all.v[(l * 7 + static_cast<size_t>(from[b])) * block],
                                            &all.v[(l * 7 + static_cast<size_t>(from[b])) * block] + block);
        EXPECT_EQ(now, wanted) << "layer " << l << ", block " << b;
      }
  }
}

TEST(Storage, ViewsPointAtTheStoredRows) {
  std::mt19937 random(9);
  for (const uint32_t layout : kLayouts) {
    kvc_storage_config c = base_config();
    c.layout = layout, c.dtype = KVC_FLOAT32;
    const StoragePtr s = make(c);
    const kvc_storage_info info = info_of(s.get());
    Rows in(info, KVC_FLOAT32, shuffled_slots(random, info), 3);
    in.fill(random);
    ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK);
    for (uint32_t layer = 0; layer < 3; ++layer) {
      kvc_view view;
      ASSERT_EQ(kvc_storage_view(s.get(), KVC_PLANE_V, layer, &view), KVC_OK);
      EXPECT_EQ(view.ndim, 4);
      EXPECT_EQ(view.dtype, KVC_FLOAT32);
      EXPECT_EQ(view.shape[0], 7);
      EXPECT_EQ(view.shape[3], 12);
      for (size_t t = 0; t < in.slots.size(); ++t)
        for (int64_t h = 0; h < 2; ++h) {
          const char* row = static_cast<const char*>(view.data) + in.slots[t] / 4 * view.strides[0] +
                            h * view.strides[1] + in.slots[t] % 4 * view.strides[2];
          const size_t at = ((layer * in.slots.size() + t) * 2 + static_cast<size_t>(h)) * 12 * 4;
          EXPECT_EQ(std::memcmp(row, &in.v[at], 12 * 4), 0);
        }
    }
    kvc_view none;
    EXPECT_EQ(kvc_storage_view(s.get(), KVC_PLANE_K_SCALE, 0, &none), KVC_ERROR_NOT_FOUND);
    EXPECT_EQ(kvc_storage_view(s.get(), 4, 0, &none), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(kvc_storage_view(s.get(), 0, 3, &none), KVC_ERROR_INVALID_ARGUMENT);
  }
}

TEST(Storage, ForeignMemoryIsUsedInPlaceAndSurvives) {
  kvc_storage_config c = base_config();
  uint64_t block_bytes = 0, slab_bytes = 0;
  ASSERT_EQ(kvc_storage_size(&c, &block_bytes, &slab_bytes), KVC_OK);
  EXPECT_EQ(slab_bytes, 7 * block_bytes);
  std::vector<char> memory(slab_bytes + 64 + 8, 0x5a);
  char* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  c.memory = aligned, c.memory_size = slab_bytes;
  {
    const StoragePtr s = make(c);
    EXPECT_EQ(info_of(s.get()).data, aligned);
    EXPECT_EQ(std::count(aligned, aligned + slab_bytes, 0x5a), static_cast<ptrdiff_t>(slab_bytes))
        << "adopted as it is";
    const int32_t blocks[] = {0, 1, 2, 3, 4, 5, 6};
    ASSERT_EQ(kvc_storage_zero_blocks(s.get(), blocks, 7, nullptr), KVC_OK);
  }
  EXPECT_EQ(std::count(aligned, aligned + slab_bytes, 0), static_cast<ptrdiff_t>(slab_bytes));
  EXPECT_EQ(memory.back(), 0x5a);
  kvc_storage* none = nullptr;
  c.memory_size = slab_bytes - 1;
  EXPECT_EQ(kvc_storage_create(&c, &none), KVC_ERROR_INVALID_ARGUMENT);
  c.memory_size = slab_bytes, c.memory = aligned + 8;
  EXPECT_EQ(kvc_storage_create(&c, &none), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
}

TEST(Storage, AddressesPastFourGigabytesWork) {
  if (!shares_host_memory()) GTEST_SKIP() << "the device cannot read pages without memory behind them";
  kvc_storage_config c = base_config();
  c.num_blocks = 6000000, c.num_layers = 2;
  uint64_t slab_bytes = 0;
  ASSERT_EQ(kvc_storage_size(&c, nullptr, &slab_bytes), KVC_OK);
  ASSERT_GT(slab_bytes, uint64_t{5} << 30);
  void* memory =
      mmap(nullptr, slab_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no " << slab_bytes << " bytes of address space";
  c.memory = memory, c.memory_size = slab_bytes;
  {
    std::mt19937 random(10);
    const StoragePtr s = make(c);
    const kvc_storage_info info = info_of(s.get());
    Rows in(info, KVC_BFLOAT16, {0, 6000000ll * 4 - 1, 4500000ll * 4 + 2}, 2),
        out(info, KVC_BFLOAT16, in.slots, 2);
    in.fill(random);
    ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK);
    const kvc_block_copy copy = {5999999, 17};
    ASSERT_EQ(kvc_storage_copy_blocks(s.get(), &copy, 1, nullptr), KVC_OK);
    ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
    EXPECT_EQ(in.k, out.k);
    EXPECT_EQ(in.v, out.v);
    out.slots[1] = 17 * 4 + 3;
    ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
    EXPECT_EQ(in.k, out.k);
  }
  munmap(memory, slab_bytes);
}

}  // namespace
}  // namespace kvc::test
