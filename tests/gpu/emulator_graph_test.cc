// SPDX-License-Identifier: Apache-2.0
// Graphs of the emulator: a replay keeps to what was captured, and does anything that this leaves open.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "emulator/graph.h"
#include "gpu/device.h"

namespace kvc::gpu::test {
namespace {

using host::Graph;
using host::Nodes;
using GraphTest = KernelTest;

void replay(Graph& graph, uint64_t seed) { graph.run(graph.announce(), seed); }

// One node, two branches of two nodes each that have no order, and a node that comes after both.
struct TwoBranches {
  enum : size_t { kFirst, kLeft, kLeftEnd, kRight, kRightEnd, kLast };
  Graph graph;
  std::mutex mutex;
  Nodes order;  // in which they were done

  TwoBranches() {
    const Nodes after[] = {{}, {kFirst}, {kLeft}, {kFirst}, {kRight}, {kLeftEnd, kRightEnd}};
    for (size_t node = 0; node <= kLast; ++node) {
      const auto work = [this, node] {
        const std::lock_guard lock(mutex);
        order.push_back(node);
      };
      graph.add(work, after[node]);
    }
  }
};

TEST_F(GraphTest, EveryAllowedOrderComesAndNoOther) {
  TwoBranches two;
  std::set<Nodes> seen;
  for (int i = 0; i < 400; ++i) {
    two.order.clear();
    replay(two.graph, random());
    seen.insert(two.order);
  }
  std::set<Nodes> allowed;
  Nodes order = {0, 1, 2, 3, 4, 5};
  do {
    const auto at = [&](size_t node) { return std::find(order.begin(), order.end(), node) - order.begin(); };
    if (at(0) == 0 && at(1) < at(2) && at(3) < at(4) && at(5) == 5) allowed.insert(order);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(allowed.size(), 6u);
  EXPECT_EQ(seen, allowed);
}

TEST_F(GraphTest, ASeedGivesTheSameOrderAgain) {
  TwoBranches two;
  std::set<std::vector<Nodes>> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<Nodes> drawn = two.graph.draw(seed);
    EXPECT_EQ(two.graph.draw(seed), drawn);
    seen.insert(drawn);
  }
  EXPECT_GT(seen.size(), 10u);
}

TEST_F(GraphTest, WhatHasNoOrderRunsSideBySide) {
  Graph graph;
  std::atomic<int> inside{0}, met{0};
  const host::Work meet = [&] {
    ++inside;
    for (int i = 0; i < 60000 && inside != 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (inside == 2) ++met;
  };
  graph.add(meet, {});
  graph.add(meet, {});
  uint64_t seed = 0;
  while (graph.draw(seed).size() != 1) ++seed;  // both in one group
  replay(graph, seed);
  EXPECT_EQ(met, 2) << "each saw the other while it was at work";
}

TEST_F(GraphTest, OfAnyShapeIsReplayedInItsOrder) {
  for (int round = 0; round < 60; ++round) {
    Graph graph;
    std::vector<Nodes> after(1 + random() % 20);
    std::vector<std::atomic<bool>> ended(after.size());
    std::atomic<size_t> done{0}, early{0};
    for (size_t node = 0; node < after.size(); ++node) {
      for (size_t earlier = 0; earlier < node; ++earlier) {
        if (random() % 4 == 0) after[node].push_back(earlier);
      }
      const auto work = [&, node] {
        for (const size_t earlier : after[node]) early += ended[earlier] ? 0 : 1;
        ended[node] = true;
        ++done;
      };
      ASSERT_EQ(graph.add(work, after[node]), node);
    }
    for (int i = 1; i <= 4; ++i) {
      for (std::atomic<bool>& each : ended) each = false;
      replay(graph, random());
      EXPECT_EQ(done, i * after.size());
      EXPECT_EQ(early, 0u) << "began before what it comes after had ended";
    }
  }
}

TEST_F(GraphTest, EndsWithNodesThatEverythingComesBefore) {
  const TwoBranches two;
  EXPECT_TRUE(two.graph.ends_with({TwoBranches::kLast}));
  EXPECT_FALSE(two.graph.ends_with({TwoBranches::kLeftEnd, TwoBranches::kRightEnd}));
  Graph open;
  open.add([] {}, {});
  open.add([] {}, {0});
  open.add([] {}, {0});
  EXPECT_FALSE(open.ends_with({1})) << "the other branch is not joined";
  EXPECT_TRUE(open.ends_with({1, 2}));
  EXPECT_TRUE(Graph().ends_with({}));
  EXPECT_FALSE(open.ends_with({}));
}

TEST_F(GraphTest, ReplaysOfOneGraphFollowEachOtherAsTheyWereAnnounced) {
  Graph graph;
  std::atomic<int> done{0};
  graph.add([&] { ++done; }, {});
  const uint64_t first = graph.announce(), second = graph.announce();
  std::thread other([&] { graph.run(second, 1); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(done, 0) << "the second waits for the first";
  graph.run(first, 2);
  other.join();
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace kvc::gpu::test
