// SPDX-License-Identifier: Apache-2.0
// Configurations: each field out of range is refused and named in the error text, each field at its limit is
// accepted, and defaults are those of the manual.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "api/create.h"
#include "api/guard.h"

namespace kvc {
namespace {

struct Config {
  Config() {
    manager.struct_size = sizeof manager;
    manager.num_blocks = 8;
    manager.max_requests = 2;
    manager.seed = 1;
    for (auto& group : groups) group.struct_size = sizeof group;
    for (auto& pool : pools) {
      pool.struct_size = sizeof pool;
      pool.num_blocks = 4;
    }
  }
  void use_groups(size_t count) {
    manager.groups = groups;
    manager.num_groups = count;
  }
  void use_group(uint32_t kind, uint64_t kvc_group_config::*field, uint64_t value) {
    use_groups(1);
    groups[0].kind = kind;
    groups[0].chunk_tokens = kind == KVC_GROUP_CHUNKED_LOCAL ? 8 : 0;
    groups[0].window_tokens = kind == KVC_GROUP_SLIDING_WINDOW ? 8 : 0;
    groups[0].*field = value;
  }
  void use_pools(size_t count) {
    manager.num_blocks = 0;
    manager.pools = pools;
    manager.num_pools = count;
  }
  void use_policy(uint32_t policy, double weight) {
    manager.policy = policy;
    manager.policy_weight = weight;
  }
  kvc_status create(kvc_manager** m) const { return create_manager(&manager, default_env(), m); }

  kvc_manager_config manager = {};
  kvc_group_config groups[33] = {};
  kvc_pool_config pools[33] = {};
};

struct Case {
  const char* named;  // in the text
  kvc_status status;
  std::function<void(Config&)> spoil;
};

TEST(Config, ABadFieldIsNamed) {
  constexpr kvc_status kInvalid = KVC_ERROR_INVALID_ARGUMENT, kUnsupported = KVC_ERROR_UNSUPPORTED;
  const Case cases[] = {
      {"num_blocks", kInvalid, [](Config& c) { c.manager.num_blocks = 0; }},
      {"num_blocks", kInvalid, [](Config& c) { c.manager.num_blocks = uint64_t{1} << 31; }},
      {"num_blocks", kInvalid, [](Config& c) { c.manager.num_blocks = UINT64_MAX; }},
      {"num_blocks", kInvalid,
       [](Config& c) { c.manager.num_blocks = 1, c.manager.flags = KVC_MANAGER_NULL_BLOCK; }},
      {"num_blocks", kInvalid, [](Config& c) { c.use_pools(1), c.manager.num_blocks = 8; }},
      {"block_size", kInvalid, [](Config& c) { c.manager.block_size = 1025; }},
      {"vocab_size", kInvalid, [](Config& c) { c.manager.vocab_size = (1u << 31) + 1; }},
      {"policy", kUnsupported, [](Config& c) { c.manager.policy = 3; }},
      {"policy_weight", kInvalid, [](Config& c) { c.manager.policy_weight = 1; }},
      {"policy_weight", kInvalid, [](Config& c) { c.manager.policy_weight = std::nan(""); }},
      {"policy_weight", kInvalid, [](Config& c) { c.use_policy(KVC_POLICY_FREQUENCY, -0.5); }},
      {"policy_weight", kInvalid, [](Config& c) { c.use_policy(KVC_POLICY_FREQUENCY, 1000.5); }},
      {"policy_weight", kInvalid, [](Config& c) { c.use_policy(KVC_POLICY_FREQUENCY, INFINITY); }},
      {"policy_weight", kInvalid, [](Config& c) { c.use_policy(KVC_POLICY_FREQUENCY, std::nan("")); }},
      {"policy_weight", kInvalid, [](Config& c) { c.use_policy(KVC_POLICY_FRAGMENTATION, 1.5); }},
      {"policy_history", kInvalid, [](Config& c) { c.manager.policy_history = 1; }},
      {"policy_history", kInvalid,
       [](Config& c) { c.use_policy(KVC_POLICY_FREQUENCY, 0), c.manager.policy_history = 1u << 31; }},
      {"flags", kUnsupported, [](Config& c) { c.manager.flags = 1u << 1; }},
      {"flags", kUnsupported, [](Config& c) { c.manager.flags = 1u << 31; }},
      {"max_nodes", kInvalid, [](Config& c) { c.manager.max_nodes = uint64_t{1} << 31; }},
      {"max_requests", kInvalid, [](Config& c) { c.manager.max_requests = 262144; }},
      {"max_request_tokens", kInvalid, [](Config& c) { c.manager.max_request_tokens = (1u << 30) + 1; }},
      {"event_capacity", kInvalid, [](Config& c) { c.manager.event_capacity = (1u << 24) + 1; }},
      {"watermark_blocks", kInvalid, [](Config& c) { c.manager.watermark_blocks = UINT64_MAX; }},
      {"watermark_blocks is 8; pool 0 has 8 blocks: at most 7", kInvalid,
       [](Config& c) { c.manager.watermark_blocks = 8; }},
      {"watermark_blocks is 7; pool 0 has 7 blocks: at most 6", kInvalid,
       [](Config& c) { c.manager.watermark_blocks = 7, c.manager.flags = KVC_MANAGER_NULL_BLOCK; }},
      {"groups", kInvalid, [](Config& c) { c.use_groups(33); }},
      {"groups", kInvalid, [](Config& c) { c.manager.num_groups = 1; }},
      {"num_groups is 0", kInvalid, [](Config& c) { c.use_groups(1), c.manager.num_groups = 0; }},
      {"pools", kInvalid, [](Config& c) { c.use_pools(33); }},
      {"num_pools is 0", kInvalid, [](Config& c) { c.use_pools(1), c.manager.num_pools = 0; }},
      {"pools", kInvalid, [](Config& c) { c.manager.num_blocks = 0, c.manager.num_pools = 1; }},
      {"pool 1", kInvalid, [](Config& c) { c.use_pools(2); }},  // no group takes from it
      {"pool 0", kInvalid, [](Config& c) { c.use_pools(1), c.pools[0].num_blocks = 0; }},
      {"kind", kUnsupported, [](Config& c) { c.use_groups(1), c.groups[0].kind = 5; }},
      {"chunk_tokens", kInvalid,
       [](Config& c) { c.use_groups(1), c.groups[0].kind = KVC_GROUP_CHUNKED_LOCAL; }},
      {"chunk_tokens", kInvalid, [](Config& c) { c.use_groups(1), c.groups[0].chunk_tokens = 4; }},
      {"pool", kInvalid, [](Config& c) { c.use_groups(1), c.groups[0].pool = 1; }},
      {"reserved", KVC_ERROR_UNSUPPORTED, [](Config& c) { c.use_groups(1), c.groups[0].reserved = 1; }},
      {"window_tokens", kInvalid,
       [](Config& c) { c.use_groups(1), c.groups[0].kind = KVC_GROUP_SLIDING_WINDOW; }},
      {"window_tokens", kInvalid, [](Config& c) { c.use_groups(1), c.groups[0].window_tokens = 4; }},
      {"sink_tokens", kInvalid, [](Config& c) { c.use_groups(1), c.groups[0].num_sink_tokens = 4; }},
      {"retention", kInvalid, [](Config& c) { c.use_groups(1), c.groups[0].retention_tokens = 16; }},
      {"retention_tokens", kInvalid,
       [](Config& c) {
         c.use_groups(1);
         c.groups[0].kind = KVC_GROUP_SLIDING_WINDOW;
         c.groups[0].window_tokens = 4;
         c.groups[0].retention_tokens = 17;
       }},
      {"7", kInvalid, [](Config& c) { c.use_group(KVC_GROUP_STATE, &kvc_group_config::window_tokens, 7); }},
      {"6", kInvalid,
       [](Config& c) { c.use_group(KVC_GROUP_STATE, &kvc_group_config::retention_tokens, 6); }},
      {"6", kInvalid, [](Config& c) { c.use_group(KVC_GROUP_FULL, &kvc_group_config::max_checkpoints, 6); }},
      {"5", kInvalid,
       [](Config& c) { c.use_group(KVC_GROUP_SLIDING_WINDOW, &kvc_group_config::chunk_tokens, 5); }},
      {"7", kInvalid,
       [](Config& c) { c.use_group(KVC_GROUP_CHUNKED_LOCAL, &kvc_group_config::window_tokens, 7); }},
      {"7", kInvalid,
       [](Config& c) {
         c.use_group(KVC_GROUP_CHUNKED_LOCAL, &kvc_group_config::chunk_tokens, 8);
         c.groups[0].num_sink_tokens = 7;
       }},
      {"6", kInvalid,
       [](Config& c) { c.use_group(KVC_GROUP_CHUNKED_LOCAL, &kvc_group_config::retention_tokens, 6); }},
      {"fragmentation", kInvalid,
       [](Config& c) { c.use_policy(KVC_POLICY_FRAGMENTATION, 0), c.manager.policy_history = 7; }},
      {"4294967295", kUnsupported, [](Config& c) { c.use_groups(1), c.groups[0].kind = UINT32_MAX; }},
      {"18446744073709551615", kInvalid, [](Config& c) { c.use_groups(1), c.manager.num_groups = SIZE_MAX; }},
      {"214748", kInvalid, [](Config& c) { c.use_pools(1), c.pools[0].num_blocks = UINT64_MAX; }},
      {"struct_size", kInvalid, [](Config& c) { c.manager.struct_size = 0; }},
      {"struct_size", kInvalid, [](Config& c) { c.use_groups(1), c.groups[0].struct_size = 1; }},
      {"struct_size", kInvalid, [](Config& c) { c.use_pools(1), c.pools[0].struct_size = 1; }},
      {"element 1", kInvalid, [](Config& c) { c.use_groups(2), c.groups[1].struct_size += 8; }},
  };
  for (const Case& one : cases) {
    Config config;
    one.spoil(config);
    kvc_manager* m = nullptr;
    EXPECT_EQ(config.create(&m), one.status) << one.named;
    EXPECT_EQ(m, nullptr);
    EXPECT_NE(std::strstr(last_error(), one.named), nullptr) << one.named << " is not in: " << last_error();
    kvc_manager_destroy(m);
  }
}

TEST(Config, NullsAreInvalid) {
  const Config config;
  kvc_manager* m = nullptr;
  EXPECT_EQ(create_manager(nullptr, default_env(), &m), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create_manager(&config.manager, default_env(), nullptr), KVC_ERROR_INVALID_ARGUMENT);
  kvc_allocator allocator = {};
  allocator.struct_size = sizeof allocator;
  Config with = config;
  with.manager.allocator = &allocator;
  EXPECT_EQ(with.create(&m), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(last_error(), "allocate"), nullptr);
  allocator.allocate = [](void*, size_t, size_t) -> void* { return nullptr; };
  EXPECT_EQ(with.create(&m), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(last_error(), "release"), nullptr);
}

TEST(Config, WithoutRandomnessASeedMustBeGiven) {
  Config config;
  Env env = default_env();
  env.random_bytes = [](void*, size_t) { return false; };
  config.manager.seed = 0;
  kvc_manager* m = nullptr;
  EXPECT_EQ(create_manager(&config.manager, env, &m), KVC_ERROR_INTERNAL);
  EXPECT_NE(std::strstr(last_error(), "seed"), nullptr) << last_error();
  EXPECT_EQ(m, nullptr);
  config.manager.seed = 5;
  EXPECT_EQ(create_manager(&config.manager, env, &m), KVC_OK) << last_error();
  kvc_manager_destroy(m);
}

// As many blocks as there can be: the default of max_nodes keeps below its own limit.
TEST(Config, DefaultsOfTheLargestPoolAreInRange) {
  Config config;
  config.use_groups(1);
  config.groups[0].kind = KVC_GROUP_SLIDING_WINDOW;
  config.groups[0].window_tokens = 16;
  config.manager.num_blocks = (uint64_t{1} << 31) - 2 * 32 - 2;
  kvc_allocator none = {sizeof none, nullptr, [](void*, size_t, size_t) -> void* { return nullptr; },
                        [](void*, void*, size_t, size_t) {}};
  config.manager.allocator = &none;
  kvc_manager* m = nullptr;
  EXPECT_EQ(config.create(&m), KVC_ERROR_OUT_OF_MEMORY) << last_error();
  EXPECT_EQ(m, nullptr);
}

TEST(Config, FieldsAtTheirLimitsAreAccepted) {
  const std::function<void(Config&)> settings[] = {
      [](Config& c) { c.manager.num_blocks = 1; },
      [](Config& c) { c.manager.num_blocks = 2, c.manager.flags = KVC_MANAGER_NULL_BLOCK; },
      [](Config& c) { c.manager.block_size = 1; },
      [](Config& c) { c.manager.block_size = 1024; },
      [](Config& c) { c.manager.vocab_size = 1u << 31; },
      [](Config& c) { c.manager.max_request_tokens = 1u << 30; },
      [](Config& c) { c.manager.max_nodes = 1; },
      [](Config& c) { c.use_policy(KVC_POLICY_FREQUENCY, 1000), c.manager.policy_history = 1; },
      [](Config& c) { c.use_policy(KVC_POLICY_FRAGMENTATION, 1); },
      [](Config& c) { c.use_groups(32); },
      [](Config& c) {
        c.use_policy(KVC_POLICY_FREQUENCY, 0);
        c.use_pools(32);
        c.use_groups(32);
        for (uint32_t g = 0; g < 32; ++g) c.groups[g].pool = g;
      }};
  for (const auto& set : settings) {
    Config config;
    set(config);
    kvc_manager* m = nullptr;
    EXPECT_EQ(config.create(&m), KVC_OK) << last_error();
    kvc_manager_destroy(m);
  }
}

TEST(Config, DefaultsAreThoseOfTheManual) {
  Config config;
  config.manager.num_blocks = 3200;
  config.manager.max_requests = 0;
  kvc_manager* m = nullptr;
  ASSERT_EQ(config.create(&m), KVC_OK);
  kvc_properties properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_EQ(kvc_manager_properties(m, &properties), KVC_OK);
  EXPECT_EQ(properties.num_blocks, 3200u);
  EXPECT_EQ(properties.max_nodes, 3200u + 100 + 64);
  EXPECT_EQ(properties.max_requests, 1024u);
  EXPECT_EQ(properties.max_request_tokens, 1u << 24);
  EXPECT_EQ(properties.event_capacity, 0u);
  EXPECT_EQ(properties.block_size, 16u);
  EXPECT_EQ(properties.num_groups, 1u);
  EXPECT_EQ(properties.num_pools, 1u);
  kvc_manager_destroy(m);
}

TEST(Config, DefaultsOfAPolicyAreThoseOfTheManual) {
  const struct {
    uint32_t policy;
    double weight;
    uint64_t history;
  } cases[] = {{KVC_POLICY_LRU, 0, 0}, {KVC_POLICY_FREQUENCY, 1, 4 * 3200}, {KVC_POLICY_FRAGMENTATION, 0, 0}};
  for (const auto& [policy, weight, history] : cases) {
    Config config;
    config.manager.num_blocks = 3200;
    config.use_policy(policy, 0);
    kvc_manager* m = nullptr;
    ASSERT_EQ(config.create(&m), KVC_OK);
    kvc_properties properties = {};
    properties.struct_size = sizeof properties;
    ASSERT_EQ(kvc_manager_properties(m, &properties), KVC_OK);
    EXPECT_EQ(properties.policy, policy);
    EXPECT_EQ(properties.policy_weight, weight);
    EXPECT_EQ(properties.policy_history, history);
    kvc_manager_destroy(m);
  }
}

TEST(Config, RequestOptionsOutOfRangeAreNamed) {
  Shape shape = {};
  shape.max_request_tokens = 100;
  const struct {
    const char* named;
    kvc_status status;
    void (*spoil)(kvc_request_config&);
  } cases[] = {
      {"flags", KVC_ERROR_UNSUPPORTED, [](kvc_request_config& c) { c.flags = 1u << 4; }},
      {"external_tokens", KVC_ERROR_INVALID_ARGUMENT, [](kvc_request_config& c) { c.external_tokens = 101; }},
      {"slots", KVC_ERROR_INVALID_ARGUMENT, [](kvc_request_config& c) { c.slots = UINT64_MAX; }},
      {"lookahead", KVC_ERROR_INVALID_ARGUMENT, [](kvc_request_config& c) { c.lookahead = 101; }}};
  kvc_request_config config = {}, out;
  for (const auto& one : cases) {
    config = {};
    config.struct_size = sizeof config;
    EXPECT_EQ(read_request_config(shape, &config, sizeof config, &out), KVC_OK);
    one.spoil(config);
    EXPECT_EQ(read_request_config(shape, &config, sizeof config, &out), one.status) << one.named;
    EXPECT_NE(std::strstr(last_error(), one.named), nullptr) << last_error();
  }
  EXPECT_EQ(read_request_config(shape, nullptr, 0, &out), KVC_OK) << "all defaults";
  EXPECT_EQ(out.struct_size, sizeof out);
}

}  // namespace
}  // namespace kvc
