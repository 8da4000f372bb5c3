// SPDX-License-Identifier: Apache-2.0
// Small storages and random rows for tests of kvc_storage_*.
#pragma once
#include <gtest/gtest.h>
#include <kvcache/storage.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "api/device.h"

namespace kvc::test {

template <auto destroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    destroy(object);
  }
};
using StoragePtr = std::unique_ptr<kvc_storage, Destroyer<kvc_storage_destroy>>;

inline kvc_storage_config base_config() {
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

inline StoragePtr make(kvc_storage_config config) {
  kvc_storage* s = nullptr;
  if (config.device == nullptr) {
    config.device = device();
    // Tests look at the bytes. Those of attention do not, and ask for the device's own memory.
    if (!shares_host_memory() && config.memory_kind == KVC_MEMORY_DEFAULT && config.memory == nullptr)
      config.memory_kind = KVC_MEMORY_PINNED;
  }
  EXPECT_EQ(kvc_storage_create(&config, &s), KVC_OK) << kvc_last_error();
  return StoragePtr(s);
}

inline kvc_storage_info info_of(kvc_storage* s) {
  kvc_storage_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_storage_properties(s, &info), KVC_OK);
  return info;
}

inline std::vector<char> bytes_of(kvc_storage* s) {
  const kvc_storage_info info = info_of(s);
  const char* data = static_cast<const char*>(info.data);
  return {data, data + info.slab_bytes};
}

inline size_t width(int32_t dtype) { return dtype == KVC_FLOAT32 ? 4 : 2; }

// Random rows of a type as bytes; any bit pattern but NaN, so that they compare.
inline std::vector<char> random_rows(std::mt19937& random, int32_t dtype, size_t count) {
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

inline std::vector<int64_t> shuffled_slots(std::mt19937& random, const kvc_storage_info& info) {
  std::vector<int64_t> slots(info.num_blocks * info.block_size);
  for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<int64_t>(i);
  std::shuffle(slots.begin(), slots.end(), random);
  return slots;
}

inline constexpr uint32_t kLayouts[] = {KVC_LAYOUT_LBHNC, KVC_LAYOUT_LBNHC, KVC_LAYOUT_BLHNC,
                                        KVC_LAYOUT_BLNHC, KVC_LAYOUT_BHLNC};

}  // namespace kvc::test
