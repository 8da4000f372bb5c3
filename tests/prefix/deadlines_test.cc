// SPDX-License-Identifier: Apache-2.0
// The radix heap of deadlines against a sorted list: equal ends in equal order, whatever the steps of time.
#include "prefix/deadlines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/counting_heap.h"
#include "property/random.h"

namespace kvc {
namespace {

struct Sorted {
  struct Entry {
    uint64_t deadline, order;
    NodeId node;
  };
  std::vector<Entry> entries;
  uint64_t order = 0;

  void clear(NodeId node) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.node == node; });
  }
  void set(NodeId node, uint64_t deadline) { entries.push_back({deadline, ++order, node}); }
  NodeId next(uint64_t until) {
    const auto first = std::min_element(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.deadline != b.deadline ? a.deadline < b.deadline : a.order < b.order;
    });
    if (first == entries.end() || first->deadline > until) return kNoNode;
    const NodeId node = first->node;
    entries.erase(first);
    return node;
  }
};

class DeadlinesTest : public ::testing::Test {
 protected:
  static constexpr int32_t kNodes = 64;
  void SetUp() override { ASSERT_TRUE(deadlines_.create(memory_, kNodes)); }

  CountingHeap heap_;
  Memory memory_{heap_.env()};
  Deadlines deadlines_;
};

TEST_F(DeadlinesTest, EndInTheOrderOfASortedList) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    Deadlines heap;
    ASSERT_TRUE(heap.create(memory_, kNodes));
    Sorted model;
    uint64_t now = 0;
    const uint64_t reach = uint64_t{1} << random.between(2, 40);
    for (int i = 0; i < 2000; ++i) {
      const NodeId node{static_cast<int32_t>(random.below(kNodes))};
      if (random.chance(60)) {
        uint64_t deadline = now + 1 + random.below(random.chance(50) ? 4 : reach);
        if (random.chance(2)) deadline = UINT64_MAX - random.below(3);
        heap.clear(node), model.clear(node);
        heap.set(node, deadline), model.set(node, deadline);
        ASSERT_EQ(heap.of(node), deadline);
      } else if (random.chance(30)) {
        heap.clear(node), model.clear(node);
        ASSERT_EQ(heap.of(node), 0u);
      } else {
        const uint64_t until = now + random.below(random.chance(50) ? 4 : reach);
        for (NodeId ended = model.next(until);; ended = model.next(until)) {
          ASSERT_EQ(heap.next(until), ended) << "seed " << seed << ", call " << i;
          if (!is_node(ended)) break;
          ASSERT_EQ(heap.of(ended), 0u);
        }
        now = until;
        ASSERT_EQ(heap.now(), now);
      }
      ASSERT_TRUE(heap.intact()) << "seed " << seed << ", call " << i;
    }
  }
}

TEST_F(DeadlinesTest, EqualOnesEndInTheOrderInWhichTheyWereSet) {
  for (const int32_t node : {5, 3, 9}) deadlines_.set(NodeId{node}, 100);
  EXPECT_EQ(deadlines_.next(60), kNoNode);  // the bucket moves
  deadlines_.set(NodeId{1}, 100);
  deadlines_.clear(NodeId{5}), deadlines_.set(NodeId{5}, 100);
  for (const int32_t node : {3, 9, 1, 5}) EXPECT_EQ(deadlines_.next(1000), NodeId{node});
  EXPECT_EQ(deadlines_.next(1000), kNoNode);
  EXPECT_EQ(deadlines_.now(), 1000u);
}

TEST_F(DeadlinesTest, TheEndOfTimeIsATime) {
  deadlines_.set(NodeId{0}, UINT64_MAX);
  EXPECT_EQ(deadlines_.next(UINT64_MAX - 1), kNoNode);
  EXPECT_EQ(deadlines_.next(UINT64_MAX), NodeId{0});
  EXPECT_EQ(deadlines_.next(UINT64_MAX), kNoNode);
}

TEST_F(DeadlinesTest, WithoutMemoryTheTimeStillPasses) {
  Deadlines none;
  EXPECT_EQ(none.next(7), kNoNode);
  EXPECT_EQ(none.now(), 7u);
}

}  // namespace
}  // namespace kvc
