// SPDX-License-Identifier: Apache-2.0
// Kernels that store and gather rows leave the bytes that the CPU leaves.
#include <kvcache/model.h>

#include "gpu/storage.h"

namespace kvc::gpu::test {
namespace {

using RowsTest = KernelTest;

// Tokens at slots or by position, some skipped, of which no two are the same.
Rows random_call(std::mt19937& random, const kvc_storage_info& info, int32_t outside,
                 std::vector<int32_t>* table) {
  const uint32_t layers = 1 + static_cast<uint32_t>(random() % info.num_layers);
  std::vector<int64_t> slots = kvc::test::shuffled_slots(random, info);
  const size_t sizes[] = {
      0, 1, info.block_size - size_t{1}, info.block_size, info.block_size + size_t{1}, slots.size()};
  slots.resize(std::min(slots.size(), random() % 2 != 0 ? pick(random, sizes) : random() % 24));
  for (int64_t& slot : slots) {
    if (random() % 8 == 0) slot = -1;
  }
  Rows rows(info, outside, slots, layers);
  rows.rows.first_layer = static_cast<uint32_t>(random() % (info.num_layers - layers + 1));
  if (random() % 2 != 0) {  // by position, through a table that goes on behind its last token
    table->resize(info.num_blocks);
    for (size_t i = 0; i < table->size(); ++i) (*table)[i] = static_cast<int32_t>(i);
    std::shuffle(table->begin(), table->end(), random);
    rows.rows.first_token = random() % (info.num_blocks * info.block_size - slots.size() + 1);
    const uint64_t end = rows.rows.first_token + slots.size();
    for (size_t i = 0; i < table->size(); ++i) {
      if ((i + 1) * info.block_size <= rows.rows.first_token || i * info.block_size >= end)
        (*table)[i] = static_cast<int32_t>(random());  // not for reading
    }
    rows.rows.slots = nullptr;
    rows.rows.block_table = table->data();
    rows.rows.block_table_size = table->size();
  }
  return rows;
}

// Room between rows and between heads.
void spread(Rows* rows, const kvc_storage_info& info, std::mt19937& random) {
  const auto tokens = static_cast<int64_t>(rows->rows.num_tokens);
  const int64_t gap = static_cast<int64_t>(random() % 3) * 4;
  const auto spread_one = [&](uint32_t dim, int64_t* head, int64_t* token, int64_t* layer,
                              std::vector<char>* bytes) {
    *head = dim + gap;
    if (random() % 2 != 0) {  // heads outside of tokens
      *token = *head;
      *head = *token * std::max<int64_t>(tokens, 1);
      *layer = *head * info.num_heads;
    } else {
      *token = *head * info.num_heads + gap;
      *layer = *token * std::max<int64_t>(tokens, 1);
    }
    bytes->resize(static_cast<size_t>(*layer) * rows->rows.num_layers * kvc::test::width(rows->rows.dtype));
  };
  kvc_rows& r = rows->rows;
  spread_one(info.head_dim, &r.k_head_stride, &r.k_token_stride, &r.k_layer_stride, &rows->k);
  if (r.v != nullptr)
    spread_one(info.v_head_dim, &r.v_head_stride, &r.v_token_stride, &r.v_layer_stride, &rows->v);
  r.k = rows->k.data();
  if (r.v != nullptr) r.v = rows->v.data();
}

kvc_storage_config random_config(std::mt19937& random) {
  constexpr uint32_t kBlockSizes[] = {1, 2, 3, 16, 16, 16, 17, 32, 64};
  constexpr uint32_t kDims[] = {1, 2, 7, 8, 20, 32, 64, 64, 96, 128, 128, 192, 256, 300, 576};
  constexpr uint32_t kGroups[] = {0, 0, 4, 5, 8, 16, 24, 32, 64, 128, 256};
  kvc_storage_config c = kvc::test::base_config();
  c.layout = pick(random, kLayouts);
  c.dtype = pick(random, kStoredTypes);
  c.block_size = pick(random, kBlockSizes);
  c.num_heads = 1 + static_cast<uint32_t>(random() % 3);
  c.num_layers = 1 + static_cast<uint32_t>(random() % 3);
  c.head_dim = pick(random, kDims);
  c.v_head_dim = random() % 2 != 0 ? c.head_dim : pick(random, kDims);
  c.num_blocks = 2 + random() % 5;
  const bool quantized =
      c.dtype == KVC_INT8 || c.dtype == KVC_INT4 || c.dtype == KVC_FLOAT8_E4M3 || c.dtype == KVC_FLOAT8_E5M2;
  if (quantized) c.scale_group = pick(random, kGroups);
  if (quantized && c.scale_group == 0 && random() % 2 != 0) c.k_scale = 0.03f, c.v_scale = 1.7f;
  if (random() % 4 == 0) c.flags |= KVC_STORAGE_TILED_KEYS;
  if (random() % 4 == 0) c.flags |= KVC_STORAGE_LATENT, c.num_heads = 1;
  if (random() % 4 == 0) c.flags |= KVC_STORAGE_HADAMARD;
  if (random() % 4 == 0) c.flags |= KVC_STORAGE_ASYMMETRIC;
  return c;
}

void compare(const kvc_storage_config& config, int32_t outside, std::mt19937& random, uint32_t* compared) {
  std::optional<Pair> pair = Pair::make(config, random);
  if (!pair) return;
  ++*compared;
  ASSERT_EQ(unsupported(pair->layout()), nullptr);
  std::vector<int32_t> table;
  Rows in = random_call(random, pair->info(), outside, &table);
  if (random() % 3 == 0) spread(&in, pair->info(), random);
  fill_any(random, outside, in.k);
  fill_any(random, outside, in.v);
  const std::string what = text_of(config) + " outside " + std::to_string(outside) + " tokens " +
                           std::to_string(in.rows.num_tokens);
  ASSERT_EQ(kvc_storage_store(pair->cpu(), &in.rows, nullptr), KVC_OK) << kvc_last_error() << what;
  DeviceRows device_in(in, pair->layout());
  ASSERT_EQ(store_rows(pair->layout(), pair->slab(), device_in.rows(), nullptr), 0) << what;
  ASSERT_EQ(pair->difference(), "") << "store" << what;

  // Gathered into rows that hold something, since skipped ones keep it.
  Rows out = in;
  out.rows.k = out.k.data();
  if (in.rows.v != nullptr) out.rows.v = out.v.data();
  if (in.rows.slots != nullptr) out.rows.slots = out.slots.data();
  fill_any(random, outside, out.k);
  fill_any(random, outside, out.v);
  DeviceRows device_out(out, pair->layout());
  ASSERT_EQ(kvc_storage_gather(pair->cpu(), &out.rows, nullptr), KVC_OK) << kvc_last_error() << what;
  ASSERT_EQ(gather_rows(pair->layout(), pair->slab(), device_out.rows(), nullptr), 0) << what;
  ASSERT_EQ(device_out.k(), out.k) << "gather" << what;
  ASSERT_EQ(device_out.v(), out.v) << "gather" << what;
}

TEST_F(RowsTest, EveryLayoutAndTypeGivesTheBytesOfTheCpu) {
  uint32_t compared = 0;
  for (const uint32_t layout : kLayouts)
    for (const int32_t stored : kStoredTypes)
      for (const int32_t outside : kOutsideTypes)
        for (const uint32_t dim : {20u, 64u}) {
          kvc_storage_config c = kvc::test::base_config();
          c.layout = layout, c.dtype = stored, c.head_dim = dim, c.v_head_dim = dim;
          ASSERT_NO_FATAL_FAILURE(compare(c, outside, random, &compared));
        }
  EXPECT_EQ(compared, std::size(kLayouts) * std::size(kStoredTypes) * std::size(kOutsideTypes) * 2);
}

TEST_F(RowsTest, AnyStorageGivesTheBytesOfTheCpu) {
  uint32_t compared = 0;
  while (compared < rounds(30u)) {
    const kvc_storage_config c = random_config(random);
    ASSERT_NO_FATAL_FAILURE(compare(c, pick(random, kOutsideTypes), random, &compared));
  }
}

TEST_F(RowsTest, EveryQuantizedFormatGivesTheBytesOfTheCpu) {
  uint32_t compared = 0;
  for (const int32_t dtype : {KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2})
    for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_ASYMMETRIC}})
      for (const uint32_t dim : {1u, 7u, 64u, 128u, 200u, 1000u})
        for (const uint32_t group : {0u, 5u, 32u, 64u, 999u})
          for (const float scale : {0.0f, 0.25f}) {
            const bool is_fp8 = dtype == KVC_FLOAT8_E4M3 || dtype == KVC_FLOAT8_E5M2;
            if ((is_fp8 || scale != 0) && flags != 0) continue;
            if (scale != 0 && group != 0) continue;
            kvc_storage_config c = kvc::test::base_config();
            c.dtype = dtype, c.flags = flags, c.head_dim = c.v_head_dim = dim, c.scale_group = group;
            c.k_scale = c.v_scale = scale;
            ASSERT_NO_FATAL_FAILURE(compare(c, KVC_FLOAT32, random, &compared));
          }
  EXPECT_EQ(compared, 204u);
}

TEST_F(RowsTest, EveryBlockSizeOfTiledKeysGivesTheBytesOfTheCpu) {
  uint32_t compared = 0;
  for (const uint32_t layout : {KVC_LAYOUT_LBHNC, KVC_LAYOUT_BLHNC, KVC_LAYOUT_BHLNC})
    for (const int32_t stored : kOutsideTypes)
      for (const uint32_t block_size : {16u, 48u, 1024u}) {
        kvc_storage_config c = kvc::test::base_config();
        c.layout = layout, c.dtype = stored, c.block_size = block_size, c.flags = KVC_STORAGE_TILED_KEYS;
        c.num_layers = 1, c.num_blocks = 2;
        ASSERT_NO_FATAL_FAILURE(compare(c, pick(random, kOutsideTypes), random, &compared));
      }
  EXPECT_EQ(compared, 27u);
}

TEST_F(RowsTest, ALongRowGivesTheBytesOfTheCpu) {
  uint32_t compared = 0;
  for (const uint32_t flags : {0u, uint32_t{KVC_STORAGE_HADAMARD}}) {
    kvc_storage_config c = kvc::test::base_config();
    c.dtype = KVC_INT4, c.head_dim = 8192, c.v_head_dim = 4096, c.flags = flags, c.num_heads = 1,
    c.num_blocks = 2;
    ASSERT_NO_FATAL_FAILURE(compare(c, KVC_FLOAT16, random, &compared));
  }
  EXPECT_EQ(compared, 2u);
}

TEST_F(RowsTest, ValuesAloneAndKeysAloneLeaveTheOtherPlane) {
  std::optional<Pair> pair = Pair::make(kvc::test::base_config(), random);
  ASSERT_TRUE(pair);
  const std::vector<char> before = pair->device_bytes();
  Rows rows(pair->info(), KVC_FLOAT32, {3, 9}, 1);
  fill_any(random, KVC_FLOAT32, rows.k);
  fill_any(random, KVC_FLOAT32, rows.v);
  for (const bool keys : {false, true}) {
    pair->fill(random);
    const std::vector<char> old = pair->device_bytes();
    DeviceRows device(rows, pair->layout());
    (keys ? device.rows().v : device.rows().k) = nullptr;
    ASSERT_EQ(store_rows(pair->layout(), pair->slab(), device.rows(), nullptr), 0);
    const std::vector<char> now = pair->device_bytes();
    EXPECT_NE(old, now);
    const Plane& other = keys ? pair->layout().v : pair->layout().k;
    for (const uint64_t slot : {3u, 9u}) {
      for (uint32_t h = 0; h < 2; ++h) {
        const uint64_t at = other.offset(0, slot / 4, h, slot % 4);
        EXPECT_EQ(std::memcmp(&old[at], &now[at], other.row_bytes), 0);
      }
    }
  }
}

// ---- rotary embedding on the way ----

void compare_rotary(const kvc_storage_config& config, int32_t outside, std::mt19937& random,
                    uint32_t* compared) {
  std::optional<Pair> pair = Pair::make(config, random);
  if (!pair) return;
  const kvc_storage_info info = pair->info();
  if (info.head_dim < 2) return;
  ++*compared;
  std::vector<int32_t> blocks;
  Rows rows = random_call(random, info, outside, &blocks);
  fill_any(random, outside, rows.k, true);  // arithmetic gives NaNs other bits on other devices
  fill_any(random, outside, rows.v);
  constexpr size_t kTableRows = 50;
  kvc_rope_rows rope = {};
  rope.struct_size = sizeof rope;
  rope.rope_dim = random() % 2 != 0 ? info.head_dim / 2 * 2
                                    : 2 * (1 + static_cast<uint32_t>(random() % (info.head_dim / 2)));
  rope.first_element = info.head_dim - rope.rope_dim;
  if (random() % 2 != 0) rope.first_element = 0;
  rope.flags = random() % 2 != 0 ? uint32_t{KVC_ROPE_ROWS_INTERLEAVED} : 0u;
  std::vector<float> table(std::max(kTableRows, rows.rows.num_tokens) * rope.rope_dim);
  std::uniform_real_distribution<float> unit(-1, 1);
  for (float& x : table) x = unit(random);
  std::vector<int64_t> table_row(rows.rows.num_tokens);
  for (int64_t& x : table_row) x = static_cast<int64_t>(random() % kTableRows);
  const bool by_row = random() % 2 != 0;

  DeviceRows device(rows, pair->layout());
  DeviceArray<float> device_table(table);
  DeviceArray<int64_t> device_table_row(table_row);
  device.rows().rotary = {device_table.data(),
                          by_row ? device_table_row.data() : nullptr,
                          table.size() / rope.rope_dim,
                          rope.rope_dim,
                          rope.first_element,
                          rope.flags != 0,
                          0};

  rope.table = table.data();
  rope.table_rows = table.size() / rope.rope_dim;
  rope.table_row = by_row ? table_row.data() : nullptr;
  rope.x = rows.k.data();
  rope.num_tokens = rows.rows.num_tokens;
  rope.num_heads = info.num_heads;
  rope.head_dim = info.head_dim;
  rope.dtype = outside;
  const std::string what = text_of(config) + " outside " + std::to_string(outside) + " rope_dim " +
                           std::to_string(rope.rope_dim) + " first " + std::to_string(rope.first_element) +
                           " flags " + std::to_string(rope.flags);
  for (uint32_t l = 0; l < rows.rows.num_layers && rope.num_tokens != 0; ++l) {
    rope.x = rows.k.data() + l * (rows.k.size() / rows.rows.num_layers);
    ASSERT_EQ(kvc_rope_apply(&rope), KVC_OK) << kvc_last_error() << what;
  }
  ASSERT_EQ(kvc_storage_store(pair->cpu(), &rows.rows, nullptr), KVC_OK) << kvc_last_error() << what;
  ASSERT_EQ(store_rows(pair->layout(), pair->slab(), device.rows(), nullptr), 0) << what;
  ASSERT_EQ(pair->difference(), "") << what;
}

TEST_F(RowsTest, KeysThatAStoreRotatesEqualThoseRotatedBefore) {
  uint32_t compared = 0;
  while (compared < 60) {
    const kvc_storage_config c = random_config(random);
    ASSERT_NO_FATAL_FAILURE(compare_rotary(c, pick(random, kOutsideTypes), random, &compared));
  }
}

}  // namespace
}  // namespace kvc::gpu::test
