// SPDX-License-Identifier: Apache-2.0
// A manager of a decoder: full attention, unless the test says otherwise, in group 0, then cross groups.
// Every call is followed by a check.
#pragma once
#include "base/sha256.h"
#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc::test {

constexpr uint32_t kBlock = 4;
constexpr uint64_t kEncoder = 10;  // tokens, in 3 blocks

inline kvc_group_config cross_group(uint32_t pool = 0) {
  kvc_group_config group = full_group();
  group.kind = KVC_GROUP_CROSS;
  group.pool = pool;
  return group;
}

// Of a request whose encoder reads `input`; 0 = private.
inline kvc_request_config hearing(uint8_t input, uint64_t tokens = kEncoder) {
  kvc_request_config config = {};
  config.struct_size = sizeof config;
  config.cross_tokens = tokens;
  config.cross_digest[5] = input;
  return config;
}

// The key that a request with these options has over its first token.
inline kvc_extra_key implied_key(const kvc_request_config& config) {
  Sha256 hash;
  hash.update(config.cross_digest, sizeof config.cross_digest);
  hash.update(&config.cross_tokens, sizeof config.cross_tokens);
  kvc_extra_key key = key_over(0, 1);
  std::memcpy(key.digest, hash.finish().bytes, sizeof key.digest);
  return key;
}

inline const std::vector<int32_t>& prompt() {
  static const std::vector<int32_t> tokens = tokens_from(1, 2 * kBlock + 1);
  return tokens;
}

inline kvc_manager_config with_blocks(uint64_t count) {
  kvc_manager_config config = {};
  config.num_blocks = count;
  return config;
}

class Decoder {
 public:
  explicit Decoder(kvc_manager_config config = {}, size_t cross_groups = 1, Env env = default_env(),
                   const kvc_group_config& first = full_group()) {
    std::vector<kvc_group_config> groups = {first};
    groups.resize(1 + cross_groups, cross_group());
    if (config.num_blocks == 0) config.num_blocks = 64;
    if (config.max_requests == 0) config.max_requests = 16;
    config.block_size = kBlock;
    config.groups = groups.data(), config.num_groups = groups.size();
    of_.create(config, env);
    m = of_.m;
  }

  kvc_status try_allocate(const kvc_request_config& config, uint64_t* id,
                          const std::vector<int32_t>& tokens = prompt(),
                          const std::vector<kvc_extra_key>& keys = {}, uint64_t ns = 0) {
    const kvc_status status = kvc_manager_allocate_request(
        m, PROMPT(ns, tokens.data(), tokens.size(), keys.data(), keys.size()), &config, id, nullptr);
    check();
    return status;
  }
  uint64_t allocate(const kvc_request_config& config, const std::vector<int32_t>& tokens = prompt(),
                    const std::vector<kvc_extra_key>& keys = {}, uint64_t ns = 0) {
    uint64_t id = 0;
    EXPECT_EQ(try_allocate(config, &id, tokens, keys, ns), KVC_OK) << kvc_last_error();
    return id;
  }
  void commit(uint64_t id, uint64_t tokens) { ok(kvc_manager_commit_tokens(m, id, tokens)); }
  void free(uint64_t id) { ok(kvc_manager_free_request(m, id)); }
  // The content is computed once and cached.
  void cache(const kvc_request_config& config, const std::vector<int32_t>& tokens = prompt()) {
    const uint64_t id = allocate(config, tokens);
    commit(id, tokens.size());
    free(id);
  }
  kvc_request_info info(uint64_t id) {
    kvc_request_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_manager_request_info(m, id, &info), KVC_OK);
    return info;
  }
  std::vector<int32_t> table(uint64_t id, uint32_t group = 1, size_t size = 3) {
    std::vector<int32_t> row(size);
    EXPECT_EQ(kvc_manager_export_tables(m, &id, 1, group, -1, row.data(), size), KVC_OK) << kvc_last_error();
    return row;
  }
  kvc_block_info block(int32_t id) {
    kvc_block_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_manager_block_info(m, id, &info), KVC_OK);
    return info;
  }
  kvc_stats stats() {
    kvc_stats stats = {};
    stats.struct_size = sizeof stats;
    EXPECT_EQ(kvc_manager_read_stats(m, &stats), KVC_OK);
    return stats;
  }
  uint64_t digest() {
    uint64_t digest = 0;
    EXPECT_EQ(kvc_manager_digest(m, &digest), KVC_OK);
    return digest;
  }
  void ok(kvc_status status) {
    EXPECT_EQ(status, KVC_OK) << kvc_last_error();
    check();
  }
  void check() { EXPECT_EQ(kvc_manager_check(m), KVC_OK) << kvc_last_error(); }

  kvc_manager* m = nullptr;

 private:
  ManagerOf of_;
};

}  // namespace kvc::test
