// SPDX-License-Identifier: Apache-2.0
// What tests of resizing share: managers of small shapes, prompts of numbered tokens, and the calls whose
// answers they compare.
#pragma once
#include <kvcache/prefix.h>
#include <kvcache/resize.h>

#include <numeric>

#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc::test {

inline constexpr uint32_t kBlock = 4;

inline kvc_manager_config config_of(uint64_t num_blocks, uint64_t max_blocks = 0) {
  kvc_manager_config config = {};
  config.num_blocks = num_blocks, config.max_blocks = max_blocks, config.block_size = kBlock;
  return config;
}

inline std::vector<int32_t> prompt_of(int32_t first, size_t blocks) {
  return tokens_from(first, blocks * kBlock);
}

inline uint64_t allocate(kvc_manager* m, const std::vector<int32_t>& tokens, uint64_t ns = 0,
                         const kvc_request_config* config = nullptr) {
  uint64_t request = 0, cached = 0;
  EXPECT_EQ(kvc_manager_allocate_request(m, PROMPT(ns, tokens.data(), tokens.size(), nullptr, 0), config,
                                         &request, &cached),
            KVC_OK)
      << kvc_last_error();
  EXPECT_EQ(kvc_manager_commit_tokens(m, request, tokens.size()), KVC_OK) << kvc_last_error();
  return request;
}

inline void cache(kvc_manager* m, const std::vector<int32_t>& tokens, uint64_t ns = 0) {
  EXPECT_EQ(kvc_manager_free_request(m, allocate(m, tokens, ns)), KVC_OK);
}

// Cached tokens of a prompt and one more token.
inline uint64_t cached(kvc_manager* m, std::vector<int32_t> tokens, uint64_t ns = 0) {
  tokens.push_back(7);
  kvc_probe_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_manager_probe(m, PROMPT(ns, tokens.data(), tokens.size(), nullptr, 0), &info), KVC_OK);
  return info.num_cached;
}

inline std::vector<int32_t> table_of(kvc_manager* m, uint64_t request, uint32_t group = 0) {
  std::vector<int32_t> table(256);
  EXPECT_EQ(kvc_manager_export_tables(m, &request, 1, group, -1, table.data(), table.size()), KVC_OK);
  while (!table.empty() && table.back() == -1) table.pop_back();
  return table;
}

inline uint64_t digest_of(kvc_manager* m) {
  uint64_t digest = 0;
  EXPECT_EQ(kvc_manager_digest(m, &digest), KVC_OK);
  return digest;
}

inline kvc_pool_info pool_of(kvc_manager* m, uint32_t pool = 0) {
  kvc_pool_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_manager_pool_info(m, pool, &info), KVC_OK);
  return info;
}

inline kvc_stats stats_of(kvc_manager* m) {
  kvc_stats stats = {};
  stats.struct_size = sizeof stats;
  EXPECT_EQ(kvc_manager_read_stats(m, &stats), KVC_OK);
  return stats;
}

// Resizes a pool, which must succeed, and checks the manager.
inline std::vector<kvc_block_copy> resize(kvc_manager* m, uint64_t num_blocks, uint32_t pool = 0) {
  std::vector<kvc_block_copy> moves(1024);
  size_t count = 0;
  EXPECT_EQ(kvc_manager_resize(m, pool, num_blocks, moves.data(), moves.size(), &count), KVC_OK)
      << kvc_last_error();
  EXPECT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
  moves.resize(count);
  return moves;
}

// Resizes a pool, which must fail and change nothing; `text` is a part of what it says.
inline void refuse(kvc_manager* m, uint64_t num_blocks, kvc_status status, const char* text,
                   uint32_t pool = 0) {
  const uint64_t before = digest_of(m);
  std::vector<kvc_block_copy> moves(1024);
  size_t count = 77;
  EXPECT_EQ(kvc_manager_resize(m, pool, num_blocks, moves.data(), moves.size(), &count), status);
  EXPECT_NE(std::string(kvc_last_error()).find(text), std::string::npos) << kvc_last_error();
  EXPECT_EQ(count, 77u);
  EXPECT_EQ(digest_of(m), before);
  EXPECT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error();
}

}  // namespace kvc::test
