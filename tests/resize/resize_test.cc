// SPDX-License-Identifier: Apache-2.0
// kvc_manager_resize: ids and counts of pools that grow, what is evicted and what moves when they shrink, and
// that tables, pins, quotas and bytes follow. Random sequences are compared with a model in tests/property.
#include <kvcache/external.h>
#include <kvcache/quota.h>
#include <kvcache/rebuild.h>
#include <kvcache/retention.h>
#include <kvcache/step.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "api/storage.h"
#include "base/counting_heap.h"
#include "resize/scene.h"

namespace kvc::test {
namespace {

TEST(Grow, AddsFreeBlocksWithTheNextIds) {
  kvc_pool_config pools[2] = {{sizeof(kvc_pool_config), 3, 5}, {sizeof(kvc_pool_config), 2, 4}};
  kvc_group_config groups[2] = {full_group(), full_group()};
  groups[1].pool = 1;
  kvc_manager_config config = config_of(0);
  config.pools = pools, config.num_pools = 2, config.groups = groups, config.num_groups = 2;
  config.flags = KVC_MANAGER_NULL_BLOCK;
  const ManagerOf a(config);
  EXPECT_EQ(pool_of(a.m).num_blocks, 2u);
  EXPECT_EQ(pool_of(a.m).max_blocks, 5u);
  EXPECT_EQ(pool_of(a.m, 1).first_block, 5u);
  EXPECT_EQ(stats_of(a.m).blocks_total, 4u);
  const uint64_t request = allocate(a.m, prompt_of(0, 2));
  EXPECT_EQ(table_of(a.m, request), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(table_of(a.m, request, 1), (std::vector<int32_t>{5, 6}));
  kvc_block_info info = {};
  info.struct_size = sizeof info;
  for (const int32_t none : {0, 3, 4, 7, 8, 9, -1})
    EXPECT_EQ(kvc_manager_block_info(a.m, none, &info), KVC_ERROR_INVALID_ARGUMENT) << none;
  EXPECT_TRUE(resize(a.m, 5).empty());
  EXPECT_TRUE(resize(a.m, 4, 1).empty());
  for (const int32_t block : {3, 4, 7, 8}) {
    EXPECT_EQ(kvc_manager_block_info(a.m, block, &info), KVC_OK) << block;
    EXPECT_EQ(info.state, uint32_t{KVC_BLOCK_FREE});
  }
  EXPECT_EQ(kvc_manager_block_info(a.m, 9, &info), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(pool_of(a.m).num_blocks, 4u);
  EXPECT_EQ(stats_of(a.m).blocks_total, 8u);
  kvc_properties properties = {};
  properties.struct_size = sizeof properties;
  ASSERT_EQ(kvc_manager_properties(a.m, &properties), KVC_OK);
  EXPECT_EQ(properties.num_blocks, 5u) << "as it was created";
  EXPECT_EQ(properties.max_blocks, 9u);
  const uint64_t other = allocate(a.m, prompt_of(100, 2));
  EXPECT_EQ(table_of(a.m, other), (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(table_of(a.m, other, 1), (std::vector<int32_t>{7, 8}));
}

TEST(Grow, NeedsNoQuietManager) {
  const ManagerOf a(config_of(4, 8));
  kvc_step step = {};
  step.struct_size = sizeof step;
  ASSERT_EQ(kvc_manager_step(a.m, &step), KVC_OK) << kvc_last_error();
  resize(a.m, 8);
  EXPECT_EQ(pool_of(a.m).free, 8u);
}

// Records of blocks are written when they are first needed, 512 at a time: a pool that shrank and grew has
// old ones.
TEST(Grow, HandsOutIdsInOrderWhereverRecordsEnd) {
  for (const uint64_t smallest : {5u, 512u, 600u, 1024u, 1499u}) {
    kvc_manager_config config = config_of(1500, 3000);
    config.block_size = 1;
    const ManagerOf a(config), fresh(config);
    const uint64_t used = allocate(a.m, tokens_from(0, 1400));
    ASSERT_EQ(kvc_manager_free_request(a.m, used), KVC_OK);
    ASSERT_EQ(kvc_manager_reset_all(a.m), KVC_OK);
    EXPECT_TRUE(resize(a.m, smallest).empty());
    EXPECT_TRUE(resize(a.m, 3000).empty());
    EXPECT_TRUE(resize(fresh.m, 3000).empty());
    std::vector<int32_t> tokens = tokens_from(10000, 3000), row(3000);
    const uint64_t request = allocate(a.m, tokens);
    ASSERT_EQ(kvc_manager_export_tables(a.m, &request, 1, 0, -1, row.data(), row.size()), KVC_OK);
    EXPECT_EQ(row, tokens_from(0, 3000)) << smallest;
    EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
    // One node a block, however many there are.
    EXPECT_EQ(stats_of(a.m).unpublished_blocks, 0u);
  }
}

TEST(Grow, TheSizeIsTheState) {
  const ManagerOf a(config_of(8, 16)), b(config_of(16));
  EXPECT_NE(digest_of(a.m), digest_of(b.m));
  resize(a.m, 16);
  EXPECT_EQ(digest_of(a.m), digest_of(b.m));
  resize(a.m, 16);
  EXPECT_EQ(digest_of(a.m), digest_of(b.m));
}

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST(Grow, RoomCostsAddresses) {
  const uint64_t before = resident_bytes();
  const ManagerOf a(config_of(1000, 4'000'000));
  const uint64_t taken = stats_of(a.m).metadata_bytes;
  EXPECT_GT(taken, 400u << 20);
  EXPECT_LT(resident_bytes() - before, taken / 4);
}

TEST(Shrink, BytesFollow) {
  const ManagerOf a(config_of(16));
  kvc_storage_config c = {};
  c.struct_size = sizeof c;
  c.num_blocks = 16, c.num_layers = 3, c.num_heads = 2, c.head_dim = 8, c.block_size = kBlock;
  c.dtype = KVC_INT8;
  kvc_storage* s = nullptr;
  ASSERT_EQ(kvc_storage_create(&c, &s), KVC_OK);
  const StoragePtr owner(s);
  const uint64_t gone = allocate(a.m, prompt_of(1000, 12)), stays = allocate(a.m, prompt_of(2000, 4));
  uint64_t shares = 0;
  ASSERT_EQ(kvc_manager_fork_request(a.m, stays, &shares), KVC_OK);
  const std::vector<int32_t> before = table_of(a.m, stays);
  ASSERT_EQ(before, (std::vector<int32_t>{12, 13, 14, 15}));

  std::vector<float> k(3 * 16 * 2 * 8), v(k.size()), rows(k.size()), values(k.size());
  for (size_t i = 0; i < k.size(); ++i) k[i] = static_cast<float>(i % 97), v[i] = -k[i];
  kvc_rows r = {};
  r.struct_size = sizeof r;
  r.k = k.data(), r.v = v.data(), r.num_tokens = 16, r.num_layers = 3;
  r.block_table = before.data(), r.block_table_size = before.size();
  ASSERT_EQ(kvc_storage_store(s, &r, nullptr), KVC_OK);
  r.k = rows.data(), r.v = values.data();
  ASSERT_EQ(kvc_storage_gather(s, &r, nullptr), KVC_OK);
  const std::vector<float> old_rows = rows, old_values = values;

  ASSERT_EQ(kvc_manager_free_request(a.m, gone), KVC_OK);
  // Of 12 cached blocks 4 stay: the beginning of the prompt, whose end leaves first.
  const std::vector<kvc_block_copy> moves = resize(a.m, 8);
  ASSERT_EQ(moves.size(), 4u);
  EXPECT_EQ(cached(a.m, prompt_of(1000, 12)), 4 * kBlock);
  const std::vector<int32_t> after = table_of(a.m, stays);
  EXPECT_EQ(after, (std::vector<int32_t>{7, 6, 5, 4}));
  EXPECT_EQ(table_of(a.m, shares), after);
  ASSERT_EQ(kvc_storage_copy_blocks(s, moves.data(), moves.size(), nullptr), KVC_OK);
  ASSERT_EQ(kvc_storage_zero_blocks(s, before.data(), before.size(), nullptr), KVC_OK);  // nobody looks there
  std::fill(rows.begin(), rows.end(), 0.0f), std::fill(values.begin(), values.end(), 0.0f);
  r.block_table = after.data();
  ASSERT_EQ(kvc_storage_gather(s, &r, nullptr), KVC_OK);
  EXPECT_EQ(rows, old_rows);
  EXPECT_EQ(values, old_values);
  EXPECT_EQ(stats_of(a.m).blocks_total, 8u);
}

TEST(Shrink, EvictsByThePolicyNotById) {
  const ManagerOf a(config_of(12));
  cache(a.m, prompt_of(1000, 4));  // 0 .. 3, the oldest
  cache(a.m, prompt_of(2000, 4));
  cache(a.m, prompt_of(3000, 4));  // 8 .. 11
  EXPECT_EQ(cached(a.m, prompt_of(1000, 4)), 16u);
  const std::vector<kvc_block_copy> moves = resize(a.m, 8);
  EXPECT_EQ(moves.size(), 4u);
  EXPECT_EQ(cached(a.m, prompt_of(1000, 4)), 0u);
  EXPECT_EQ(cached(a.m, prompt_of(2000, 4)), 16u);
  EXPECT_EQ(cached(a.m, prompt_of(3000, 4)), 16u);
  EXPECT_EQ(stats_of(a.m).evictions, 4u);
  std::vector<int32_t> table = table_of(a.m, allocate(a.m, prompt_of(3000, 5)));
  table.resize(4);
  EXPECT_EQ(table, (std::vector<int32_t>{3, 2, 1, 0}));
}

TEST(Shrink, WhatAResetLeftIsNotMoved) {
  const ManagerOf a(config_of(12));
  cache(a.m, prompt_of(1000, 4));
  cache(a.m, prompt_of(2000, 8));
  ASSERT_EQ(kvc_manager_reset_all(a.m), KVC_OK);
  size_t count = 77;
  EXPECT_EQ(kvc_manager_resize(a.m, 0, 2, nullptr, 0, &count), KVC_OK) << kvc_last_error();
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(stats_of(a.m).evictions, 0u);
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
}

TEST(Shrink, StepTablesListTheChanges) {
  const ManagerOf a(config_of(12));
  const uint64_t gone = allocate(a.m, prompt_of(1000, 6)), stays = allocate(a.m, prompt_of(2000, 3));
  std::vector<int32_t> tables(8, -1);
  std::vector<kvc_table_change> changes(32);
  kvc_block_copy copies[4];
  const int32_t row = 0;
  const uint64_t committed = 12;
  kvc_step step = {};
  step.struct_size = sizeof step;
  step.requests = &stays, step.num_requests = 1, step.rows = &row, step.committed = &committed;
  step.block_tables = tables.data(), step.num_rows = 1, step.row_stride = 8;
  step.changes = changes.data(), step.change_capacity = changes.size();
  step.copies = copies, step.copy_capacity = 4;
  kvc_status statuses[1];
  step.status = statuses;
  ASSERT_EQ(kvc_manager_step(a.m, &step), KVC_OK) << kvc_last_error();
  ASSERT_EQ(tables[2], 8);
  refuse(a.m, 6, KVC_ERROR_AGAIN, "step 1 is in flight");
  ASSERT_EQ(kvc_manager_retire_step(a.m, step.step_id), KVC_OK);
  ASSERT_EQ(kvc_manager_free_request(a.m, gone), KVC_OK);
  EXPECT_EQ(resize(a.m, 6).size(), 3u);
  ASSERT_EQ(kvc_manager_step(a.m, &step), KVC_OK) << kvc_last_error();
  EXPECT_EQ(step.num_changes, 3u);
  const std::vector<int32_t> now = table_of(a.m, stays);
  EXPECT_EQ(std::vector<int32_t>(tables.begin(), tables.begin() + 3), now);
  EXPECT_TRUE(std::all_of(now.begin(), now.end(), [](int32_t block) { return block < 6; }));
}

TEST(Shrink, PinsAndRegisteredPromptsMove) {
  const ManagerOf a(config_of(16));
  const uint64_t gone = allocate(a.m, prompt_of(1000, 8));
  cache(a.m, prompt_of(2000, 4));
  cache(a.m, prompt_of(3000, 4));
  uint64_t pin = 0, tokens = 0;
  const std::vector<int32_t> pinned = prompt_of(2000, 4), registered = prompt_of(3000, 4);
  ASSERT_EQ(kvc_manager_pin_prefix(a.m, PROMPT(0, pinned.data(), 16, nullptr, 0), &pin, &tokens), KVC_OK);
  ASSERT_EQ(kvc_manager_register_prompt(a.m, "prompt", PROMPT(0, registered.data(), 16, nullptr, 0), &tokens),
            KVC_OK);
  refuse(a.m, 15, KVC_ERROR_NO_SPACE, "16 blocks of pool 0 are held");
  ASSERT_EQ(kvc_manager_free_request(a.m, gone), KVC_OK);
  EXPECT_EQ(resize(a.m, 8).size(), 8u);
  EXPECT_EQ(pool_of(a.m).pinned, 8u);
  EXPECT_EQ(cached(a.m, pinned), 16u);
  EXPECT_EQ(cached(a.m, registered), 16u);
  refuse(a.m, 7, KVC_ERROR_NO_SPACE, "give at least 8");
  ASSERT_EQ(kvc_manager_unpin_prefix(a.m, pin), KVC_OK);
  ASSERT_EQ(kvc_manager_unregister_prompt(a.m, "prompt"), KVC_OK);
  EXPECT_EQ(pool_of(a.m).cached, 8u);
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
}

TEST(Shrink, ExternalHoldsStay) {
  const ManagerOf a(config_of(8));
  int32_t blocks[6] = {};
  ASSERT_EQ(kvc_manager_acquire_blocks(a.m, 0, blocks, 6), KVC_OK);
  ASSERT_EQ(kvc_manager_release_blocks(a.m, blocks, 5), KVC_OK);
  refuse(a.m, 5, KVC_ERROR_BUSY,
         "block 5 has 1 external holds and cannot move; release it first, or give at least 6");
  EXPECT_TRUE(resize(a.m, 6).empty());
  ASSERT_EQ(kvc_manager_release_blocks(a.m, blocks + 5, 1), KVC_OK);
  EXPECT_TRUE(resize(a.m, 1).empty());
}

TEST(Shrink, RefusesWhatCannotBe) {
  kvc_manager_config config = config_of(8, 10);
  config.watermark_blocks = 2, config.flags = KVC_MANAGER_NULL_BLOCK;
  const ManagerOf a(config);
  refuse(a.m, 0, KVC_ERROR_INVALID_ARGUMENT, "num_blocks is 0; pool 0 must have at least 2");
  refuse(a.m, 1, KVC_ERROR_INVALID_ARGUMENT, "at least 2");
  refuse(a.m, 3, KVC_ERROR_INVALID_ARGUMENT, "watermark_blocks: give at least 4");
  refuse(a.m, 11, KVC_ERROR_INVALID_ARGUMENT, "max_blocks 10");
  refuse(a.m, UINT64_MAX, KVC_ERROR_INVALID_ARGUMENT, "max_blocks 10");
  refuse(a.m, 8, KVC_ERROR_INVALID_ARGUMENT, "pool 1 does not exist", 1);
  EXPECT_EQ(kvc_manager_resize(a.m, 0, 8, nullptr, 1, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_resize(a.m, 0, 8, nullptr, 0, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_resize(nullptr, 0, 8, nullptr, 0, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  const uint64_t request = allocate(a.m, prompt_of(0, 5));
  refuse(a.m, 5, KVC_ERROR_NO_SPACE,
         "num_blocks is 5; 5 blocks of pool 0 are held and 0 promised to quotas: give at least 6");
  resize(a.m, 6);
  ASSERT_EQ(kvc_manager_free_request(a.m, request), KVC_OK);
}

TEST(Shrink, RoomForMovesIsAskedFor) {
  const ManagerOf a(config_of(12));
  const uint64_t gone = allocate(a.m, prompt_of(0, 4));
  allocate(a.m, prompt_of(100, 3));
  cache(a.m, prompt_of(200, 2));
  ASSERT_EQ(kvc_manager_free_request(a.m, gone), KVC_OK);
  const uint64_t before = digest_of(a.m);
  kvc_block_copy moves[5];
  size_t count = 77;
  EXPECT_EQ(kvc_manager_resize(a.m, 0, 4, nullptr, 0, &count), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(count, 5u);
  EXPECT_EQ(kvc_manager_resize(a.m, 0, 4, moves, 4, &count), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(digest_of(a.m), before);
  EXPECT_EQ(kvc_manager_resize(a.m, 0, 4, moves, 5, &count), KVC_OK) << kvc_last_error();
  EXPECT_EQ(count, 3u);  // the two cached ones that might have moved were evicted
}

TEST(Shrink, PendingWorkIsRefused) {
  kvc_manager_config config = config_of(12);
  config.flags = KVC_MANAGER_ZERO_ALWAYS;
  const ManagerOf a(config);
  const uint64_t request = allocate(a.m, tokens_from(0, 6));
  refuse(a.m, 6, KVC_ERROR_BUSY, "2 blocks are to be cleared; take them first");
  int32_t zeros[12];
  size_t count = 0;
  ASSERT_EQ(take_zero_blocks(a.m, zeros, 12, &count), KVC_OK);
  uint64_t child = 0;
  ASSERT_EQ(kvc_manager_fork_request(a.m, request, &child), KVC_OK);
  const int32_t token = 9;
  ASSERT_EQ(kvc_manager_append_tokens(a.m, child, &token, 1), KVC_OK);
  refuse(a.m, 6, KVC_ERROR_BUSY, "1 copies are waiting");
  kvc_block_copy copies[4];
  ASSERT_EQ(take_copies(a.m, copies, 4, &count), KVC_OK);
  resize(a.m, 6);
}

TEST(Shrink, MinimumsOfQuotasHold) {
  kvc_manager_config config = config_of(16);
  config.max_quotas = 2;
  const ManagerOf a(config);
  const uint64_t tenant = [&] {
    kvc_namespace_config identity = {};
    identity.struct_size = sizeof identity, identity.tenant = "a", identity.tenant_size = 1;
    uint64_t id = 0;
    EXPECT_EQ(kvc_manager_open_namespace(a.m, &identity, &id), KVC_OK);
    return id;
  }();
  ASSERT_EQ(kvc_manager_set_quota(a.m, tenant, 0, 6, 0), KVC_OK);
  cache(a.m, prompt_of(0, 6), tenant);  // the oldest
  cache(a.m, prompt_of(100, 8));
  refuse(a.m, 5, KVC_ERROR_INVALID_ARGUMENT, "minimums of quotas: give at least 6");
  const uint64_t other = allocate(a.m, prompt_of(100, 8));
  refuse(a.m, 13, KVC_ERROR_NO_SPACE, "8 blocks of pool 0 are held and 6 promised");
  resize(a.m, 14);
  EXPECT_EQ(cached(a.m, prompt_of(0, 6), tenant), 24u);
  ASSERT_EQ(kvc_manager_free_request(a.m, other), KVC_OK);
  resize(a.m, 8);  // the common share gives all that has to leave
  EXPECT_EQ(cached(a.m, prompt_of(0, 6), tenant), 24u);
  EXPECT_EQ(cached(a.m, prompt_of(100, 8)), 8u);
  ASSERT_EQ(kvc_manager_set_quota(a.m, tenant, 0, 0, 8), KVC_OK);
  resize(a.m, 4);  // a maximum above it is no obstacle
  kvc_quota_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_manager_quota_info(a.m, tenant, 0, &info), KVC_OK);
  EXPECT_EQ(info.max_blocks, 8u);
  EXPECT_EQ(info.available, 4u);
}

// Sizes change often, and what is held and cached with them. Nothing is ever found wrong or lost.
TEST(Shrink, BackAndForth) {
  for (const uint32_t policy : {KVC_POLICY_LRU, KVC_POLICY_FREQUENCY, KVC_POLICY_FRAGMENTATION}) {
    kvc_manager_config config = config_of(40, 60);
    config.policy = policy, config.flags = KVC_MANAGER_HINTS;
    if (policy == KVC_POLICY_FRAGMENTATION) config.policy_weight = 0.5;
    const ManagerOf a(config);
    for (int32_t round = 0; round < 60; ++round) {
      const uint64_t held = allocate(a.m, prompt_of(round % 7 * 1000, 6));
      cache(a.m, prompt_of(round % 5 * 1000 + 100, 5));
      const uint64_t size = 12 + static_cast<uint64_t>(round) * 37 % 48;
      for (const kvc_block_copy& move : resize(a.m, size)) {
        EXPECT_GE(static_cast<uint64_t>(move.source), size);
        EXPECT_LT(static_cast<uint64_t>(move.destination), size);
      }
      ASSERT_EQ(kvc_manager_free_request(a.m, held), KVC_OK);
      EXPECT_EQ(cached(a.m, prompt_of(round % 7 * 1000, 6)), 24u);
    }
  }
}

TEST(Resize, TakesNoMemory) {
  CountingHeap heap;
  ManagerOf a;
  ASSERT_EQ(a.create(config_of(64, 128), heap.env()), KVC_OK);
  const uint64_t gone = allocate(a.m, prompt_of(0, 32));
  allocate(a.m, prompt_of(1000, 32));
  ASSERT_EQ(kvc_manager_free_request(a.m, gone), KVC_OK);
  heap.fail_always(true);
  std::vector<kvc_block_copy> moves(64);
  size_t count = 0;
  EXPECT_EQ(kvc_manager_resize(a.m, 0, 128, moves.data(), 64, &count), KVC_OK);
  EXPECT_EQ(kvc_manager_resize(a.m, 0, 32, moves.data(), 64, &count), KVC_OK);
  EXPECT_EQ(heap.failures(), 0u);
  heap.fail_always(false);
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
}

TEST(Resize, ARebuiltManagerHasRoom) {
  const ManagerOf a(config_of(16));
  cache(a.m, prompt_of(0, 12));
  kvc_pool_config pool = {sizeof pool, 20, 64};
  kvc_manager_config config = config_of(0);
  config.struct_size = sizeof config, config.pools = &pool, config.num_pools = 1;
  std::vector<kvc_token_copy> copies(64);
  kvc_rebuild rebuild = {};
  rebuild.struct_size = sizeof rebuild, rebuild.copies = copies.data(), rebuild.copy_capacity = 64;
  ManagerOf b;
  ASSERT_EQ(kvc_manager_rebuild(a.m, &config, &rebuild, &b.m), KVC_OK) << kvc_last_error();
  resize(b.m, 64);
  EXPECT_EQ(cached(b.m, prompt_of(0, 12)), 48u);
}

TEST(Resize, ConfigurationsAreChecked) {
  const auto refused = [](const kvc_manager_config& given, const char* text) {
    kvc_manager_config config = given;
    config.struct_size = sizeof config;
    kvc_manager* m = nullptr;
    EXPECT_EQ(kvc_manager_create(&config, &m), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(kvc_last_error()).find(text), std::string::npos) << kvc_last_error();
    EXPECT_EQ(m, nullptr);
  };
  refused(config_of(8, 7), "pool 0 has 8 blocks and max_blocks 7");
  refused(config_of(8, uint64_t{1} << 31), "of all pools at most");
  kvc_pool_config pools[2] = {{sizeof(kvc_pool_config), 8, uint64_t{1} << 30},
                              {sizeof(kvc_pool_config), 8, uint64_t{1} << 30}};
  kvc_group_config groups[2] = {full_group(), full_group()};
  groups[1].pool = 1;
  kvc_manager_config two = config_of(0);
  two.pools = pools, two.num_pools = 2, two.groups = groups, two.num_groups = 2;
  refused(two, "pool 1 has 8 blocks and max_blocks 1073741824");
  two.max_blocks = 9;
  refused(two, "max_blocks is 9 beside 2 pools");
}

// Others admit, append, step and free while one thread resizes. Whoever is refused is told why.
TEST(ResizeThreads, ResizeWhileOthersWork) {
  const ManagerOf a(config_of(64, 96));
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 400; ++i) {
        const std::vector<int32_t> tokens = prompt_of((t * 7 + i % 5) * 1000, static_cast<size_t>(1 + i % 6));
        uint64_t request = 0;
        const kvc_status status = kvc_manager_allocate_request(
            a.m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr, &request, nullptr);
        if (status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN) continue;
        ASSERT_EQ(status, KVC_OK) << kvc_last_error();
        EXPECT_EQ(kvc_manager_commit_tokens(a.m, request, tokens.size()), KVC_OK) << kvc_last_error();
        if (i % 3 == 0) {
          kvc_step step = {};
          step.struct_size = sizeof step;
          step.frees = &request, step.num_frees = 1;
          kvc_status item = KVC_OK;
          step.status = &item;
          ASSERT_EQ(kvc_manager_step(a.m, &step), KVC_OK) << kvc_last_error();
          EXPECT_EQ(kvc_manager_retire_step(a.m, step.step_id), KVC_OK) << kvc_last_error();
        } else {
          EXPECT_EQ(kvc_manager_free_request(a.m, request), KVC_OK);
        }
      }
    });
  }
  std::vector<kvc_block_copy> moves(96);
  for (uint64_t i = 0; i < 2000; ++i) {
    size_t count = 0;
    const kvc_status status =
        kvc_manager_resize(a.m, 0, 24 + i * 29 % 72, moves.data(), moves.size(), &count);
    EXPECT_TRUE(status == KVC_OK || status == KVC_ERROR_AGAIN || status == KVC_ERROR_BUSY ||
                status == KVC_ERROR_NO_SPACE)
        << kvc_last_error();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  EXPECT_EQ(pool_of(a.m).live, 0u);
}

}  // namespace
}  // namespace kvc::test
