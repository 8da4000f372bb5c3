// SPDX-License-Identifier: Apache-2.0
// The table hash is a chain: block by block equals all at once, and every part of the identity moves it. The
// digest hash is a fixed function: its values here must never change, on any machine.
#include "base/hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace kvc {
namespace {

std::vector<int32_t> some_tokens(size_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 1000);
  return tokens;
}

TEST(TableHash, BlockByBlockEqualsAllAtOnce) {
  TableHash hash;
  hash.init(42);
  for (const size_t block_size : {1, 2, 3, 4, 15, 16, 17, 31, 60, 61, 64, 128, 500, 1023, 1024}) {
    constexpr size_t kBlocks = 5;
    const auto tokens = some_tokens(kBlocks * block_size);
    uint64_t whole[kBlocks], single[kBlocks];
    const uint64_t root = hash.root(3, 1);
    EXPECT_EQ(hash.blocks(root, tokens.data(), block_size, kBlocks, whole), whole[kBlocks - 1]);
    uint64_t chain = root;
    for (size_t i = 0; i < kBlocks; ++i) {
      chain = hash.blocks(chain, tokens.data() + i * block_size, block_size, 1, &single[i]);
      EXPECT_EQ(single[i], whole[i]) << block_size << " tokens, block " << i;
    }
    EXPECT_EQ(std::set<uint64_t>(whole, whole + kBlocks).size(), kBlocks);
  }
}

TEST(TableHash, NoBlocksReturnTheChain) {
  TableHash hash;
  hash.init(1);
  EXPECT_EQ(hash.blocks(77, nullptr, 16, 0, nullptr), 77u);
}

TEST(TableHash, EveryTokenMovesIt) {
  TableHash hash;
  hash.init(7);
  for (const size_t block_size : {1, 16, 33}) {
    auto tokens = some_tokens(block_size);
    std::set<uint64_t> seen;
    uint64_t out;
    seen.insert(hash.blocks(0, tokens.data(), block_size, 1, &out));
    for (size_t i = 0; i < block_size; ++i) {
      ++tokens[i];
      seen.insert(hash.blocks(0, tokens.data(), block_size, 1, &out));
      --tokens[i];
    }
    EXPECT_EQ(seen.size(), block_size + 1);
  }
}

TEST(TableHash, SeedNamespaceGenerationAndChainMoveIt) {
  const auto tokens = some_tokens(16);
  std::set<uint64_t> seen;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    TableHash hash;
    hash.init(seed);
    for (const uint32_t space : {0u, 1u, 2u}) {
      for (const uint32_t generation : {0u, 1u, 2u}) {
        uint64_t out;
        const uint64_t root = hash.root(space, generation);
        seen.insert(root);
        seen.insert(hash.blocks(root, tokens.data(), 16, 1, &out));
      }
    }
  }
  EXPECT_EQ(seen.size(), 2u * 3 * 3 * 3);
}

TEST(TableHash, ExtraContentMovesIt) {
  TableHash hash;
  hash.init(9);
  const char a[] = "image one", b[] = "image two";
  const uint64_t none = 12345;
  const uint64_t with_a = hash.extra(none, a, sizeof a), with_b = hash.extra(none, b, sizeof b);
  EXPECT_NE(with_a, none);
  EXPECT_NE(with_a, with_b);
  EXPECT_NE(hash.extra(with_a, b, sizeof b), hash.extra(with_b, a, sizeof a)) << "the order counts";
  EXPECT_EQ(hash.extra(none, a, sizeof a), with_a);
}

TEST(TableHash, TheSameSeedGivesTheSameHash) {
  TableHash a, b;
  a.init(5);
  b.init(5);
  EXPECT_EQ(a.root(1, 2), b.root(1, 2));
}

TEST(DigestHash, IsAFixedFunction) {
  DigestHash hash;
  EXPECT_EQ(hash.value(), 2685821657736338717u);
  hash.add(0);
  EXPECT_EQ(hash.value(), 5209716117320763299u) << "the first value is mixed like any other";
  hash.add(1);
  EXPECT_EQ(hash.value(), 8298838552857719985u);
  hash.add(UINT64_MAX);
  EXPECT_EQ(hash.value(), 8888597082551753557u);
  hash.add_bytes("kvcache", 7);
  EXPECT_EQ(hash.value(), 10835307114125054644u);
  hash.add_bytes(nullptr, 0);
  EXPECT_EQ(hash.value(), 13788178608622009760u);
  std::vector<unsigned char> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7);
  hash.add_bytes(bytes.data(), bytes.size());
  EXPECT_EQ(hash.value(), 11187908723986781549u);
}

TEST(DigestHash, OrderAndLengthCount) {
  const auto of = [](auto... values) {
    DigestHash hash;
    (hash.add(static_cast<uint64_t>(values)), ...);
    return hash.value();
  };
  EXPECT_NE(of(1, 2), of(2, 1));
  EXPECT_NE(of(1), of(1, 0));
  DigestHash split, joined;
  split.add_bytes("ab", 2);
  split.add_bytes("c", 1);
  joined.add_bytes("abc", 3);
  EXPECT_NE(split.value(), joined.value());
}

}  // namespace
}  // namespace kvc
