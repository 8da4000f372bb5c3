// SPDX-License-Identifier: Apache-2.0
// The order in which a hybrid model's request gives its blocks back, which is the order of their eviction:
// worked out by hand from docs/SEMANTICS.md. One pool, blocks of 4 tokens, a full group and a window of 8;
// ids are group by group.
#include <gtest/gtest.h>
#include <kvcache/external.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include <utility>
#include <vector>

#include "calls.h"
#include "manager/manager_peer.h"

namespace kvc {
namespace {

using Ids = std::vector<int32_t>;

class ReleaseOrder : public ::testing::Test {
 protected:
  void create(const kvc_group_config& window) {
    const kvc_group_config groups[] = {full_group(), window};
    kvc_manager_config config = {};
    config.num_blocks = 14;
    config.max_requests = 4;
    config.block_size = 4;
    config.groups = groups;
    config.num_groups = 2;
    ASSERT_EQ(manager_.create(config, default_env()), KVC_OK);
  }
  uint64_t admit(size_t tokens) {
    uint64_t id = 0;
    const auto prompt = tokens_from(1, tokens);
    EXPECT_EQ(kvc_manager_allocate_request(manager_.m, PROMPT(0, prompt.data(), tokens, nullptr, 0), nullptr,
                                           &id, nullptr),
              KVC_OK);
    return id;
  }
  Ids lru() const {
    ManagerPeer peer(manager_.m);
    Ids ids;
    for (BlockId id = peer.pool().lru_head(0); !peer.pool().at_end(id); id = peer.pool()[id].next)
      ids.push_back(raw(id));
    return ids;
  }
  Ids free() const {
    ManagerPeer peer(manager_.m);
    Ids ids;
    for (BlockId id = peer.pool().free_top(0); is_block(id); id = peer.pool()[id].next)
      ids.push_back(raw(id));
    return ids;
  }
  void commit(uint64_t id, uint64_t tokens) {
    ASSERT_EQ(kvc_manager_commit_tokens(manager_.m, id, tokens), KVC_OK);
  }
  // A request of 12 tokens beside a state group: full 0 .. 2, state 3 at position 2.
  uint64_t commit_with_state() {
    kvc_group_config state = full_group();
    state.kind = KVC_GROUP_STATE;
    create(state);
    const uint64_t id = admit(12);
    commit(id, 12);
    return id;
  }
  void release(uint64_t id) {
    ASSERT_EQ(kvc_manager_free_request(manager_.m, id), KVC_OK);
    EXPECT_EQ(kvc_manager_check(manager_.m), KVC_OK) << last_error();
  }

  ManagerOf manager_;
};

// Positions 0 .. 5 are blocks 0 .. 5 (full) and 6 .. 11 (window); 21 tokens publish positions 0 .. 4, the
// window keeps 3 on.
TEST_F(ReleaseOrder, WhatNoBoundaryNeedsGoesToFreeAtOnce) {
  create(window_group(8));
  const uint64_t id = admit(21);
  commit(id, 21);
  EXPECT_EQ(lru(), Ids{});
  EXPECT_EQ(free(), (Ids{8, 7, 6, 12, 13})) << "returned ascending, last in first out";
  release(id);
  EXPECT_EQ(lru(), (Ids{10, 9, 4, 3, 2, 1, 0})) << "windows before the full group, deepest first";
  EXPECT_EQ(free(), (Ids{5, 11, 8, 7, 6, 12, 13})) << "behind the published end first";
}

TEST_F(ReleaseOrder, RetentionKeepsWindowsAndSplitsSegments) {
  create(window_group(8, 0, 8));
  const uint64_t id = admit(21);
  commit(id, 21);
  EXPECT_EQ(lru(), (Ids{6, 7, 8})) << "they serve the boundaries 8 and 16";
  release(id);
  EXPECT_EQ(lru(), (Ids{10, 4, 9, 8, 3, 2, 7, 6, 1, 0})) << "segments [4,5), [2,4), [0,2)";
  EXPECT_EQ(free(), (Ids{5, 11, 12, 13}));
}

TEST_F(ReleaseOrder, SinksStayAndAreReleasedWithTheWindows) {
  create(window_group(8, 4));
  const uint64_t id = admit(21);
  commit(id, 21);
  EXPECT_EQ(free(), (Ids{8, 7, 12, 13}));
  release(id);
  EXPECT_EQ(lru(), (Ids{10, 9, 6, 4, 3, 2, 1, 0}));
  EXPECT_EQ(free(), (Ids{5, 11, 8, 7, 12, 13}));
}

// A prompt of 5 tokens (full: 0, 1; window: 2, 3), then 16 decoded (full: 4 .. 7; window: 8 .. 11).
TEST_F(ReleaseOrder, ThePromptsEndAndTheRequestsEndStayReusable) {
  create(window_group(8));
  const uint64_t id = admit(5);
  const auto more = tokens_from(6, 16);
  ASSERT_EQ(kvc_manager_append_tokens(manager_.m, id, more.data(), 16), KVC_OK);
  commit(id, 21);
  EXPECT_EQ(lru(), (Ids{2})) << "serves the prompt's end, 4";
  EXPECT_EQ(free(), (Ids{8, 3, 12, 13}));
  release(id);
  EXPECT_EQ(lru(), (Ids{10, 9, 6, 5, 4, 1, 2, 0})) << "segments [1,5) and [0,1)";
  EXPECT_EQ(free(), (Ids{7, 11, 8, 3, 12, 13}));
}

// Behind the last token of a block no state is left.
TEST_F(ReleaseOrder, StatesComeBehindAllKeysAndValues) {
  const uint64_t id = commit_with_state();
  release(id);
  EXPECT_EQ(lru(), (Ids{2, 1, 0, 3}));
  EXPECT_EQ(free(), (Ids{4, 5, 6, 7, 8, 9, 10, 11, 12, 13}));
}

// The same blocks, held by a pin alone in the end.
TEST_F(ReleaseOrder, StatesOfAPinComeBehindAllKeysAndValues) {
  const uint64_t id = commit_with_state();
  const auto prompt = tokens_from(1, 12);
  uint64_t pin = 0, length = 0;
  ASSERT_EQ(kvc_manager_pin_prefix(manager_.m, PROMPT(0, prompt.data(), 12, nullptr, 0), &pin, &length),
            KVC_OK)
      << last_error();
  ASSERT_EQ(length, 12u);
  release(id);
  EXPECT_EQ(lru(), Ids{});
  ASSERT_EQ(kvc_manager_unpin_prefix(manager_.m, pin), KVC_OK);
  EXPECT_EQ(lru(), (Ids{2, 1, 0, 3}));
}

TEST_F(ReleaseOrder, NothingCommittedGoesToFreeDeepestFirst) {
  create(window_group(8));
  release(admit(12));  // full: 0 1 2, window: 3 4 5
  EXPECT_EQ(lru(), Ids{});
  EXPECT_EQ(free(), (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}));
}

TEST_F(ReleaseOrder, AResetSendsEverythingToFreeInTheSameOrder) {
  create(window_group(8));
  const uint64_t id = admit(21);
  commit(id, 21);
  ASSERT_EQ(kvc_manager_reset_all(manager_.m), KVC_OK);
  release(id);
  EXPECT_EQ(lru(), Ids{});
  EXPECT_EQ(free(), (Ids{0, 1, 2, 3, 4, 9, 10, 5, 11, 8, 7, 6, 12, 13}));
}

// What a window leaves behind and only its retention keeps. Prompts of 33 tokens and more, of which 8 tokens
// before an end are near; a hit may end at each block.
class FirstOut : public ReleaseOrder {
 protected:
  void create(bool own_pool) {
    kvc_group_config groups[] = {full_group(), window_group(8, 0, 4)};
    groups[1].pool = own_pool;
    const kvc_pool_config pools[] = {{sizeof(kvc_pool_config), own_pool ? 30u : 60u, 0},
                                     {sizeof(kvc_pool_config), 30, 0}};
    kvc_manager_config config = {};
    config.pools = pools, config.num_pools = own_pool ? 2 : 1;
    config.max_requests = 4, config.block_size = 4, config.max_nodes = 100;
    config.groups = groups, config.num_groups = 2;
    Env env = default_env();
    env.near_tokens = 8;
    ASSERT_EQ(manager_.create(config, env), KVC_OK);
  }
  // A prompt that shares its first tokens with others, and then goes on alone.
  uint64_t admit(size_t shared, size_t tokens, uint64_t expected_hit) {
    std::vector<int32_t> prompt = tokens_from(1, shared);
    const auto rest = tokens_from(1000 * ++prompts_, tokens - shared);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    uint64_t id = 0, hit = 0;
    EXPECT_EQ(kvc_manager_allocate_request(manager_.m, PROMPT(0, prompt.data(), tokens, nullptr, 0), nullptr,
                                           &id, &hit),
              KVC_OK);
    EXPECT_EQ(hit, expected_hit);
    return id;
  }
  // Positions of the cached window blocks, the next victim first.
  Ids windows() const {
    ManagerPeer peer(manager_.m);
    const PrefixTree& tree = peer.tree();
    Ids positions;
    const size_t pool = peer.pool().num_pools() - 1;
    for (BlockId id = peer.pool().lru_head(pool); !peer.pool().at_end(id); id = peer.pool()[id].next) {
      const Block& block = peer.pool()[id];
      if (block.group == 1) positions.push_back(static_cast<int32_t>(tree[block.node].depth));
    }
    return positions;
  }
  int32_t prompts_ = 0;
};

TEST_F(FirstOut, WhatIsFarFromThePromptsEndLeavesFirst) {
  for (const bool own_pool : {false, true}) {
    create(own_pool);
    const uint64_t id = admit(0, 33, 0);
    commit(id, 33);
    EXPECT_EQ(windows(), (Ids{3, 2, 1, 0, 4, 5})) << "a hit of 25 tokens, 8 before the end, needs 4";
    release(id);
    EXPECT_EQ(windows(), (Ids{3, 2, 1, 0, 7, 6, 5, 4}))
        << "the end of the prompt stays as long as its blocks";
    const uint64_t other = admit(0, 33, 0);
    commit(other, 33);
    release(other);
    EXPECT_EQ(windows(), (Ids{3, 2, 1, 0, 3, 2, 1, 0, 7, 6, 5, 4, 7, 6, 5, 4}));
    size_t evicted = 0;
    ASSERT_EQ(kvc_manager_evict_blocks(manager_.m, own_pool, 8, &evicted), KVC_OK);
    EXPECT_EQ(windows(), (Ids{7, 6, 5, 4, 7, 6, 5, 4})) << "no block of a full group, nor of an end";
    kvc_manager_destroy(std::exchange(manager_.m, nullptr));
  }
}

TEST_F(FirstOut, AStepInFlightDoesNotMakeItStay) {
  create(false);
  const uint64_t id = admit(0, 33, 0);
  kvc_step step = {};
  step.struct_size = sizeof step;
  ASSERT_EQ(kvc_manager_step(manager_.m, &step), KVC_OK);
  commit(id, 33);
  EXPECT_EQ(windows(), Ids{});
  ASSERT_EQ(kvc_manager_retire_step(manager_.m, step.step_id), KVC_OK);
  EXPECT_EQ(windows(), (Ids{3, 2, 1, 0, 4, 5}));
  release(id);
}

TEST_F(FirstOut, WhatAHitHasUsedStays) {
  create(false);
  const uint64_t first = admit(24, 33, 0);
  commit(first, 33);
  release(first);
  const uint64_t id = admit(24, 49, 24);  // holds 4 and 5
  EXPECT_EQ(windows(), (Ids{3, 2, 1, 0, 7, 6}));
  commit(id, 49);
  EXPECT_EQ(windows(), (Ids{7, 6, 3, 2, 1, 0, 7, 6, 4, 5, 8, 9})) << "far: 6 and 7 of the new prompt";
  release(id);
  EXPECT_EQ(windows(), (Ids{7, 6, 1, 0, 7, 6, 11, 10, 9, 8, 5, 4, 3, 2})) << "and what is near the hit";
}

TEST_F(FirstOut, WhatSomebodyElseHasHeldStays) {
  create(false);
  const uint64_t id = admit(0, 33, 0);
  commit(id, 33);
  release(id);
  EXPECT_EQ(windows(), (Ids{3, 2, 1, 0, 7, 6, 5, 4}));
  const auto prompt = tokens_from(1000, 16);
  int32_t held[4];
  size_t count = 0;
  ASSERT_EQ(
      kvc_manager_acquire_prefix(manager_.m, PROMPT(0, prompt.data(), 16, nullptr, 0), 1, held, 4, &count),
      KVC_OK);
  ASSERT_EQ(count, 4u);
  EXPECT_EQ(windows(), (Ids{1, 0, 7, 6, 5, 4})) << "a window of 8 tokens";
  ASSERT_EQ(kvc_manager_release_blocks(manager_.m, held + 2, 2), KVC_OK);
  EXPECT_EQ(windows(), (Ids{1, 0, 7, 6, 5, 4, 3, 2}));
}

TEST_F(FirstOut, WhatAnotherGroupCouldHaveHitStaysTheSecondTime) {
  create(true);
  const uint64_t first = admit(24, 33, 0);
  commit(first, 33);
  release(first);
  size_t evicted = 0;
  ASSERT_EQ(kvc_manager_evict_blocks(manager_.m, 1, 8, &evicted), KVC_OK);
  const uint64_t id = admit(24, 49, 0);  // the full group has 24 tokens
  commit(id, 49);
  EXPECT_EQ(windows(), (Ids{7, 6, 1, 0, 2, 3, 4, 5, 8, 9}));
  release(id);
  EXPECT_EQ(windows(), (Ids{7, 6, 1, 0, 11, 10, 9, 8, 5, 4, 3, 2}));
}

}  // namespace
}  // namespace kvc
