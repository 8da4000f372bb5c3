// SPDX-License-Identifier: Apache-2.0
// Namespaces: slots and generations are used again only when nothing of them is left, counts are zeroed
// lazily after a reset of all, and a failure changes nothing.
#include <set>
#include <vector>

#include "prefix/space_table_world.h"

namespace kvc {
namespace {

TEST_F(SpaceTableTest, AClosedSlotIsUsedAgainUnderANewId) {
  const uint32_t slot = open({"m", {}, {}});
  const uint64_t id = table_.id(slot);
  close(slot);
  const uint32_t again = open({"other", {}, {}});
  EXPECT_EQ(again, slot);
  EXPECT_NE(table_.id(again), id);
  EXPECT_FALSE(table_.is_open(id)) << "stale";
  EXPECT_TRUE(table_.is_open(table_.id(again)));
}

TEST_F(SpaceTableTest, ASlotWithNodesIsNotUsedAgain) {
  const uint32_t slot = open({"m", {}, {}});
  table_[slot].num_nodes = 1;
  close(slot);
  EXPECT_NE(open({"a", {}, {}}), slot);
  EXPECT_NE(open({"m", {}, {}}), slot) << "not even for its own identity: the nodes left are stale";
  table_[slot].num_nodes = 0;
  table_.free_if_unused(slot);
  EXPECT_EQ(open({"b", {}, {}}), slot);
}

TEST_F(SpaceTableTest, TheDefaultNamespaceIsNeverGivenAway) {
  table_.free_if_unused(0);
  for (size_t i = 0; i < 40; ++i) EXPECT_NE(open_number(i), 0u);
}

TEST_F(SpaceTableTest, ForeignAndForgedIdsAreNotOpen) {
  const uint64_t id = table_.id(open({"m", {}, {}}));
  for (int bit = 0; bit < 64; ++bit) EXPECT_FALSE(table_.is_open(id ^ uint64_t{1} << bit)) << bit;
  EXPECT_FALSE(table_.is_open(make_handle(5, HandleKind::kSpace, 0, 0)))
      << "the default one is known as 0 alone";
  EXPECT_FALSE(table_.is_open(UINT64_MAX));
}

TEST_F(SpaceTableTest, GrowsPastItsFirstSlotsAndKeepsCounts) {
  std::vector<uint32_t> slots;
  for (size_t i = 0; i < 200; ++i) {
    slots.push_back(open_number(i));
    table_.cached(slots.back(), 0) = i;
    table_.cached(slots.back(), 1) = 1000 + i;
  }
  EXPECT_EQ(table_.size(), 201u);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(table_.cached(slots[i], 0), i);
    EXPECT_EQ(table_.cached(slots[i], 1), 1000 + i);
    EXPECT_EQ(open_number(i), slots[i]);
  }
}

TEST_F(SpaceTableTest, AllSlotsCanBeUsedAndOneMoreIsRefused) {
  for (size_t i = 1; i < SpaceTable::kMaxSpaces; ++i) open_number(i);
  uint32_t slot = 123;
  EXPECT_EQ(open_in(table_, {"one more", {}, {}}, &slot), KVC_ERROR_LIMIT);
  EXPECT_EQ(slot, 123u);
  EXPECT_EQ(open_number(4711), 4711u) << "what is open can be opened again";
  close(4711);
  close(4711);
  EXPECT_EQ(open({"one more", {}, {}}), 4711u);
}

TEST_F(SpaceTableTest, ResettingOneZeroesItsCountsAlone) {
  const uint32_t a = open_number(1), b = open_number(2);
  for (const uint32_t slot : {0u, a, b}) table_.cached(slot, 1) = 10;
  table_.reset_one(a);
  EXPECT_EQ(table_.cached(a, 1), 0u);
  EXPECT_EQ(table_.cached(b, 1), 10u);
  EXPECT_EQ(table_.cached(0, 1), 10u);
  EXPECT_EQ(table_.epoch(a), 1u);
  EXPECT_EQ(table_.epoch(b), 0u);
}

TEST_F(SpaceTableTest, ResettingAllZeroesCountsWhenTheyAreNextRead) {
  const uint32_t a = open_number(1), b = open_number(2);
  for (const uint32_t slot : {0u, a, b}) table_.cached(slot, 0) = table_.cached(slot, 1) = 10;
  table_.reset_one(a);
  table_.reset_all();
  table_.reset_all();
  EXPECT_EQ(table_.epoch(0), 2u);
  EXPECT_EQ(table_.epoch(a), 3u);
  EXPECT_EQ(table_.global_resets(), 2u);
  ++table_.cached(b, 1);
  EXPECT_EQ(table_.cached(b, 0), 0u);
  EXPECT_EQ(table_.cached(b, 1), 1u);
  table_.reset_all();
  EXPECT_EQ(table_.cached(b, 1), 0u);
  EXPECT_EQ(table_.cached(0, 0), 0u);
}

TEST_F(SpaceTableTest, EveryFailingAllocationLeavesItUnchanged) {
  for (size_t i = 0; i < 15; ++i) open_number(i);  // the next one grows the table
  const std::string large(60000, 'x');             // and needs a chunk of the arena
  std::set<uint64_t> ids;
  for (uint32_t slot = 0; slot < table_.size(); ++slot) ids.insert(table_.id(slot));
  uint64_t failures = 0;
  uint32_t slot = UINT32_MAX;
  kvc_status status;
  do {
    heap_.fail_after(0);
    status = open_in(table_, {large + std::string(failures * 10, 'y'), {}, {}}, &slot);
    if (status != KVC_OK) {
      ASSERT_EQ(status, KVC_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(slot, UINT32_MAX);
      EXPECT_EQ(table_.size(), 16u);
      for (size_t i = 0; i < 15; ++i) EXPECT_EQ(open_number(i), i + 1);
      heap_.fail_after(failures);  // let the next attempt come one allocation further
      ++failures;
      status = open_in(table_, {large, {}, {}}, &slot);
      ASSERT_TRUE(status == KVC_OK || status == KVC_ERROR_OUT_OF_MEMORY);
    }
  } while (status != KVC_OK);
  heap_.fail_after(CountingHeap::kNever);
  EXPECT_GE(failures, 2u);
  EXPECT_EQ(slot, 16u);
  EXPECT_EQ(table_.size(), 17u);
  for (uint32_t s = 0; s < 16; ++s) EXPECT_EQ(ids.count(table_.id(s)), 1u);
}

TEST_F(SpaceTableTest, OpensAreCountedUpToTheirLimit) {
  const uint32_t slot = open({"m", {}, {}});
  table_[slot].opens = UINT32_MAX;
  uint32_t out = 9;
  EXPECT_EQ(open_in(table_, {"m", {}, {}}, &out), KVC_ERROR_LIMIT);
  EXPECT_EQ(out, 9u);
  EXPECT_EQ(table_[slot].opens, UINT32_MAX);
  table_[slot].opens = 1;
}

TEST_F(SpaceTableTest, ASlotIsRetiredAfterItsLastGeneration) {
  const uint32_t slot = open({"m", {}, {}});
  const uint64_t first = table_.id(slot);
  close(slot);
  table_[slot].generation = UINT32_MAX - 1;
  ASSERT_EQ(open({"m", {}, {}}), slot);
  EXPECT_EQ(table_[slot].generation, UINT32_MAX);
  close(slot);
  std::set<uint64_t> ids;
  for (int i = 0; i < 3; ++i) {
    const uint32_t next = open({"m", {}, {}});
    EXPECT_NE(next, slot) << "its ids would begin anew";
    EXPECT_NE(table_.id(next), first);
    close(next);
  }
}

}  // namespace
}  // namespace kvc
