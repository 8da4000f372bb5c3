// SPDX-License-Identifier: Apache-2.0
// The life of the prefix tree's nodes: what keeps one alive, that their number is capped, and that dead
// chains are reclaimed without being reachable.
#include "prefix/tree_world.h"

namespace kvc {
namespace {

class PrefixNodesTest : public ::testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Masks, PrefixNodesTest, kMasks, name_of_mask);

TEST_P(PrefixNodesTest, ANodeLivesByBlocksChildrenOrHolders) {
  World w(8, 1, GetParam());
  const NodeId parent = w.publish(root_of(kRoot), 1);
  const BlockId top = w.attach(parent);
  const NodeId child = w.publish(parent, 1);
  const BlockId bottom = w.attach(child);
  w.tree.hold(child);
  w.tree.detach(top);
  EXPECT_TRUE(w.tree.alive(parent)) << "has a child";
  w.tree.detach(bottom);
  EXPECT_TRUE(w.tree.alive(child)) << "has a holder";
  EXPECT_EQ(w.find(parent, 1), child);
  w.tree.hold(child);
  w.tree.release(child);
  EXPECT_TRUE(w.tree.alive(child));
  w.tree.release(child);
  EXPECT_FALSE(w.tree.alive(child));
  EXPECT_FALSE(w.tree.alive(parent)) << "death climbs";
  EXPECT_EQ(w.counters.nodes_used, 0u);
  EXPECT_EQ(w.namespaces[kRoot].num_nodes, 0u);
  EXPECT_TRUE(w.children(root_of(kRoot)).empty());
  w.tree.hold(kNoNode);
  w.tree.release(kNoNode);
}

TEST_P(PrefixNodesTest, NodesAreCappedAndADeathMakesRoom) {
  World w(3, 1, GetParam());
  const NodeId root = root_of(kRoot);
  std::vector<BlockId> blocks;
  for (int32_t i = 0; i < 3; ++i) blocks.push_back(w.attach(w.publish(root, i)));
  EXPECT_EQ(w.tree.free_nodes(), 0u);
  EXPECT_EQ(w.publish(root, 7), kNoNode);
  EXPECT_EQ(w.publish(root, 7, {image(1)}), kNoNode);
  EXPECT_TRUE(is_node(w.publish(root, 1))) << "what is known needs no room";
  EXPECT_EQ(w.counters.nodes_used, 3u);
  w.tree.detach(blocks[1]);
  EXPECT_TRUE(is_node(w.publish(root, 7)));
  EXPECT_EQ(w.publish(root, 8), kNoNode);
}

TEST_P(PrefixNodesTest, AThousandBlocklessAncestorsAreReclaimedByNewNodes) {
  constexpr size_t kLength = 1000;
  World w(kLength, 1, GetParam());
  const auto blocks = w.chain(root_of(kRoot), kLength);
  for (size_t i = 0; i + 1 < kLength; ++i) w.tree.detach(blocks[i]);
  EXPECT_EQ(w.counters.nodes_used, kLength) << "all live by the deepest";
  w.tree.detach(blocks[kLength - 1]);
  EXPECT_LT(w.counters.nodes_used, kLength) << "death climbs";
  EXPECT_GT(w.counters.nodes_used, kLength / 2) << "but not far at once";
  for (size_t i = 0; i < kLength; ++i) {
    const NodeId node = w.publish(root_of(kRoot), static_cast<int32_t>(10000 + 2 * i));
    ASSERT_TRUE(is_node(node)) << "no room for new node " << i;
    w.tree.hold(node);
  }
  EXPECT_EQ(w.counters.nodes_used, kLength);
  EXPECT_EQ(w.children(root_of(kRoot)).size(), kLength) << "nothing of the chain is left";
  EXPECT_EQ(walk_chain(w, kLength), 0u);
}

TEST_P(PrefixNodesTest, WhatHangsOnADeadNodeIsNeverReached) {
  constexpr size_t kLength = 60;
  World w(200, 1, GetParam());
  auto blocks = w.chain(root_of(kRoot), kLength);
  for (const BlockId block : blocks) w.tree.detach(block);  // the deepest last
  const size_t reached = walk_chain(w, kLength);            // checks that each node on the way is alive
  EXPECT_LT(reached, kLength - 1);
  EXPECT_GT(reached, 0u);
  size_t orphans = 0;
  for (int32_t i = 0; i < 200; ++i) orphans += !w.tree.alive(NodeId{i});
  EXPECT_EQ(orphans, 200 - reached) << "whatever is not reached is in no bucket";

  // The same content again: fresh nodes below the living part, none of the dead ones.
  NodeId parent = root_of(kRoot);
  for (size_t i = 0; i < kLength; ++i) {
    parent = w.publish(parent, static_cast<int32_t>(i));
    ASSERT_TRUE(is_node(parent));
    w.tree.hold(parent);
  }
  EXPECT_EQ(walk_chain(w, kLength), kLength);
  for (int i = 0; i < 20; ++i) w.publish(root_of(kRoot), 5000 + 2 * i);  // the rest of the dead goes
  EXPECT_EQ(walk_chain(w, kLength), kLength);
  EXPECT_EQ(w.counters.nodes_used, kLength + 20);
}

TEST_P(PrefixNodesTest, TheDeadAreCountedAndStayAsTheyAre) {
  constexpr int32_t kLength = 20;
  constexpr uint64_t kPath = kLength;
  World w(200, 1, GetParam());
  NodeId fork = root_of(kRoot);
  const auto grow = [&](NodeId parent, int32_t first) {
    for (int32_t i = 0; i < kLength; ++i) parent = w.publish(parent, first + 2 * i);
    return parent;
  };
  fork = grow(fork, 1000);
  BlockId ends[3];
  for (int32_t i = 0; i < 3; ++i) ends[i] = w.attach(grow(fork, 2000 + 100 * i));
  EXPECT_EQ(w.tree.count_dead(1000), 0u);
  w.tree.detach(ends[0]);
  w.tree.detach(ends[2]);
  const uint64_t used = w.counters.nodes_used;
  EXPECT_GT(used, 2 * kPath) << "death climbs, but not far at once";
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(w.tree.count_dead(1000), used - 2 * kPath) << "the stem and the second branch live";
    EXPECT_EQ(w.tree.count_dead(5), 5u);
    EXPECT_EQ(w.tree.count_dead(0), 0u);
  }
  w.tree.detach(ends[1]);
  EXPECT_EQ(w.tree.count_dead(1000), w.counters.nodes_used);
  w.tree.hold(fork);
  EXPECT_EQ(w.tree.count_dead(1000), w.counters.nodes_used - kPath) << "what is held keeps its ancestors";
  for (int32_t i = 0; i < 180; ++i) {
    const NodeId node = w.publish(root_of(kRoot), 5000 + 2 * i);
    ASSERT_TRUE(is_node(node)) << "no room for new node " << i;
    w.tree.hold(node);
  }
  EXPECT_EQ(w.tree.count_dead(1000), 0u);
  EXPECT_EQ(w.counters.nodes_used, 200u);
}

TEST_P(PrefixNodesTest, ExtraKeysOfADeadNodeGoBack) {
  World w(4, 1, GetParam());
  uint64_t bytes = 0;
  for (int i = 0; i < 3000; ++i) {
    const NodeId node = w.publish(root_of(kRoot), 1, {image(static_cast<uint8_t>(i))});
    ASSERT_TRUE(is_node(node));
    w.tree.detach(w.attach(node));
    w.pool.drop_ref(w.pool[BlockId{0}]);
    w.pool.push_free(BlockId{0});
    if (i == 0) bytes = w.memory.bytes();
  }
  EXPECT_EQ(w.memory.bytes(), bytes);
}

}  // namespace
}  // namespace kvc
