// SPDX-License-Identifier: Apache-2.0
// Namespaces: identities are framed so that no two configurations meet, equal ones share a slot, slots and
// generations are used again only when nothing of them is left, counts are zeroed lazily after a reset of
// all, and a failure changes nothing.
#include "prefix/space_table.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/counting_heap.h"

namespace kvc {
namespace {

using Part = std::optional<std::string>;
struct Identity {
  Part model, adapter, tenant;
};

const std::string kNul1(1, '\0'), kNul2(2, '\0');

class SpaceTableTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(table_.create(memory_, arena_, 2, 5)); }

  static kvc_status open_in(SpaceTable& table, const Identity& identity, uint32_t* slot) {
    kvc_namespace_config config = {};
    config.struct_size = sizeof config;
    const auto set = [](const Part& part, const void*& data, size_t& size) {
      if (!part.has_value()) return;
      data = part->data();
      size = part->size();
    };
    set(identity.model, config.model, config.model_size);
    set(identity.adapter, config.adapter, config.adapter_size);
    set(identity.tenant, config.tenant, config.tenant_size);
    return table.open(config, slot);
  }
  uint32_t open(const Identity& identity) {
    uint32_t slot = UINT32_MAX;
    EXPECT_EQ(open_in(table_, identity, &slot), KVC_OK);
    return slot;
  }
  uint32_t open_number(size_t i) { return open({"model " + std::to_string(i), {}, {}}); }
  void close(uint32_t slot) {
    if (--table_[slot].opens == 0) {
      ++table_[slot].opens;
      table_.close(slot);
    }
  }

  CountingHeap heap_;
  Memory memory_{heap_.env()};
  Arena arena_{memory_};
  SpaceTable table_;
};

TEST_F(SpaceTableTest, AllPartsAbsentIsTheDefault) {
  EXPECT_EQ(open({}), 0u);
  EXPECT_EQ(table_.id(0), 0u);
  EXPECT_TRUE(table_.is_open(0));
  EXPECT_EQ(table_[0].opens, 1u) << "needs no closing";
}

TEST_F(SpaceTableTest, DifferentIdentitiesNeverMeet) {
  const Identity identities[] = {{},
                                 {"", {}, {}},
                                 {{}, "", {}},
                                 {{}, {}, ""},
                                 {"", "", {}},
                                 {"", {}, ""},
                                 {{}, "", ""},
                                 {"", "", ""},
                                 {"a", {}, {}},
                                 {{}, "a", {}},
                                 {{}, {}, "a"},
                                 {"ab", {}, {}},
                                 {"a", "b", {}},
                                 {{}, "ab", {}},
                                 {"ab", "c", {}},
                                 {"a", "bc", {}},
                                 {"a", "b", "c"},
                                 {"abc", {}, {}},
                                 {"abc", "", ""},
                                 {"a", "", "bc"},
                                 {kNul1, {}, {}},
                                 {kNul2, {}, {}},
                                 {"a" + kNul1, {}, {}},
                                 {"", kNul1, {}},
                                 {kNul1 + "a", {}, {}},
                                 {std::string(9, '\0'), {}, {}},
                                 {std::string(18, '\0'), {}, {}}};
  std::set<uint32_t> slots;
  std::set<std::string> digests;
  for (const Identity& identity : identities) {
    const uint32_t slot = open(identity);
    slots.insert(slot);
    digests.insert(std::string(reinterpret_cast<const char*>(table_[slot].digest.bytes), 32));
  }
  EXPECT_EQ(slots.size(), std::size(identities));
  EXPECT_EQ(digests.size(), std::size(identities));
  for (const Identity& identity : identities) EXPECT_TRUE(slots.count(open(identity)) == 1) << "opened again";
}

TEST_F(SpaceTableTest, EqualIdentitiesShareASlotUntilTheLastClose) {
  const uint32_t slot = open({"m", "a", "t"});
  const uint64_t id = table_.id(slot);
  EXPECT_EQ(open({"m", "a", "t"}), slot);
  EXPECT_EQ(table_[slot].opens, 2u);
  EXPECT_TRUE(table_.is_open(id));
  close(slot);
  EXPECT_TRUE(table_.is_open(id));
  close(slot);
  EXPECT_FALSE(table_.is_open(id));
}

TEST_F(SpaceTableTest, TheDigestDependsOnTheIdentityAlone) {
  SpaceTable other;
  ASSERT_TRUE(other.create(memory_, arena_, 1, 77));
  uint32_t there;
  ASSERT_EQ(open_in(other, {"x", {}, {}}, &there), KVC_OK);
  ASSERT_EQ(open_in(other, {"m", {}, "t"}, &there), KVC_OK);
  const uint32_t here = open({"m", {}, "t"});
  EXPECT_NE(here, there);
  EXPECT_EQ(table_[here].digest, other[there].digest);
  EXPECT_EQ(table_[0].digest, other[0].digest);

  Sha256 sha;  // label with its zero; per part: present, length in 8 bytes, bytes
  const std::string framed = std::string("kvcache namespace 1") + kNul1 + "\x01\x01" + std::string(7, '\0') +
                             "m" + std::string(9, '\0') + "\x01\x01" + std::string(7, '\0') + "t";
  sha.update(framed.data(), framed.size());
  EXPECT_EQ(table_[here].digest, sha.finish());
}

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
