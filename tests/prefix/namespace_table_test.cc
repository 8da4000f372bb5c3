// SPDX-License-Identifier: Apache-2.0
// Namespaces: indices and generations are used again only when nothing of them is left, counts are zeroed
// lazily after a reset of all, and a failure changes nothing.
#include <kvcache/events.h>

#include <set>
#include <vector>

#include "prefix/namespace_table_world.h"

namespace kvc {
namespace {

TEST_F(NamespaceTableTest, AClosedSlotIsUsedAgainUnderANewId) {
  const uint32_t index = open({"m", {}, {}});
  const uint64_t id = table_.id(index);
  close(index);
  const uint32_t again = open({"other", {}, {}});
  EXPECT_EQ(again, index);
  EXPECT_NE(table_.id(again), id);
  EXPECT_FALSE(table_.is_open(id)) << "stale";
  EXPECT_TRUE(table_.is_open(table_.id(again)));
  NamespaceId found{};
  EXPECT_EQ(table_.find(id, &found), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(table_.find(table_.id(again), &found), KVC_OK);
  EXPECT_EQ(found, again);
  EXPECT_EQ(table_.find(0, &found), KVC_OK) << "the default one";
  EXPECT_EQ(found, 0u);
}

TEST_F(NamespaceTableTest, ASlotWithNodesIsNotUsedAgain) {
  const uint32_t index = open({"m", {}, {}});
  table_[index].num_nodes = 1;
  close(index);
  EXPECT_NE(open({"a", {}, {}}), index);
  EXPECT_NE(open({"m", {}, {}}), index) << "not even for its own identity: the nodes left are stale";
  table_[index].num_nodes = 0;
  table_.free_if_unused(index);
  EXPECT_EQ(open({"b", {}, {}}), index);
}

// Events are told with the id and the digest of their namespace.
TEST_F(NamespaceTableTest, ASlotIsUsedAgainWhenTheEventsBeforeItsEndHaveLeftTheRing) {
  ASSERT_TRUE(ring_.create(memory_, heap_.env(), 2));
  const auto tell = [&] { ring_.add(KVC_EVENT_ALL_CLEARED, 0, kNoNode, 0, kNoBlock); };
  const uint32_t first = open({"a", {}, {}});
  const uint64_t id = table_.id(first);
  const Digest256 digest = table_[first].digest;
  tell();
  close(first);
  tell();
  const uint32_t second = open({"b", {}, {}});
  EXPECT_NE(second, first);
  EXPECT_EQ(table_.id(first), id);
  EXPECT_EQ(table_[first].digest, digest);
  tell();  // the event before the end is gone
  EXPECT_EQ(open({"c", {}, {}}), first);
  EXPECT_NE(table_.id(first), id);
}

TEST_F(NamespaceTableTest, EventsNeverKeepNamespacesFromBeingOpened) {
  constexpr uint32_t kEvents = 1 << 20;
  ASSERT_TRUE(ring_.create(memory_, heap_.env(), kEvents));
  for (size_t i = 0; i < 2 * NamespaceTable::kMaxNamespaces; ++i) {
    const uint32_t index = open_number(i);
    ASSERT_LT(index, NamespaceTable::kMaxNamespaces) << i;
    ring_.add(KVC_EVENT_NAMESPACE_CLEARED, 0, root_of(index), 0, kNoBlock);
    close(index);
  }
  EXPECT_LE(ring_.next_sequence() - ring_.oldest(), NamespaceTable::kMaxNamespaces);
  heap_.fail_after(0);
  EXPECT_LT(open_number(0), NamespaceTable::kMaxNamespaces);
}

TEST_F(NamespaceTableTest, TheDefaultNamespaceIsNeverGivenAway) {
  table_.free_if_unused(0);
  for (size_t i = 0; i < 40; ++i) EXPECT_NE(open_number(i), 0u);
}

TEST_F(NamespaceTableTest, ForeignAndForgedIdsAreNotOpen) {
  const uint64_t id = table_.id(open({"m", {}, {}}));
  for (int bit = 0; bit < 64; ++bit) EXPECT_FALSE(table_.is_open(id ^ uint64_t{1} << bit)) << bit;
  EXPECT_FALSE(table_.is_open(make_handle(5, HandleKind::kNamespace, 0, 0)))
      << "the default one is known as 0 alone";
  EXPECT_FALSE(table_.is_open(UINT64_MAX));
}

TEST_F(NamespaceTableTest, GrowsPastItsFirstSlotsAndKeepsCounts) {
  std::vector<uint32_t> indices;
  for (size_t i = 0; i < 200; ++i) {
    indices.push_back(open_number(i));
    table_.cached(indices.back(), 0) = i;
    table_.cached(indices.back(), 1) = 1000 + i;
  }
  EXPECT_EQ(table_.size(), 201u);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(table_.cached(indices[i], 0), i);
    EXPECT_EQ(table_.cached(indices[i], 1), 1000 + i);
    EXPECT_EQ(open_number(i), indices[i]);
  }
}

TEST_F(NamespaceTableTest, AllSlotsCanBeUsedAndOneMoreIsRefused) {
  for (size_t i = 1; i < NamespaceTable::kMaxNamespaces; ++i) open_number(i);
  NamespaceId index{123};
  EXPECT_EQ(open_in(table_, {"one more", {}, {}}, &index), KVC_ERROR_LIMIT);
  EXPECT_EQ(index, 123u);
  EXPECT_EQ(open_number(4711), 4711u) << "what is open can be opened again";
  close(4711);
  close(4711);
  EXPECT_EQ(open({"one more", {}, {}}), 4711u);
}

TEST_F(NamespaceTableTest, ResettingOneZeroesItsCountsAlone) {
  const uint32_t a = open_number(1), b = open_number(2);
  for (const uint32_t index : {0u, a, b}) table_.cached(index, 1) = 10;
  table_.reset_one(a);
  EXPECT_EQ(table_.cached(a, 1), 0u);
  EXPECT_EQ(table_.cached(b, 1), 10u);
  EXPECT_EQ(table_.cached(0, 1), 10u);
  EXPECT_EQ(table_.epoch(a), 1u);
  EXPECT_EQ(table_.epoch(b), 0u);
}

TEST_F(NamespaceTableTest, ResettingAllZeroesCountsWhenTheyAreNextRead) {
  const uint32_t a = open_number(1), b = open_number(2);
  for (const uint32_t index : {0u, a, b}) table_.cached(index, 0) = table_.cached(index, 1) = 10;
  table_.reset_one(a);
  table_.reset_all();
  table_.reset_all();
  EXPECT_EQ(table_.epoch(0), 2u);
  EXPECT_EQ(table_.epoch(a), 3u);
  EXPECT_EQ(table_.epoch(b), 2u);
  ++table_.cached(b, 1);
  EXPECT_EQ(table_.cached(b, 0), 0u);
  EXPECT_EQ(table_.cached(b, 1), 1u);
  table_.reset_all();
  EXPECT_EQ(table_.cached(b, 1), 0u);
  EXPECT_EQ(table_.cached(0, 0), 0u);
}

TEST_F(NamespaceTableTest, EveryFailingAllocationLeavesItUnchanged) {
  for (size_t i = 0; i < 15; ++i) open_number(i);  // the next one grows the table
  const std::string large(60000, 'x');             // and needs a chunk of the arena
  std::set<uint64_t> ids;
  for (uint32_t index = 0; index < table_.size(); ++index) ids.insert(table_.id(index));
  uint64_t failures = 0;
  NamespaceId index{UINT32_MAX};
  kvc_status status;
  do {
    heap_.fail_after(0);
    status = open_in(table_, {large + std::string(failures * 10, 'y'), {}, {}}, &index);
    if (status != KVC_OK) {
      ASSERT_EQ(status, KVC_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(index, UINT32_MAX);
      EXPECT_EQ(table_.size(), 16u);
      for (size_t i = 0; i < 15; ++i) EXPECT_EQ(open_number(i), i + 1);
      heap_.fail_after(failures);  // let the next attempt come one allocation further
      ++failures;
      status = open_in(table_, {large, {}, {}}, &index);
      ASSERT_TRUE(status == KVC_OK || status == KVC_ERROR_OUT_OF_MEMORY);
    }
  } while (status != KVC_OK);
  heap_.fail_after(CountingHeap::kNever);
  EXPECT_GE(failures, 2u);
  EXPECT_EQ(index, 16u);
  EXPECT_EQ(table_.size(), 17u);
  for (uint32_t s = 0; s < 16; ++s) EXPECT_EQ(ids.count(table_.id(s)), 1u);
}

TEST_F(NamespaceTableTest, OpensAreCountedUpToTheirLimit) {
  const uint32_t index = open({"m", {}, {}});
  table_[index].opens = UINT32_MAX;
  NamespaceId out{9};
  EXPECT_EQ(open_in(table_, {"m", {}, {}}, &out), KVC_ERROR_LIMIT);
  EXPECT_EQ(out, 9u);
  EXPECT_EQ(table_[index].opens, UINT32_MAX);
  table_[index].opens = 1;
}

TEST_F(NamespaceTableTest, ASlotIsRetiredAfterItsLastGeneration) {
  const uint32_t index = open({"m", {}, {}});
  const uint64_t first = table_.id(index);
  close(index);
  table_[index].generation = UINT32_MAX - 1;
  ASSERT_EQ(open({"m", {}, {}}), index);
  EXPECT_EQ(table_[index].generation, UINT32_MAX);
  close(index);
  std::set<uint64_t> ids;
  for (int i = 0; i < 3; ++i) {
    const uint32_t next = open({"m", {}, {}});
    EXPECT_NE(next, index) << "its ids would begin anew";
    EXPECT_NE(table_.id(next), first);
    close(next);
  }
}

}  // namespace
}  // namespace kvc
