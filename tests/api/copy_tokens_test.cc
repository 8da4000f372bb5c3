// SPDX-License-Identifier: Apache-2.0
// Tokens that move to a storage of another block size and layout are the same bytes there, whatever the type.
#include <gtest/gtest.h>

#include <cstring>
#include <kvcache/storage.hpp>
#include <random>
#include <vector>

#include "seed.h"

namespace {

constexpr uint32_t kLayers = 2, kHeads = 3, kDim = 8, kValueDim = 4;

struct Case {
  int32_t dtype;
  uint32_t scale_group, flags;
};

kvc_storage_config config_of(const Case& c, uint32_t block_size, uint32_t layout) {
  auto config = kvc::make<kvc_storage_config>();
  config.num_blocks = 12, config.num_layers = kLayers, config.num_heads = kHeads, config.head_dim = kDim;
  config.v_head_dim = kValueDim, config.block_size = block_size, config.dtype = c.dtype,
  config.layout = layout;
  config.scale_group = c.scale_group, config.flags = c.flags;
  return config;
}

struct Rows {
  std::vector<float> k = std::vector<float>(kLayers * 40 * kHeads * kDim);
  std::vector<float> v = std::vector<float>(kLayers * 40 * kHeads * kValueDim);
  std::vector<int64_t> slots = std::vector<int64_t>(40);
  kvc_rows rows() {
    auto rows = kvc::make<kvc_rows>();
    rows.k = k.data(), rows.v = v.data(), rows.slots = slots.data();
    rows.num_tokens = slots.size(), rows.num_layers = kLayers;
    return rows;
  }
};

TEST(CopyTokens, KeepsEveryBitOfEveryType) {
  for (const Case& c : {Case{KVC_FLOAT32, 0, 0}, Case{KVC_BFLOAT16, 0, 0}, Case{KVC_FLOAT8_E4M3, 4, 0},
                        Case{KVC_INT8, 0, 0}, Case{KVC_INT8, 4, KVC_STORAGE_ASYMMETRIC}, Case{KVC_INT4, 4, 0},
                        Case{KVC_INT8, 0, KVC_STORAGE_HADAMARD}}) {
    for (uint32_t layout = KVC_LAYOUT_LBHNC; layout <= KVC_LAYOUT_BHLNC; ++layout) {
      kvc::Storage from(config_of(c, 16, layout)), to(config_of(c, 6, KVC_LAYOUT_BLNHC));
      Rows in, before, after;
      std::mt19937 random(static_cast<uint32_t>(kvc::test::test_seed()));
      for (float& x : in.k) x = static_cast<float>(static_cast<int32_t>(random())) * 1e-9f;
      for (float& x : in.v) x = static_cast<float>(static_cast<int32_t>(random())) * 1e-9f;
      // Token t is in old block 2 + t / 16 and goes to new block 1 + t / 6.
      std::vector<kvc_token_copy> copies;
      for (uint32_t t = 0; t < 40; ++t) {
        in.slots[t] = before.slots[t] = (2 + t / 16) * 16 + t % 16;
        after.slots[t] = (1 + t / 6) * 6 + t % 6;
        const kvc_token_copy one = {
            0, static_cast<int32_t>(2 + t / 16), static_cast<int32_t>(1 + t / 6), t % 16, t % 6, 1};
        if (t % 16 != 0 && t % 6 != 0)
          ++copies.back().num_tokens;
        else
          copies.push_back(one);
      }
      from.store(in.rows());
      to.copy_tokens(from, copies);
      from.gather(before.rows());
      to.gather(after.rows());
      EXPECT_EQ(std::memcmp(before.k.data(), after.k.data(), before.k.size() * sizeof(float)), 0)
          << c.dtype << " " << layout;
      EXPECT_EQ(std::memcmp(before.v.data(), after.v.data(), before.v.size() * sizeof(float)), 0)
          << c.dtype << " " << layout;
    }
  }
}

class CopyTokensRefuses : public ::testing::Test {
 protected:
  static constexpr Case kPlain = {KVC_BFLOAT16, 0, 0};
  void refused(kvc_storage* from, kvc_storage* to, const kvc_token_copy& copy, kvc_status status,
               const char* text) {
    EXPECT_EQ(kvc_storage_copy_tokens(from, to, &copy, 1), status);
    EXPECT_NE(std::string(kvc_last_error()).find(text), std::string::npos) << kvc_last_error();
  }
  kvc::Storage from_{config_of(kPlain, 16, 0)}, to_{config_of(kPlain, 8, 0)};
  const kvc_token_copy good_ = {0, 1, 1, 0, 0, 8};
};

TEST_F(CopyTokensRefuses, WhatLiesOutside) {
  refused(from_.get(), to_.get(), {0, 12, 1, 0, 0, 8}, KVC_ERROR_INVALID_ARGUMENT, "no block 12");
  refused(from_.get(), to_.get(), {0, 1, -1, 0, 0, 8}, KVC_ERROR_INVALID_ARGUMENT, "no block -1");
  refused(from_.get(), to_.get(), {0, 1, 1, 9, 0, 8}, KVC_ERROR_INVALID_ARGUMENT,
          "tokens 9 + 8 go past the 16 of a block of the old storage");
  refused(from_.get(), to_.get(), {0, 1, 1, 0, UINT32_MAX, 8}, KVC_ERROR_INVALID_ARGUMENT,
          "of the new storage");
  refused(from_.get(), from_.get(), good_, KVC_ERROR_INVALID_ARGUMENT, "the same");
  refused(nullptr, to_.get(), good_, KVC_ERROR_INVALID_ARGUMENT, "NULL");
  refused(from_.get(), nullptr, good_, KVC_ERROR_INVALID_ARGUMENT, "NULL");
}

TEST_F(CopyTokensRefuses, StoragesThatDiffer) {
  kvc_storage_config other = config_of(kPlain, 8, 0);
  other.num_heads = 1;
  const kvc::Storage heads(other);
  refused(from_.get(), heads.get(), good_, KVC_ERROR_INVALID_ARGUMENT,
          "num_heads is 3 in the old storage and 1");
  const kvc::Storage type(config_of({KVC_INT8, 0, 0}, 8, 0));
  refused(from_.get(), type.get(), good_, KVC_ERROR_INVALID_ARGUMENT, "dtype");
  const kvc::Storage channels(config_of({KVC_INT8, 0, KVC_STORAGE_CHANNEL_KEYS}, 8, 0));
  refused(type.get(), channels.get(), good_, KVC_ERROR_UNSUPPORTED, "channel keys");
  auto tiled = config_of(kPlain, 16, 0);
  tiled.flags = KVC_STORAGE_TILED_KEYS;
  const kvc::Storage tiles(tiled);
  refused(tiles.get(), to_.get(), good_, KVC_ERROR_UNSUPPORTED, "tiled keys");
}

}  // namespace
