// SPDX-License-Identifier: Apache-2.0
// Blocks and their lists: the order of FREE, LRU and FENCED, the null block, several pools, the counts of
// reserved and pinned blocks after every transition (against a recount, over random histories), and fences
// across 2^32 steps.
#include "pool/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/counting_heap.h"

namespace kvc {
namespace {

class BlockPoolTest : public ::testing::Test {
 protected:
  void create(std::vector<uint64_t> sizes, bool null_block = false) {
    ASSERT_TRUE(pool_.create(memory_, sizes.data(), sizes.size(), null_block));
  }
  Block& block(int32_t id) { return pool_[BlockId{id}]; }
  int32_t pop(size_t pool = 0) {
    BlockId id = kNoBlock;
    EXPECT_EQ(pool_.pop_free(pool, 0, 1, &id), 1u);
    return raw(id);
  }
  std::vector<int32_t> list_from(BlockId id) const {
    std::vector<int32_t> ids;
    for (; !pool_.at_end(id); id = pool_[id].next) ids.push_back(raw(id));
    return ids;
  }
  std::vector<int32_t> lru(size_t pool = 0) const { return list_from(pool_.lru_head(pool)); }
  std::vector<int32_t> fenced(size_t pool = 0) const { return list_from(pool_.fenced_head(pool)); }
  std::vector<int32_t> free(size_t pool = 0) const {
    std::vector<int32_t> ids;
    for (BlockId id = pool_.free_top(pool); is_block(id); id = pool_[id].next) ids.push_back(raw(id));
    const PoolCounts& counts = pool_.counts(pool);
    for (uint64_t i = pool_.first_unopened(pool); i < counts.first + counts.size; ++i)
      ids.push_back(static_cast<int32_t>(i));
    return ids;
  }
  // Drops the only reference of a block that pop() gave.
  void drop(int32_t id) { ASSERT_TRUE(pool_.drop_ref(block(id))); }

  void expect_counts_right() const {
    for (size_t p = 0; p < pool_.num_pools(); ++p) {
      const PoolCounts& counts = pool_.counts(p);
      uint64_t lists[4] = {}, reserved = 0, pinned = 0;
      for (uint64_t i = counts.first; i < counts.first + counts.size; ++i) {
        const Block b = pool_.read(BlockId{static_cast<int32_t>(i)});
        ++lists[static_cast<size_t>(b.list)];
        EXPECT_EQ(b.list == List::kHeld, b.held()) << "block " << i;
        reserved += b.held() && b.content == Content::kEmpty;
        pinned += b.pins != 0 && b.refs == 0 && b.external == 0;
      }
      ASSERT_EQ(counts.free, lists[static_cast<size_t>(List::kFree)]);
      ASSERT_EQ(counts.lru, lists[static_cast<size_t>(List::kLru)]);
      ASSERT_EQ(counts.fenced, lists[static_cast<size_t>(List::kFenced)]);
      ASSERT_EQ(counts.held(), lists[static_cast<size_t>(List::kHeld)]);
      ASSERT_EQ(counts.reserved, reserved);
      ASSERT_EQ(counts.pinned, pinned);
      ASSERT_EQ(counts.available(), counts.free + counts.lru);
      ASSERT_EQ(free(p).size(), counts.free);
      ASSERT_EQ(lru(p).size(), counts.lru);
      ASSERT_EQ(fenced(p).size(), counts.fenced);
    }
  }

  CountingHeap heap_;
  Memory memory_{heap_.env()};
  BlockPool pool_;
};

using Ids = std::vector<int32_t>;

TEST_F(BlockPoolTest, ANewPoolHandsOutItsLowestIdFirst) {
  create({4});
  EXPECT_EQ(pool_.num_ids(), 4u);
  for (int32_t id = 0; id < 4; ++id) {
    EXPECT_EQ(pop(), id);
    expect_counts_right();
  }
  EXPECT_EQ(pool_.counts(0).free, 0u);
  EXPECT_FALSE(is_block(pool_.free_top(0)));
}

TEST_F(BlockPoolTest, RecordsInMemoryThatIsTouchedAreWrittenAtCreation) {
  memory_.touch_first(2000 * sizeof(Block));
  const uint64_t sizes[] = {900, 1300, 700}, rooms[] = {1200, 1300, 700};
  ASSERT_TRUE(pool_.create(memory_, sizes, 3, true, kLruPolicy, 0, {}, rooms));
  EXPECT_EQ(pool_.first_unopened(0), 900u) << "all, but not its room";
  EXPECT_EQ(pool_.first_unopened(1), 2000u) << "what is touched";
  EXPECT_EQ(pool_.first_unopened(2), 2500u + 512) << "as without";
  expect_counts_right();
  pool_.resize(1, 700);
  pool_.sort_free(1);
  pool_.resize(1, 1300);
  for (int32_t id = 1200; id < 2500; ++id) ASSERT_EQ(pop(1), id);
  expect_counts_right();
}

TEST_F(BlockPoolTest, RecordsAreWrittenWhenTheirBlocksAreNeeded) {
  create({1300, 700, 1}, true);
  EXPECT_LT(pool_.first_unopened(0), 1300u);
  EXPECT_LT(pool_.first_unopened(1), 2000u);
  EXPECT_EQ(pool_.first_unopened(2), 2001u);
  const Block last = pool_.read(BlockId{1999});
  EXPECT_EQ(last.list, List::kFree);
  EXPECT_EQ(last.pool, 1);
  EXPECT_EQ(last.group, UINT8_MAX);
  EXPECT_FALSE(is_node(last.node));
  EXPECT_EQ(last.next_copy, BlockId{1999});
  expect_counts_right();
  // In the order of ids, whatever is taken at once; what came back goes first.
  int32_t next = 1;
  std::vector<BlockId> taken(1300);
  for (const size_t count : {1, 510, 1, 200, 500}) {
    ASSERT_EQ(pool_.pop_free(0, 3, count, taken.data()), count);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(raw(taken[i]), next++);
      ASSERT_TRUE(block(raw(taken[i])).held());
      ASSERT_EQ(block(raw(taken[i])).group, 3);
    }
    expect_counts_right();
  }
  drop(7);
  pool_.mark_written(block(7));
  pool_.push_free(BlockId{7});
  EXPECT_EQ(pool_.pop_free(0, 3, 1300, taken.data()), 88u);
  EXPECT_EQ(raw(taken[0]), 7);
  EXPECT_EQ(raw(taken[1]), next);
  EXPECT_EQ(raw(taken[87]), 1299);
  EXPECT_EQ(pool_.counts(0).free, 0u);
  EXPECT_EQ(pool_.pop_free(0, 3, 5, taken.data()), 0u);
}

TEST_F(BlockPoolTest, SortedFreeGoesOnWithBlocksThatWereNeverUsed) {
  create({2000});
  std::vector<BlockId> taken(600);
  ASSERT_EQ(pool_.pop_free(0, 0, taken.size(), taken.data()), taken.size());
  for (const BlockId id : taken) {
    drop(raw(id));
    pool_.push_free(id);
  }
  EXPECT_EQ(free()[0], 599);
  pool_.sort_free(0);
  for (int32_t id = 0; id < 2000; ++id) ASSERT_EQ(free()[static_cast<size_t>(id)], id);
}

TEST_F(BlockPoolTest, FreeIsLastInFirstOut) {
  create({4});
  for (int i = 0; i < 4; ++i) pop();
  for (const int32_t id : {2, 0, 3}) {
    drop(id);
    pool_.push_free(BlockId{id});
  }
  EXPECT_EQ(free(), (Ids{3, 0, 2}));
  EXPECT_EQ(pop(), 3);
  EXPECT_EQ(pop(), 0);
  expect_counts_right();
}

TEST_F(BlockPoolTest, TheNullBlockBelongsToNobody) {
  create({3, 2}, true);
  EXPECT_FALSE(pool_.exists(0));
  EXPECT_TRUE(pool_.exists(1));
  EXPECT_TRUE(pool_.exists(4));
  EXPECT_FALSE(pool_.exists(5));
  EXPECT_FALSE(pool_.exists(-1));
  EXPECT_EQ(pool_.counts(0).first, 1u);
  EXPECT_EQ(pool_.counts(0).size, 2u);
  EXPECT_EQ(free(0), (Ids{1, 2}));
  EXPECT_EQ(free(1), (Ids{3, 4}));
  EXPECT_FALSE(is_node(block(0).node));
  expect_counts_right();
}

TEST_F(BlockPoolTest, PoolsFollowEachOtherAndAreSeparate) {
  create({2, 3, 1});
  EXPECT_EQ(pool_.num_pools(), 3u);
  EXPECT_EQ(pop(1), 2);
  EXPECT_EQ(pop(2), 5);
  EXPECT_EQ(pop(0), 0);
  EXPECT_EQ(pool_.counts(0).free, 1u);
  EXPECT_EQ(pool_.counts(1).free, 2u);
  EXPECT_EQ(pool_.counts(2).free, 0u);
  drop(5);
  pool_.push_lru(BlockId{5});
  drop(2);
  pool_.push_lru(BlockId{2});
  EXPECT_EQ(lru(2), (Ids{5}));
  EXPECT_EQ(lru(1), (Ids{2}));
  EXPECT_TRUE(lru(0).empty());
  expect_counts_right();
}

TEST_F(BlockPoolTest, LruIsOldestFirstAndGivesUpAnyMember) {
  create({5});
  for (int i = 0; i < 5; ++i) pop();
  for (const int32_t id : {3, 1, 4, 0}) {
    pool_.mark_written(block(id));
    drop(id);
    pool_.push_lru(BlockId{id});
  }
  EXPECT_EQ(lru(), (Ids{3, 1, 4, 0}));
  pool_.remove(BlockId{4});
  pool_.add_ref(block(4));
  EXPECT_EQ(lru(), (Ids{3, 1, 0}));
  {
    BlockPool::LruTaker taker(pool_, 0, 7);
    EXPECT_EQ(taker.head(), BlockId{3});
    taker.take();
    EXPECT_EQ(taker.head(), BlockId{1});
  }
  EXPECT_EQ(lru(), (Ids{1, 0}));
  EXPECT_EQ(block(3).group, 7);
  EXPECT_EQ(block(3).refs, 1u);
  EXPECT_EQ(block(3).content, Content::kEmpty) << "its new content is not written";
  expect_counts_right();
  drop(4);
  pool_.push_lru(BlockId{4});
  EXPECT_EQ(lru(), (Ids{1, 0, 4})) << "used again: the newest";
  pool_.remove(BlockId{1});
  pool_.remove(BlockId{4});
  pool_.remove(BlockId{0});
  EXPECT_TRUE(pool_.at_end(pool_.lru_head(0)));
}

TEST_F(BlockPoolTest, FencedKeepsOrderAndStep) {
  create({3});
  for (int i = 0; i < 3; ++i) pop();
  for (const int32_t id : {2, 0, 1}) {
    drop(id);
    pool_.push_fenced(BlockId{id}, static_cast<uint64_t>(10 + (id != 2)));
  }
  EXPECT_EQ(fenced(), (Ids{2, 0, 1}));
  EXPECT_FALSE(pool_.fence_passed(block(2), 9));
  EXPECT_TRUE(pool_.fence_passed(block(2), 10));
  EXPECT_FALSE(pool_.fence_passed(block(0), 10));
  EXPECT_TRUE(pool_.fence_passed(block(0), 11));
  EXPECT_EQ(pool_.counts(0).available(), 0u) << "fenced blocks are not available";
  expect_counts_right();
}

TEST_F(BlockPoolTest, FencesHoldAcrossTwoToThe32Steps) {
  create({1});
  pop();
  constexpr uint64_t kTurn = uint64_t{1} << 32;
  for (const uint64_t step : {kTurn - 1, kTurn, kTurn + 1, 5 * kTurn, 5 * kTurn - 1, kTurn / 2}) {
    block(0).fence = static_cast<uint32_t>(step);
    for (const uint64_t behind : {1, 2, 1000})
      EXPECT_FALSE(pool_.fence_passed(block(0), step - behind)) << step;
    for (const uint64_t ahead : {0, 1, 1000}) EXPECT_TRUE(pool_.fence_passed(block(0), step + ahead)) << step;
  }
}

TEST_F(BlockPoolTest, ReservedEndsWhenWritten) {
  create({2});
  const int32_t id = pop();
  EXPECT_EQ(pool_.counts(0).reserved, 1u);
  pool_.mark_written(block(id));
  EXPECT_EQ(pool_.counts(0).reserved, 0u);
  pool_.mark_written(block(id));
  EXPECT_EQ(pool_.counts(0).reserved, 0u) << "marked once";
  drop(id);
  pool_.push_free(BlockId{id});
  EXPECT_EQ(block(id).content, Content::kEmpty);
  drop(pop());
  EXPECT_EQ(pool_.counts(0).reserved, 0u) << "released without being written";
}

TEST_F(BlockPoolTest, PinnedMeansHeldByPinsAlone) {
  create({1});
  const int32_t id = pop();
  Block& b = block(id);
  pool_.mark_written(b);
  const auto pinned = [&] { return pool_.counts(0).pinned; };
  pool_.add_pin(b);
  EXPECT_EQ(pinned(), 0u);
  EXPECT_FALSE(pool_.drop_ref(b));
  EXPECT_EQ(pinned(), 1u);
  pool_.add_external(b);
  EXPECT_EQ(pinned(), 0u);
  pool_.add_ref(b);
  EXPECT_FALSE(pool_.drop_external(b));
  EXPECT_EQ(pinned(), 0u);
  EXPECT_FALSE(pool_.drop_ref(b));
  EXPECT_EQ(pinned(), 1u);
  pool_.add_pin(b);
  EXPECT_EQ(pinned(), 1u);
  EXPECT_FALSE(pool_.drop_pin(b));
  EXPECT_TRUE(pool_.drop_pin(b));
  EXPECT_EQ(pinned(), 0u);
  pool_.push_lru(BlockId{id});
  pool_.remove(BlockId{id});
  pool_.add_pin(b);  // a hit of a pin on an idle block
  EXPECT_EQ(pinned(), 1u);
  expect_counts_right();
}

// Every transition that the manager can make, at random, with a recount after each.
TEST_F(BlockPoolTest, CountsAreRightAfterEveryTransitionOfRandomHistories) {
  create({6, 5}, true);
  std::mt19937 random(3);
  uint64_t step = (uint64_t{1} << 32) - 50;
  uint64_t transitions[10] = {};
  for (int round = 0; round < 6000; ++round) {
    const auto id = static_cast<int32_t>(1 + random() % 10);
    Block& b = block(id);
    const uint32_t holds = b.refs + b.external + b.pins;
    const auto kind = static_cast<unsigned>(random() % 10);
    bool last = false, dropped = false;
    if (b.list == List::kFree) {
      if (raw(pool_.free_top(b.pool)) != id) continue;
      BlockId taken = kNoBlock;
      EXPECT_EQ(pool_.pop_free(b.pool, static_cast<uint8_t>(kind), 1, &taken), 1u);
    } else if (b.list == List::kFenced && kind < 5) {  // its fence falls
      pool_.remove(BlockId{id});
      b.content != Content::kEmpty&& kind < 3 ? pool_.push_lru(BlockId{id}) : pool_.push_free(BlockId{id});
    } else if (b.list == List::kLru && kind < 2) {
      BlockPool::LruTaker(pool_, b.pool, 1).take();  // the oldest, whichever it is
    } else if (b.list != List::kHeld) {              // a hit
      if (b.content == Content::kEmpty) continue;
      pool_.remove(BlockId{id});
      if (kind % 3 == 0) pool_.add_ref(b);
      if (kind % 3 == 1) pool_.add_external(b);
      if (kind % 3 == 2) pool_.add_pin(b);
    } else if (kind == 0) {
      pool_.mark_written(b);
    } else if (kind == 1) {
      pool_.add_ref(b);
    } else if (kind == 2 && b.content != Content::kEmpty) {
      pool_.add_external(b);
    } else if (kind == 3 && b.content != Content::kEmpty) {
      pool_.add_pin(b);
    } else if (kind < 6 && b.refs != 0) {
      last = pool_.drop_ref(b);
      dropped = true;
    } else if (kind < 8 && b.external != 0) {
      last = pool_.drop_external(b);
      dropped = true;
    } else if (b.pins != 0) {
      last = pool_.drop_pin(b);
      dropped = true;
    } else {
      continue;
    }
    ++transitions[kind];
    if (dropped) {
      ASSERT_EQ(last, holds == 1);
    }
    if (last) {
      if (kind % 2 == 0) {
        pool_.push_fenced(BlockId{id}, ++step);
      } else {
        b.content != Content::kEmpty ? pool_.push_lru(BlockId{id}) : pool_.push_free(BlockId{id});
      }
    }
    expect_counts_right();
    if (HasFatalFailure()) return;
  }
  for (const uint64_t count : transitions) EXPECT_GT(count, 50u);
}

TEST_F(BlockPoolTest, CreationSaysWhenThereIsNoMemory) {
  heap_.fail_always(true);
  const uint64_t size = 4;
  EXPECT_FALSE(pool_.create(memory_, &size, 1, false));
}

}  // namespace
}  // namespace kvc
