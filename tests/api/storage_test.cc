// SPDX-License-Identifier: Apache-2.0
// Rows of a storage: what is stored comes back.
#include "api/storage.h"

#include <cstring>

#include "rounds.h"

namespace kvc::test {
namespace {

TEST(Storage, WhatWasStoredInItsTypeComesBackBitByBit) {
  std::mt19937 random(1);
  Sample sample;
  for (const uint32_t layout : kLayouts)
    for (const int32_t dtype : {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16})
      for (const uint32_t block_size : {1u, 2u, 4u, 16u, 64u})
        for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_TILED_KEYS}, uint32_t{KVC_STORAGE_LATENT}})
          for (const uint32_t threads : {1u, 3u}) {
            kvc_storage_config c = base_config();
            c.layout = layout, c.dtype = dtype, c.block_size = block_size, c.flags = flags,
            c.num_threads = threads;
            if (flags == KVC_STORAGE_TILED_KEYS &&
                (block_size % 16 != 0 || layout == KVC_LAYOUT_LBNHC || layout == KVC_LAYOUT_BLNHC))
              continue;
            if (!sample.takes_next()) continue;
            const StoragePtr s = make(c);
            const kvc_storage_info info = info_of(s.get());
            Rows in(info, dtype, shuffled_slots(random, info), 3);
            in.fill(random);
            ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK) << kvc_last_error();
            Rows out(info, dtype, in.slots, 3);
            ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
            ASSERT_EQ(in.k, out.k) << "layout " << layout << " dtype " << dtype << " block " << block_size;
            if (flags != KVC_STORAGE_LATENT) {
              ASSERT_EQ(in.v, out.v);
            }
          }
}

TEST(Storage, LayersHoldDifferentRows) {
  std::mt19937 random(2);
  const StoragePtr s = make(base_config());
  const kvc_storage_info info = info_of(s.get());
  Rows all(info, KVC_BFLOAT16, {5, 9}, 3);
  all.fill(random);
  ASSERT_EQ(kvc_storage_store(s.get(), &all.rows, nullptr), KVC_OK);
  for (uint32_t layer = 0; layer < 3; ++layer) {
    Rows one(info, KVC_BFLOAT16, {5, 9}, 1);
    one.rows.first_layer = layer;
    ASSERT_EQ(kvc_storage_gather(s.get(), &one.rows, nullptr), KVC_OK);
    EXPECT_TRUE(
        std::equal(one.k.begin(), one.k.end(), all.k.begin() + static_cast<ptrdiff_t>(layer * one.k.size())));
    EXPECT_TRUE(
        std::equal(one.v.begin(), one.v.end(), all.v.begin() + static_cast<ptrdiff_t>(layer * one.v.size())));
  }
}

TEST(Storage, ASlotOfMinusOneLeavesMemoryAndRowsAlone) {
  std::mt19937 random(3);
  const StoragePtr s = make(base_config());
  const kvc_storage_info info = info_of(s.get());
  Rows none(info, KVC_FLOAT32, {-1, -1}, 3);
  none.fill(random);
  const std::vector<char> before = bytes_of(s.get()), k = none.k;
  ASSERT_EQ(kvc_storage_store(s.get(), &none.rows, nullptr), KVC_OK);
  EXPECT_EQ(bytes_of(s.get()), before);
  ASSERT_EQ(kvc_storage_gather(s.get(), &none.rows, nullptr), KVC_OK);
  EXPECT_EQ(none.k, k);
}

TEST(Storage, OnlyTheNamedSlotsChange) {
  std::mt19937 random(4);
  for (const uint32_t layout : kLayouts) {
    kvc_storage_config c = base_config();
    c.layout = layout, c.dtype = KVC_INT8, c.scale_group = 8;
    const StoragePtr s = make(c);
    const kvc_storage_info info = info_of(s.get());
    Rows all(info, KVC_FLOAT32, shuffled_slots(random, info), 3);
    all.fill(random);
    ASSERT_EQ(kvc_storage_store(s.get(), &all.rows, nullptr), KVC_OK);
    Rows before(info, KVC_FLOAT32, all.slots, 3);
    ASSERT_EQ(kvc_storage_gather(s.get(), &before.rows, nullptr), KVC_OK);
    Rows some(info, KVC_FLOAT32, {all.slots[3], all.slots[11]}, 1);
    some.rows.first_layer = 1;
    some.fill(random);
    ASSERT_EQ(kvc_storage_store(s.get(), &some.rows, nullptr), KVC_OK);
    Rows after(info, KVC_FLOAT32, all.slots, 3);
    ASSERT_EQ(kvc_storage_gather(s.get(), &after.rows, nullptr), KVC_OK);
    const size_t token = info.num_heads * info.head_dim * 4, tokens = all.slots.size();
    for (size_t i = 0; i < 3 * tokens; ++i) {
      const bool written = i == tokens + 3 || i == tokens + 11;
      EXPECT_EQ(std::memcmp(&before.k[i * token], &after.k[i * token], token) != 0, written);
    }
  }
}

TEST(Storage, PositionsThroughATableAreTheSameAsSlots) {
  std::mt19937 random(5);
  const StoragePtr s = make(base_config());
  const kvc_storage_info info = info_of(s.get());
  const int32_t table[] = {6, -1, 2, 0};  // position 1 is not touched
  std::vector<int64_t> slots;
  for (int64_t p = 9; p < 15; ++p) slots.push_back(table[p / 4] * 4 + p % 4);
  Rows in(info, KVC_FLOAT32, slots, 3);
  in.fill(random);
  in.rows.slots = nullptr, in.rows.block_table = table, in.rows.block_table_size = 4, in.rows.first_token = 9;
  ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK) << kvc_last_error();
  Rows a(info, KVC_FLOAT32, slots, 3), b(info, KVC_FLOAT32, slots, 3);
  b.rows.slots = nullptr, b.rows.block_table = table, b.rows.block_table_size = 4, b.rows.first_token = 9;
  ASSERT_EQ(kvc_storage_gather(s.get(), &a.rows, nullptr), KVC_OK);
  ASSERT_EQ(kvc_storage_gather(s.get(), &b.rows, nullptr), KVC_OK);
  EXPECT_EQ(a.k, b.k);
  EXPECT_EQ(a.v, b.v);
  EXPECT_NE(a.k, std::vector<char>(a.k.size()));
}

TEST(Storage, ACallersStridesAreFollowed) {
  std::mt19937 random(6);
  const StoragePtr s = make(base_config());
  const kvc_storage_info info = info_of(s.get());
  Rows plain(info, KVC_FLOAT32, {3, 8, 20}, 2);
  plain.fill(random);
  // The same values as [head][token][layer][dim + 5].
  const int64_t dim = info.head_dim + 5, vdim = info.v_head_dim + 5;
  std::vector<float> k(static_cast<size_t>(2 * 3 * 2 * dim)), v(static_cast<size_t>(2 * 3 * 2 * vdim));
  for (int64_t l = 0; l < 2; ++l)
    for (int64_t t = 0; t < 3; ++t)
      for (int64_t h = 0; h < 2; ++h) {
        std::memcpy(&k[static_cast<size_t>(((h * 3 + t) * 2 + l) * dim)],
                    &plain.k[static_cast<size_t>((l * 3 + t) * 2 + h) * info.head_dim * 4],
                    info.head_dim * 4);
        std::memcpy(&v[static_cast<size_t>(((h * 3 + t) * 2 + l) * vdim)],
                    &plain.v[static_cast<size_t>((l * 3 + t) * 2 + h) * info.v_head_dim * 4],
                    info.v_head_dim * 4);
      }
  kvc_rows strided = plain.rows;
  strided.k = k.data(), strided.v = v.data();
  strided.k_layer_stride = dim, strided.k_token_stride = 2 * dim, strided.k_head_stride = 6 * dim;
  strided.v_layer_stride = vdim, strided.v_token_stride = 2 * vdim, strided.v_head_stride = 6 * vdim;
  const StoragePtr other = make(base_config());
  ASSERT_EQ(kvc_storage_store(s.get(), &plain.rows, nullptr), KVC_OK);
  ASSERT_EQ(kvc_storage_store(other.get(), &strided, nullptr), KVC_OK);
  EXPECT_EQ(bytes_of(s.get()), bytes_of(other.get()));
}

}  // namespace
}  // namespace kvc::test
