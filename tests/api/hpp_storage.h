// SPDX-License-Identifier: Apache-2.0
// A small storage, rows, a question to it and an expected error, for tests of kvcache/storage.hpp.
#pragma once
#include <gtest/gtest.h>

#include <kvcache.hpp>
#include <numeric>
#include <string>
#include <vector>

namespace hpp {

constexpr uint32_t kBlocks = 4, kBlock = 16, kDim = 8, kRow = 2 * kDim;  // two heads

inline kvc_storage_config config(int32_t dtype = KVC_FLOAT32, uint32_t flags = 0) {
  auto c = kvc::make<kvc_storage_config>();
  c.num_blocks = kBlocks, c.num_layers = 1, c.num_heads = 2, c.head_dim = kDim;
  c.dtype = dtype, c.flags = flags;
  return c;
}

// Keys and values of some tokens: `value`, and minus that.
struct Rows {
  Rows(std::vector<int64_t> where, float value)
      : slots(std::move(where)), k(slots.size() * kRow, value), v(slots.size() * kRow, -value) {
    rows.num_tokens = slots.size();
    rows.slots = slots.data(), rows.k = k.data(), rows.v = v.data();
  }
  Rows(const Rows&) = delete;
  std::vector<int64_t> slots;
  std::vector<float> k, v;
  kvc_rows rows = kvc::make<kvc_rows>();
};

inline std::vector<int64_t> slots_of(int32_t block) {
  std::vector<int64_t> slots(kBlock);
  std::iota(slots.begin(), slots.end(), int64_t{block} * kBlock);
  return slots;
}

inline void fill(kvc::Storage& s, int32_t block, float value) { s.store(Rows(slots_of(block), value).rows); }

inline float key_in(const kvc::Storage& s, int32_t block) {
  Rows one({int64_t{block} * kBlock}, 77);
  s.gather(one.rows);
  EXPECT_EQ(one.k[0], -one.v[0]);
  return one.k[0];
}

// One query at the end of all blocks: its weights sum to 1, so that equal values come out as they are.
struct Question {
  Question() {
    a.q = q.data(), a.out = out.data(), a.num_requests = 1, a.q_offsets = offsets, a.kv_lens = &length;
    a.block_tables = table, a.table_stride = kBlocks, a.num_q_heads = 2;
  }
  Question(const Question&) = delete;
  std::vector<float> q = std::vector<float>(kRow, 1), out = std::vector<float>(kRow, 77);
  const uint64_t offsets[2] = {0, 1}, length = kBlocks * kBlock;
  const int32_t table[kBlocks] = {0, 1, 2, 3};
  kvc_attention a = kvc::make<kvc_attention>();
};

template <class Function>
void expect_error(kvc_status status, const std::string& text, Function&& function) {
  try {
    function();
    FAIL() << "must throw " << kvc_status_name(status) << ": " << text;
  } catch (const kvc::Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    EXPECT_EQ(std::string(error.what()).find(kvc_status_name(status)), 0u) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

}  // namespace hpp
