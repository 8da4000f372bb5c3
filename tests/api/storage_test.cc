// SPDX-License-Identifier: Apache-2.0
// kvc_storage_*: what is stored comes back, what is refused changes nothing.
#include <gtest/gtest.h>
#include <kvcache.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace {

struct Deleter {
  void operator()(kvc_storage* s) const { kvc_storage_destroy(s); }
};
using StoragePtr = std::unique_ptr<kvc_storage, Deleter>;

kvc_storage_config base_config() {
  kvc_storage_config c = {};
  c.struct_size = sizeof c;
  c.num_blocks = 7;
  c.num_layers = 3;
  c.num_heads = 2;
  c.head_dim = 20;
  c.v_head_dim = 12;
  c.block_size = 4;
  return c;
}

StoragePtr make(const kvc_storage_config& config) {
  kvc_storage* s = nullptr;
  EXPECT_EQ(kvc_storage_create(&config, &s), KVC_OK) << kvc_last_error();
  return StoragePtr(s);
}

kvc_storage_info info_of(kvc_storage* s) {
  kvc_storage_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_storage_properties(s, &info), KVC_OK);
  return info;
}

std::vector<char> bytes_of(kvc_storage* s) {
  const kvc_storage_info info = info_of(s);
  const char* data = static_cast<const char*>(info.data);
  return {data, data + info.slab_bytes};
}

size_t width(int32_t dtype) { return dtype == KVC_FLOAT32 ? 4 : 2; }

// Random rows of a type as bytes; any bit pattern but NaN, so that they compare.
std::vector<char> random_rows(std::mt19937& random, int32_t dtype, size_t count) {
  std::vector<char> out(count * width(dtype));
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < count; ++i) {
    const float value = normal(random);
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    if (dtype == KVC_FLOAT32) std::memcpy(&out[i * 4], &bits, 4);
    const auto half = static_cast<uint16_t>(dtype == KVC_FLOAT16 ? random() % 0x7c00 : bits >> 16);
    if (dtype != KVC_FLOAT32) std::memcpy(&out[i * 2], &half, 2);
  }
  return out;
}

struct Rows {
  kvc_rows rows = {};
  std::vector<char> k, v;
  std::vector<int64_t> slots;

  Rows(const kvc_storage_info& info, int32_t dtype, std::vector<int64_t> where, uint32_t layers)
      : slots(where) {
    rows.struct_size = sizeof rows;
    rows.dtype = dtype;
    rows.num_layers = layers;
    rows.num_tokens = slots.size();
    rows.slots = slots.data();
    k.resize(layers * slots.size() * info.num_heads * info.head_dim * width(dtype));
    v.resize(layers * slots.size() * info.num_heads * info.v_head_dim * width(dtype));
    rows.k = k.data();
    rows.v = (info.flags & KVC_STORAGE_LATENT) != 0 ? nullptr : v.data();
  }
  void fill(std::mt19937& random) {
    const std::vector<char> a = random_rows(random, rows.dtype, k.size() / width(rows.dtype));
    const std::vector<char> b = random_rows(random, rows.dtype, v.size() / width(rows.dtype));
    std::memcpy(k.data(), a.data(), k.size());
    std::memcpy(v.data(), b.data(), v.size());
  }
};

std::vector<int64_t> shuffled_slots(std::mt19937& random, const kvc_storage_info& info) {
  std::vector<int64_t> slots(info.num_blocks * info.block_size);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  std::shuffle(slots.begin(), slots.end(), random);
  return slots;
}

constexpr uint32_t kLayouts[] = {KVC_LAYOUT_LBHNC, KVC_LAYOUT_LBNHC, KVC_LAYOUT_BLHNC, KVC_LAYOUT_BLNHC,
                                 KVC_LAYOUT_BHLNC};

TEST(Storage, WhatWasStoredInItsTypeComesBackBitByBit) {
  std::mt19937 random(1);
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

TEST(Storage, QuantizedRowsComeBackWithinTheirStep) {
  std::mt19937 random(7);
  const struct {
    int32_t dtype;
    uint32_t flags;
    double step;  // of the largest magnitude of a group
  } cases[] = {{KVC_INT8, 0, 0.5 / 127},       {KVC_INT8, KVC_STORAGE_ASYMMETRIC, 0.5 / 127},
               {KVC_INT4, 0, 0.5 / 7},         {KVC_INT4, KVC_STORAGE_ASYMMETRIC, 0.5 / 7},
               {KVC_FLOAT8_E4M3, 0, 1.0 / 16}, {KVC_FLOAT8_E5M2, 0, 1.0 / 8}};
  for (const auto& test : cases)
    for (const uint32_t group : {0u, 8u})
      for (const uint32_t layout : kLayouts) {
        kvc_storage_config c = base_config();
        c.dtype = test.dtype, c.flags = test.flags, c.scale_group = group, c.layout = layout;
        const StoragePtr s = make(c);
        const kvc_storage_info info = info_of(s.get());
        Rows in(info, KVC_FLOAT32, shuffled_slots(random, info), 3), out(info, KVC_FLOAT32, in.slots, 3);
        in.fill(random);
        ASSERT_EQ(kvc_storage_store(s.get(), &in.rows, nullptr), KVC_OK) << kvc_last_error();
        ASSERT_EQ(kvc_storage_gather(s.get(), &out.rows, nullptr), KVC_OK);
        const size_t dim = info.head_dim, rows = in.k.size() / 4 / dim;
        const auto* x = reinterpret_cast<const float*>(in.k.data());
        const auto* y = reinterpret_cast<const float*>(out.k.data());
        for (size_t r = 0; r < rows; ++r) {
          float most = 0;
          for (size_t e = 0; e < dim; ++e) most = std::max(most, std::fabs(x[r * dim + e]));
          for (size_t e = 0; e < dim; ++e)
            ASSERT_LE(std::fabs(x[r * dim + e] - y[r * dim + e]), most * test.step * 1.01);
        }
        EXPECT_NE(in.k, out.k) << "it is not stored as float";
      }
}

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

TEST(Storage, TakesWhatTheEstimateSays) {
  for (const char* name : {"llama-3.1-8b", "qwen2.5-7b", "phi-3-mini-4k", "deepseek-v3"}) {
    kvc_model model = {};
    model.struct_size = sizeof model;
    ASSERT_EQ(kvc_model_find(name, &model), KVC_OK) << kvc_last_error();
    for (const int32_t dtype : {KVC_FLOAT16, KVC_FLOAT32, KVC_INT8, KVC_INT4}) {
      kvc_memory_query query = {};
      query.struct_size = sizeof query, query.model = &model, query.tokens = 64, query.dtype = dtype;
      query.scale_group = dtype == KVC_INT4 ? 32 : 0;
      kvc_memory_estimate estimate = {};
      estimate.struct_size = sizeof estimate;
      ASSERT_EQ(kvc_estimate_memory(&query, &estimate), KVC_OK) << kvc_last_error();
      kvc_storage_config c = {};
      c.struct_size = sizeof c, c.num_blocks = 4, c.num_layers = model.num_layers, c.dtype = dtype;
      c.num_heads = model.num_kv_heads,
      c.head_dim = model.latent_dim != 0 ? model.latent_dim : model.head_dim;
      c.flags = model.latent_dim != 0 ? KVC_STORAGE_LATENT : 0, c.scale_group = query.scale_group;
      uint64_t block_bytes = 0;
      ASSERT_EQ(kvc_storage_size(&c, &block_bytes, nullptr), KVC_OK) << kvc_last_error();
      EXPECT_EQ(block_bytes, estimate.full_block_bytes + estimate.window_block_bytes)
          << name << " type " << dtype;
    }
  }
}

TEST(Storage, BadConfigurationsAreRefusedWithAText) {
  const auto refused = [](auto&& change, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    kvc_storage_config c = base_config();
    change(c);
    kvc_storage* s = nullptr;
    EXPECT_EQ(kvc_storage_create(&c, &s), status) << kvc_last_error();
    EXPECT_EQ(s, nullptr);
    EXPECT_NE(std::string(kvc_last_error()), "");
  };
  using Config = kvc_storage_config;
  refused([](Config& c) { c.struct_size = 8; });
  refused([](Config& c) { c.struct_size = 5000; });
  refused([](Config& c) { c.num_blocks = 0; });
  refused([](Config& c) { c.num_blocks = uint64_t{1} << 31; });
  refused([](Config& c) { c.num_layers = 0; });
  refused([](Config& c) { c.num_heads = 0; });
  refused([](Config& c) { c.head_dim = 0; });
  refused([](Config& c) { c.head_dim = 8193; });
  refused([](Config& c) { c.block_size = 1025; });
  refused([](Config& c) { c.dtype = KVC_INT32; });
  refused([](Config& c) { c.dtype = 77; });
  refused([](Config& c) { c.layout = 5; });
  refused([](Config& c) { c.alignment = 48; });
  refused([](Config& c) { c.alignment = 8; });
  refused([](Config& c) { c.num_threads = 257; });
  refused([](Config& c) { c.memory_kind = 6; });
  refused([](Config& c) { c.scale_group = 8; });
  refused([](Config& c) { c.flags = KVC_STORAGE_ASYMMETRIC; });
  refused([](Config& c) { c.flags = KVC_STORAGE_LATENT, c.v_head_dim = 21; });
  refused([](Config& c) { c.flags = 1u << 31; }, KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) { c.flags = KVC_STORAGE_TILED_KEYS; }, KVC_ERROR_UNSUPPORTED);
  refused([](Config& c) {
    c.num_blocks = INT32_MAX, c.num_layers = c.num_heads = 65536, c.head_dim = 8192, c.block_size = 1024;
  });
  EXPECT_EQ(kvc_storage_create(nullptr, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  kvc_storage_destroy(nullptr);
}

TEST(Storage, BadCallsChangeNothing) {
  std::mt19937 random(11);
  const StoragePtr s = make(base_config());
  const kvc_storage_info info = info_of(s.get());
  Rows good(info, KVC_FLOAT32, {1, 2, 3}, 1);
  good.fill(random);
  ASSERT_EQ(kvc_storage_store(s.get(), &good.rows, nullptr), KVC_OK);
  const std::vector<char> before = bytes_of(s.get());
  good.fill(random);
  const auto refused = [&](auto&& change, kvc_status status = KVC_ERROR_INVALID_ARGUMENT) {
    kvc_rows rows = good.rows;
    change(rows);
    const std::vector<char> k = good.k;
    EXPECT_EQ(kvc_storage_store(s.get(), &rows, nullptr), status);
    EXPECT_EQ(kvc_storage_gather(s.get(), &rows, nullptr), status);
    EXPECT_EQ(bytes_of(s.get()), before);
    EXPECT_EQ(good.k, k);
  };
  const int64_t late[] = {1, 2, 28}, negative[] = {1, -2, 3}, least[] = {1, INT64_MIN, 3};
  const int32_t table[] = {0, 7};
  refused([&](kvc_rows& r) { r.slots = late; });
  refused([&](kvc_rows& r) { r.slots = negative; });
  refused([&](kvc_rows& r) { r.slots = least; });
  refused([&](kvc_rows& r) { r.slots = nullptr; });
  refused([&](kvc_rows& r) {
    r.slots = nullptr, r.block_table = table, r.block_table_size = 2, r.first_token = 2;
  });
  refused([&](kvc_rows& r) {
    r.slots = nullptr, r.block_table = table, r.block_table_size = 1, r.first_token = 2;
  });
  refused([&](kvc_rows& r) {
    r.slots = nullptr, r.block_table = table, r.block_table_size = 2, r.first_token = UINT64_MAX;
  });
  refused([&](kvc_rows& r) { r.k = nullptr; });
  refused([&](kvc_rows& r) { r.v = nullptr; });
  refused([&](kvc_rows& r) { r.first_layer = 3; });
  refused([&](kvc_rows& r) { r.num_layers = 4; });
  refused([&](kvc_rows& r) { r.dtype = KVC_INT8; });
  refused([&](kvc_rows& r) { r.struct_size = 4; });
  EXPECT_EQ(kvc_storage_store(nullptr, &good.rows, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  const kvc_block_copy copies[] = {{0, 1}, {0, 7}};
  EXPECT_EQ(kvc_storage_copy_blocks(s.get(), copies, 2, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  const int32_t blocks[] = {0, -1};
  EXPECT_EQ(kvc_storage_zero_blocks(s.get(), blocks, 2, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  kvc_run runs[2];
  size_t count = 99;
  EXPECT_EQ(kvc_storage_runs(s.get(), 7, nullptr, runs, 2, &count), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(count, 99u);
  EXPECT_EQ(kvc_storage_runs(s.get(), 1, nullptr, runs, 2, &count), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(count, 3u) << "one per layer";
  EXPECT_EQ(bytes_of(s.get()), before);
}

struct Failing {
  size_t left;
  int64_t live = 0;
};
void* failing_allocate(void* data, size_t size, size_t alignment) {
  auto* failing = static_cast<Failing*>(data);
  if (failing->left == 0) return nullptr;
  --failing->left;
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  failing->live += memory != nullptr;
  return memory;
}
void failing_release(void* data, void* memory, size_t, size_t) {
  --static_cast<Failing*>(data)->live;
  std::free(memory);
}

TEST(Storage, NoMemoryForScratchIsAnError) {
  Failing failing = {100};
  kvc_allocator allocator = {sizeof allocator, &failing, failing_allocate, failing_release};
  kvc_storage_config c = base_config();
  c.allocator = &allocator;
  kvc_storage* s = nullptr;
  ASSERT_EQ(kvc_storage_create(&c, &s), KVC_OK) << kvc_last_error();
  const std::vector<float> q(c.num_heads * c.head_dim);
  std::vector<float> out(c.num_heads * 8192, 3.0f);
  const std::vector<uint16_t> bounds(c.num_blocks * c.num_heads * 2 * c.head_dim);
  std::vector<uint8_t> mask(c.num_heads, 5);
  const uint64_t offsets[] = {0, 1}, length = 2 * c.block_size;
  const int32_t table[] = {0, 1};
  kvc_attention a = {};
  a.struct_size = sizeof a;
  a.q = q.data(), a.out = out.data(), a.num_requests = 1, a.q_offsets = offsets, a.kv_lens = &length;
  a.block_tables = table, a.table_stride = 2, a.num_q_heads = c.num_heads;
  kvc_block_choice choice = {};
  choice.struct_size = sizeof choice;
  choice.bounds = bounds.data(), choice.top_k = 1, choice.block_mask = mask.data(),
  choice.block_mask_stride = 1;
  failing.left = 0;
  EXPECT_EQ(kvc_storage_attend(s, &a, nullptr), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kvc_storage_select_blocks(s, &a, &choice, nullptr), KVC_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(out, std::vector<float>(out.size(), 3.0f));
  EXPECT_EQ(mask, std::vector<uint8_t>(mask.size(), 5));
  failing.left = 1;
  EXPECT_EQ(kvc_storage_select_blocks(s, &a, &choice, nullptr), KVC_OK) << kvc_last_error();
  kvc_storage_destroy(s);
  EXPECT_EQ(failing.live, 0);
}

TEST(Storage, AllocationFailureLeaksNothing) {
  for (size_t k = 0;; ++k) {
    Failing failing = {k};
    kvc_allocator allocator = {sizeof allocator, &failing, failing_allocate, failing_release};
    kvc_storage_config c = base_config();
    c.allocator = &allocator;
    kvc_storage* s = nullptr;
    const kvc_status status = kvc_storage_create(&c, &s);
    if (status == KVC_OK) {
      EXPECT_GE(k, 2u);
      kvc_storage_destroy(s);
    } else {
      EXPECT_EQ(status, KVC_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(s, nullptr);
    }
    EXPECT_EQ(failing.live, 0);
    if (status == KVC_OK) break;
    ASSERT_LT(k, 10u);
  }
}

}  // namespace
