// SPDX-License-Identifier: Apache-2.0
// Golden victims of each policy on one small trace, worked out by hand from docs/SEMANTICS.md; what is
// remembered after eviction; and that no policy keeps a position whose beginning is gone.
#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <kvcache/prefix.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

using Ids = std::vector<int32_t>;

// Blocks of 4 tokens. A prompt has `blocks` full ones and one token more.
class PolicyTest : public ::testing::Test {
 protected:
  void create(uint32_t policy, double weight = 0, uint64_t history = 0, uint64_t blocks = 12) {
    kvc_manager_config config = {};
    config.num_blocks = blocks;
    create(config, policy, weight, history);
  }
  void create(kvc_manager_config config, uint32_t policy, double weight, uint64_t history) {
    config.max_requests = 8;
    config.block_size = 4;
    config.policy = policy;
    config.policy_weight = weight;
    config.policy_history = history;
    ASSERT_EQ(manager_.create(config, default_env()), KVC_OK);
  }
  uint64_t compute(int32_t first, size_t blocks) {
    uint64_t id = 0;
    const auto prompt = tokens_from(first, 4 * blocks + 1);
    EXPECT_EQ(kvc_manager_allocate_request(manager_.m, PROMPT(0, prompt.data(), prompt.size(), nullptr, 0),
                                           nullptr, &id, nullptr),
              KVC_OK)
        << last_error();
    EXPECT_EQ(kvc_manager_commit_tokens(manager_.m, id, prompt.size()), KVC_OK);
    return id;
  }
  void use(int32_t first, size_t blocks = 2) {
    const uint64_t id = compute(first, blocks);
    ASSERT_EQ(kvc_manager_free_request(manager_.m, id), KVC_OK);
    EXPECT_EQ(kvc_manager_check(manager_.m), KVC_OK) << last_error();
  }
  std::set<int32_t> cached(uint32_t pool) const {
    std::set<int32_t> ids;
    ManagerPeer peer(manager_.m);
    const PoolCounts& counts = peer.pool().counts(pool);
    for (uint64_t i = counts.first; i < counts.first + counts.size; ++i) {
      const BlockId id{static_cast<int32_t>(i)};
      if (peer.pool()[id].list == List::kLru) ids.insert(raw(id));
    }
    return ids;
  }
  // Evicts `count` blocks of a pool, one by one, and says which.
  Ids victims(size_t count, int32_t pool = 0) {
    Ids order;
    for (size_t i = 0; i < count; ++i) {
      const std::set<int32_t> before = cached(static_cast<uint32_t>(pool));
      uint64_t evicted = 0;
      EXPECT_EQ(kvc_manager_evict_blocks(manager_.m, pool, 1, &evicted), KVC_OK);
      const std::set<int32_t> after = cached(static_cast<uint32_t>(pool));
      for (const int32_t id : before) {
        if (after.count(id) == 0) order.push_back(id);
      }
      EXPECT_EQ(kvc_manager_check(manager_.m), KVC_OK) << last_error();
    }
    return order;
  }
  // Tokens of a prompt that are cached.
  uint64_t hit(int32_t first) const {
    kvc_probe_info info = {};
    info.struct_size = sizeof info;
    const auto prompt = tokens_from(first, 9);
    EXPECT_EQ(kvc_manager_probe(manager_.m, PROMPT(0, prompt.data(), prompt.size(), nullptr, 0), &info),
              KVC_OK);
    return info.num_cached;
  }
  // A has blocks 0 and 1, B 2 and 3, C 4 and 5; A is used again; D has 6 and 7. They come to the cached ones
  // in the order 1 0 | 3 2 | 5 4 | 1 0 | 7 6, at the times 0 .. 9.
  void run_trace() {
    for (const int32_t prompt : {100, 200, 300, 100, 400}) use(prompt);
  }

  ManagerOf manager_;
};

TEST_F(PolicyTest, LruEvictsInTheOrderOfRelease) {
  create(KVC_POLICY_LRU);
  run_trace();
  EXPECT_EQ(victims(8), (Ids{3, 2, 5, 4, 1, 0, 7, 6}));
}

TEST_F(PolicyTest, FrequencyKeepsWhatWasUsedTwice) {
  create(KVC_POLICY_FREQUENCY);  // A = 12 blocks: the scores of 1 and 0 are 6 + 12 and 7 + 12
  run_trace();
  EXPECT_EQ(victims(8), (Ids{3, 2, 5, 4, 7, 6, 1, 0}));
}

TEST_F(PolicyTest, OfEqualScoresTheLeastUsedLeaves) {
  create(KVC_POLICY_FREQUENCY, 0.1);  // A = 1: 1 and 0 have 7 and 8; 7 and 6 have 8 and 9
  run_trace();
  EXPECT_EQ(victims(8), (Ids{3, 2, 5, 4, 1, 7, 0, 6}));
}

TEST_F(PolicyTest, FragmentationOfAnUnbrokenGroupIsLru) {
  for (const double weight : {0.0, 0.5, 1.0}) {
    kvc_manager_destroy(std::exchange(manager_.m, nullptr));
    create(KVC_POLICY_FRAGMENTATION, weight);
    run_trace();
    EXPECT_EQ(victims(8), (Ids{3, 2, 5, 4, 1, 0, 7, 6})) << weight;
  }
}

// Two full groups with a pool each. W, X, Y and Z have blocks 0 .. 3 in the first pool and 20 .. 23 in the
// second, where they come at the times 0 .. 3. Then the first pool loses block 2, so 22 is a fragment.
TEST_F(PolicyTest, FragmentationEvictsWhatNoHitCanUse) {
  const struct {
    double weight;
    Ids order;
  } cases[] = {{0.0, {20, 21, 22, 23}},   // as LRU
               {0.06, {20, 22, 21, 23}},  // 0.06 / 0.94 * 20 blocks: a whole position has 1 more
               {0.1, {22, 20, 21, 23}},   // 2 more: the fragment goes first of equal scores
               {1.0, {22, 20, 21, 23}}};
  for (const auto& [weight, order] : cases) {
    kvc_manager_destroy(std::exchange(manager_.m, nullptr));
    kvc_group_config groups[] = {full_group(), full_group()};
    groups[1].pool = 1;
    kvc_pool_config pools[] = {{sizeof pools[0], 20, 0}, {sizeof pools[0], 20, 0}};
    kvc_manager_config config = {};
    config.groups = groups;
    config.num_groups = 2;
    config.pools = pools;
    config.num_pools = 2;
    create(config, KVC_POLICY_FRAGMENTATION, weight, 0);
    for (const int32_t prompt : {100, 200, 300, 400}) use(prompt, 1);
    ASSERT_EQ(cached(1), (std::set<int32_t>{20, 21, 22, 23}));
    const int32_t lost = 2;
    uint64_t unpublished = 0;
    ASSERT_EQ(kvc_manager_unpublish_blocks(manager_.m, &lost, 1, &unpublished), KVC_OK);
    EXPECT_EQ(kvc_manager_check(manager_.m), KVC_OK) << last_error();
    EXPECT_EQ(victims(4, 1), order) << weight;
  }
}

TEST_F(PolicyTest, UsesAreRememberedAfterEviction) {
  create(KVC_POLICY_FREQUENCY, 1, 8);
  run_trace();
  victims(8);
  use(100);  // for the third time
  use(500);
  victims(2);
  EXPECT_EQ(hit(500), 0u) << "it leaves first, though it is newer";
  EXPECT_EQ(hit(100), 8u);
}

TEST_F(PolicyTest, MemoryOfUsesIsBounded) {
  create(KVC_POLICY_FREQUENCY, 1, 1);  // only the last of the evicted positions, the first one of A
  run_trace();
  victims(8);
  use(100);
  use(500);
  victims(1);
  EXPECT_EQ(hit(100), 4u) << "its second position is not remembered: one use, and the oldest";
  victims(2);
  EXPECT_EQ(hit(500), 0u);
  EXPECT_EQ(hit(100), 4u) << "its first position has three uses";
}

TEST_F(PolicyTest, AResetForgetsUses) {
  create(KVC_POLICY_FREQUENCY, 1, 8);
  run_trace();
  ASSERT_EQ(kvc_manager_reset_all(manager_.m), KVC_OK);
  use(100);
  use(500);
  uint64_t evicted = 0;
  ASSERT_EQ(kvc_manager_evict_blocks(manager_.m, 0, 2, &evicted), KVC_OK);
  EXPECT_EQ(kvc_manager_check(manager_.m), KVC_OK) << last_error();
  EXPECT_EQ(hit(100), 0u) << "one use, and older";
  EXPECT_EQ(hit(500), 8u);
}

// What a reset leaves behind counts as free: it leaves before what is cached since, however often it was
// used.
TEST_F(PolicyTest, AResetLeavesNothingThatPushesOutWhatIsNew) {
  for (const uint32_t policy : {KVC_POLICY_LRU, KVC_POLICY_FREQUENCY}) {
    kvc_manager_destroy(std::exchange(manager_.m, nullptr));
    create(policy);
    for (const int32_t prompt : {100, 200, 300, 400, 100, 200, 300, 400}) use(prompt);  // 8 blocks of 12
    ASSERT_EQ(kvc_manager_reset_all(manager_.m), KVC_OK);
    for (const int32_t prompt : {500, 600, 700, 800}) use(prompt);
    for (const int32_t prompt : {500, 600, 700, 800}) EXPECT_EQ(hit(prompt), 8u) << policy;
    kvc_stats stats = {};
    stats.struct_size = sizeof stats;
    ASSERT_EQ(kvc_manager_read_stats(manager_.m, &stats), KVC_OK);
    EXPECT_EQ(stats.evictions, 0u) << policy;
  }
}

TEST_F(PolicyTest, CompactionFreesAllThatAResetLeft) {
  kvc_group_config groups[] = {full_group(), full_group()};
  kvc_manager_config config = {};
  config.groups = groups;
  config.num_groups = 2;
  config.num_blocks = 20;
  create(config, KVC_POLICY_FRAGMENTATION, 1, 0);
  use(100, 3);
  ASSERT_EQ(cached(0).size(), 6u);
  ASSERT_EQ(kvc_manager_reset_all(manager_.m), KVC_OK);
  kvc_block_copy moves[20];
  size_t count = 0;
  ASSERT_EQ(kvc_manager_compact(manager_.m, 0, moves, 20, &count), KVC_OK);
  EXPECT_EQ(count, 0u);
  EXPECT_TRUE(cached(0).empty());
  EXPECT_EQ(kvc_manager_check(manager_.m), KVC_OK) << last_error();
}

// A position has at most the uses of the one before it, so nothing is kept that no hit can reach.
TEST_F(PolicyTest, AParentOutlivesItsChildren) {
  for (const uint32_t policy : {KVC_POLICY_LRU, KVC_POLICY_FREQUENCY, KVC_POLICY_FRAGMENTATION}) {
    kvc_manager_destroy(std::exchange(manager_.m, nullptr));
    create(policy, policy == KVC_POLICY_LRU ? 0 : 1, policy == KVC_POLICY_FREQUENCY ? 5 : 0, 24);
    uint32_t random = 1;
    const auto below = [&random](uint32_t limit) {
      random = random * 1664525 + 1013904223;
      return (random >> 16) % limit;
    };
    for (int i = 0; i < 2000; ++i) {
      const uint64_t id = compute(static_cast<int32_t>(100 * below(6)), 1 + below(5));
      if (below(3) == 0) {
        uint64_t child = 0;
        ASSERT_EQ(kvc_manager_fork_request(manager_.m, id, &child), KVC_OK);
        const auto more = tokens_from(5000, 4 + below(4));  // both may publish the same
        for (const uint64_t request : {id, child}) {
          kvc_request_info info = {};
          info.struct_size = sizeof info;
          if (kvc_manager_append_tokens(manager_.m, request, more.data(), more.size()) != KVC_OK) continue;
          ASSERT_EQ(kvc_manager_request_info(manager_.m, request, &info), KVC_OK);
          ASSERT_EQ(kvc_manager_commit_tokens(manager_.m, request, info.num_tokens), KVC_OK);
        }
        ASSERT_EQ(kvc_manager_free_request(manager_.m, child), KVC_OK);
        kvc_block_copy copies[8];
        kvc_pending_work work = {};
        work.struct_size = sizeof work;
        work.copies = copies;
        work.copy_capacity = 8;
        ASSERT_EQ(kvc_manager_take_pending(manager_.m, &work), KVC_OK);
      }
      ASSERT_EQ(kvc_manager_free_request(manager_.m, id), KVC_OK);
      ManagerPeer peer(manager_.m);
      for (size_t n = 0; n < peer.tree().places().used(); ++n) {
        const NodeId node{static_cast<int32_t>(n)};
        if (!peer.tree().alive(node) || peer.tree()[node].resident == 0) continue;
        const NodeId parent = peer.tree()[node].parent;
        ASSERT_TRUE(!is_node(parent) || peer.tree()[parent].resident != 0) << policy << ", operation " << i;
      }
    }
    ASSERT_EQ(kvc_manager_check(manager_.m), KVC_OK) << last_error();
  }
}

TEST_F(PolicyTest, CheckFindsBrokenShelvesAndUses) {
  create(KVC_POLICY_FREQUENCY);
  run_trace();
  ManagerPeer peer(manager_.m);
  const BlockId oldest = peer.pool().lru_head(0), newer = peer.pool()[oldest].next;
  const auto expect_found = [this](const char* text) {
    EXPECT_EQ(kvc_manager_check(manager_.m), KVC_ERROR_CORRUPT);
    EXPECT_NE(std::string(last_error()).find(text), std::string::npos) << last_error();
  };
  peer.pool().shelves().reshelve(oldest, {});
  expect_found("list 0 of pool 0");
  for (BlockId id = newer; id != oldest;) {  // once around
    const BlockId next = peer.pool()[id].next;
    peer.pool().shelves().reshelve(id, {});
    id = next;
  }
  EXPECT_EQ(kvc_manager_check(manager_.m), KVC_OK) << last_error();
  peer.uses().end_stale(peer.pool()[oldest].node);
  expect_found("0 uses");
}

TEST_F(PolicyTest, EqualCallsGiveEqualDigestsAndDifferentUsesDoNot) {
  const auto digest_after = [this](const std::vector<int32_t>& prompts, uint64_t seed) {
    kvc_manager_destroy(std::exchange(manager_.m, nullptr));
    kvc_manager_config config = {};
    config.num_blocks = 12;
    config.seed = seed;
    create(config, KVC_POLICY_FREQUENCY, 1, 0);
    for (const int32_t prompt : prompts) use(prompt);
    victims(8);
    uint64_t digest = 0;
    EXPECT_EQ(kvc_manager_digest(manager_.m, &digest), KVC_OK);
    return digest;
  };
  EXPECT_EQ(digest_after({100, 200, 100, 300}, 1), digest_after({100, 200, 100, 300}, 2));
  EXPECT_NE(digest_after({100, 200, 100, 300}, 1), digest_after({100, 200, 200, 300}, 1))
      << "all is evicted, but other positions are remembered with two uses";
}

}  // namespace
}  // namespace kvc
