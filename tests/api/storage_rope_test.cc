// SPDX-License-Identifier: Apache-2.0
// Stores that rotate keys on their way leave the bytes of kvc_rope_apply and a store after it.
#include <kvcache/model.h>

#include <iterator>
#include <string>

#include "api/channels.h"

namespace kvc::test {
namespace {

// Rows with a table, and what kvc_rope_apply makes of their keys.
struct RotatedRows {
  Rows rows, before;  // the keys as they are, and rotated before the store
  std::vector<float> table;
  std::vector<int64_t> table_row;

  RotatedRows(std::mt19937& random, const kvc_storage_info& info, int32_t outside, std::vector<int64_t> slots)
      : rows(info, outside, slots, info.num_layers), before(info, outside, slots, info.num_layers) {
    rows.fill(random);
    before.k = rows.k, before.v = rows.v;
    before.rows.k = before.k.data();
    if (before.rows.v != nullptr) before.rows.v = before.v.data();
    const uint32_t pairs = info.head_dim / 2;
    const uint32_t dim = random() % 2 != 0 ? 2 * pairs : 2 * (1 + static_cast<uint32_t>(random()) % pairs);
    const size_t table_rows = rows.slots.size() + random() % 3;
    table.resize(table_rows * dim);
    std::uniform_real_distribution<float> unit(-1, 1);
    for (float& x : table) x = unit(random);
    table_row.resize(rows.slots.size());
    for (int64_t& x : table_row) x = static_cast<int64_t>(random() % table_rows);
    kvc_rows& r = rows.rows;
    r.rope_table = table.data(), r.rope_table_rows = table_rows;
    r.rope_rows = random() % 2 != 0 ? table_row.data() : nullptr;
    r.rope_dim = dim != info.head_dim ? dim : 0;
    r.rope_first_element = random() % 2 != 0 ? info.head_dim - dim : 0;
    r.flags = random() % 2 != 0 ? uint32_t{KVC_ROWS_ROPE_INTERLEAVED} : 0u;
    apply(info);
  }

  std::string text() const {
    const kvc_rows& r = rows.rows;
    return " outside " + std::to_string(r.dtype) + " rope_dim " + std::to_string(r.rope_dim) + " first " +
           std::to_string(r.rope_first_element) + " flags " + std::to_string(r.flags) +
           (r.rope_rows != nullptr ? " by row" : " in order");
  }

 private:
  void apply(const kvc_storage_info& info) {
    kvc_rope_rows rope = {};
    rope.struct_size = sizeof rope;
    rope.num_tokens = rows.slots.size() * info.num_layers;
    std::vector<int64_t> everywhere;
    for (uint32_t l = 0; l < info.num_layers; ++l) {
      for (size_t t = 0; t < rows.slots.size(); ++t)
        everywhere.push_back(rows.rows.rope_rows != nullptr ? table_row[t] : static_cast<int64_t>(t));
    }
    rope.x = before.k.data();
    rope.table = table.data(), rope.table_rows = rows.rows.rope_table_rows;
    rope.table_row = everywhere.data();
    rope.num_heads = info.num_heads, rope.head_dim = info.head_dim;
    rope.rope_dim = rows.rows.rope_dim, rope.first_element = rows.rows.rope_first_element;
    rope.dtype = rows.rows.dtype;
    if ((rows.rows.flags & KVC_ROWS_ROPE_INTERLEAVED) != 0) rope.flags = KVC_ROPE_ROWS_INTERLEAVED;
    ASSERT_EQ(kvc_rope_apply(&rope), KVC_OK) << kvc_last_error();
  }
};

constexpr int32_t kOutside[] = {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16};

void expect_same(const kvc_storage_config& config, std::mt19937& random, int32_t outside) {
  const StoragePtr rotating = make(config), plain = make(config);
  ASSERT_TRUE(rotating != nullptr && plain != nullptr);
  const kvc_storage_info info = info_of(plain.get());
  std::vector<int64_t> slots = shuffled_slots(random, info);
  slots.resize(slots.size() - random() % info.block_size);
  for (int64_t& slot : slots) {
    if (random() % 8 == 0) slot = -1;
  }
  RotatedRows rotated(random, info, outside, slots);
  std::vector<int32_t> table(info.num_blocks);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(table.size() - 1 - i);
  if (random() % 2 != 0) {
    for (kvc_rows* rows : {&rotated.rows.rows, &rotated.before.rows}) {
      rows->slots = nullptr, rows->block_table = table.data(), rows->block_table_size = table.size();
      rows->first_token = info.num_blocks * info.block_size - slots.size();
    }
  }
  const std::vector<char> k = rotated.rows.k;
  ASSERT_EQ(kvc_storage_store(rotating.get(), &rotated.rows.rows, nullptr), KVC_OK) << kvc_last_error();
  ASSERT_EQ(kvc_storage_store(plain.get(), &rotated.before.rows, nullptr), KVC_OK) << kvc_last_error();
  ASSERT_EQ(rotated.rows.k, k);
  ASSERT_NE(rotated.before.k, k);
  ASSERT_EQ(bytes_of(rotating.get()), bytes_of(plain.get()))
      << "layout " << config.layout << " dtype " << config.dtype << " flags " << config.flags << " dim "
      << config.head_dim << rotated.text();
}

TEST(StorageRope, KeysRotateOnTheirWayAsBeforeIt) {
  std::mt19937 random(71);
  for (const uint32_t layout : kLayouts)
    for (const int32_t dtype : {KVC_FLOAT32, KVC_FLOAT16, KVC_BFLOAT16})
      for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_TILED_KEYS}, uint32_t{KVC_STORAGE_LATENT}})
        for (const int32_t outside : kOutside) {
          if (flags == KVC_STORAGE_TILED_KEYS && (layout == KVC_LAYOUT_LBNHC || layout == KVC_LAYOUT_BLNHC))
            continue;
          kvc_storage_config c = base_config();
          c.layout = layout, c.dtype = dtype, c.flags = flags, c.head_dim = random() % 2 != 0 ? 20 : 64;
          c.block_size = 16, c.num_threads = 1 + static_cast<uint32_t>(random() % 3);
          ASSERT_NO_FATAL_FAILURE(expect_same(c, random, outside));
        }
}

TEST(StorageRope, KeysRotateBeforeTheyAreQuantized) {
  std::mt19937 random(72);
  size_t count = 0;  // the types of rows by turns: emulated kernels take their time
  for (const int32_t dtype : {KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2, KVC_INT8, KVC_INT4})
    for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_ASYMMETRIC}, uint32_t{KVC_STORAGE_HADAMARD}})
      for (const uint32_t group : {0u, 5u, 16u}) {
        if (flags == KVC_STORAGE_ASYMMETRIC && dtype != KVC_INT8 && dtype != KVC_INT4) continue;
        kvc_storage_config c = base_config();
        c.dtype = dtype, c.flags = flags, c.scale_group = group;
        c.head_dim = c.v_head_dim = 64, c.num_threads = 1 + static_cast<uint32_t>(random() % 3);
        ASSERT_NO_FATAL_FAILURE(expect_same(c, random, kOutside[count++ % std::size(kOutside)]));
      }
}

// Open keys are bf16 rows that no byte of the slab shows; they come back by a gather.
TEST(StorageRope, ChannelKeysRotateBeforeTheyAreStored) {
  std::mt19937 random(73);
  for (const int32_t outside : kOutside)
    for (const int32_t dtype : {KVC_INT8, KVC_INT4})
      for (const uint32_t threads : {1u, 3u}) {
        kvc_storage_config c = channel_config(dtype);
        c.num_threads = threads;
        const StoragePtr rotating = make(c), plain = make(c);
        const kvc_storage_info info = info_of(plain.get());
        std::vector<int64_t> slots = slots_of_block(2, 0, 4);  // one whole block, and parts of others
        for (const int64_t slot : {13, 14, -1, 17, 5}) slots.push_back(slot);
        const RotatedRows rotated(random, info, outside, slots);
        store(rotating.get(), rotated.rows), store(plain.get(), rotated.before);
        ASSERT_TRUE(is_residual(rotating.get(), 3));
        ASSERT_FALSE(is_residual(rotating.get(), 2));
        for (uint32_t l = 0; l < info.num_layers; ++l)
          ASSERT_EQ(keys_of(rotating.get(), l), keys_of(plain.get(), l)) << rotated.text();
        ASSERT_EQ(bytes_of(rotating.get()), bytes_of(plain.get())) << rotated.text();
      }
}

TEST(StorageRope, WhatDoesNotFitIsRefusedAndChangesNothing) {
  std::mt19937 random(74);
  const StoragePtr s = make(base_config());  // 20 elements
  RotatedRows rotated(random, info_of(s.get()), KVC_FLOAT32, {1, -1, 3});
  const std::vector<char> before = bytes_of(s.get());
  using R = kvc_rows;
  const auto refused = [&](auto&& change) {
    R rows = rotated.rows.rows;
    rows.rope_dim = 20, rows.rope_first_element = 0, rows.rope_table_rows = 3;
    change(rows);
    EXPECT_EQ(kvc_storage_store(s.get(), &rows, nullptr), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(bytes_of(s.get()), before);
  };
  const int64_t past[] = {0, 1, 3}, negative[] = {-1, 0, 0}, of_skipped[] = {0, -1, 0};
  refused([&](R& r) { r.rope_rows = past; });
  refused([&](R& r) { r.rope_rows = negative; });
  refused([&](R& r) { r.rope_rows = of_skipped; });
  refused([](R& r) { r.rope_rows = nullptr, r.rope_table_rows = 2; });
  refused([](R& r) { r.rope_table_rows = 0; });
  refused([](R& r) { r.rope_table_rows = SIZE_MAX; });
  refused([](R& r) { r.rope_dim = 5; });
  refused([](R& r) { r.rope_dim = 22; });
  refused([](R& r) { r.rope_first_element = 2; });
  refused([](R& r) { r.rope_first_element = UINT32_MAX; });
  refused([](R& r) { r.rope_dim = 0, r.rope_first_element = 2; });
  refused([](R& r) { r.slots = nullptr; });
}

TEST(StorageRope, WhatIsStoredIsRotatedAlready) {
  std::mt19937 random(75);
  kvc_storage_config c = base_config();
  c.dtype = KVC_FLOAT32;
  const StoragePtr s = make(c);
  RotatedRows rotated(random, info_of(s.get()), KVC_FLOAT32, {1, 2, 3});
  const std::vector<char> k = rotated.rows.k;
  kvc_quant_metrics keys = {sizeof keys, 9, 9, 9, 9, 9, 9, 9};
  const auto says = [](const char* part) {
    return std::string(kvc_last_error()).find(part) != std::string::npos;
  };
  EXPECT_EQ(kvc_storage_gather(s.get(), &rotated.rows.rows, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("as they are stored")) << kvc_last_error();
  EXPECT_EQ(rotated.rows.k, k);
  EXPECT_EQ(kvc_storage_measure(s.get(), &rotated.rows.rows, &keys, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("kvc_rope_apply")) << kvc_last_error();
  EXPECT_EQ(keys.bytes, 9u);
  // Without a table nothing else is read.
  const int64_t anything[] = {-7, INT64_MAX, 0};
  rotated.rows.rows.rope_table = nullptr, rotated.rows.rows.rope_rows = anything;
  rotated.rows.rows.rope_dim = UINT32_MAX, rotated.rows.rows.rope_table_rows = 0;
  ASSERT_EQ(kvc_storage_store(s.get(), &rotated.rows.rows, nullptr), KVC_OK) << kvc_last_error();
  std::fill(rotated.rows.k.begin(), rotated.rows.k.end(), char{0});
  ASSERT_EQ(kvc_storage_gather(s.get(), &rotated.rows.rows, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(rotated.rows.k, k);
}

}  // namespace
}  // namespace kvc::test
