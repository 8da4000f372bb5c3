// SPDX-License-Identifier: Apache-2.0
// The prefix tree: a match compares parent, tokens, epoch and extra keys whatever the hash says (every test
// runs again with a hash that makes all keys equal); copies form a ring with the lowest in front; dead chains
// are reclaimed without being reachable; nodes are capped.
#include "prefix/prefix_tree.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/counting_heap.h"

namespace kvc {
namespace {

constexpr uint32_t kBlockSize = 2;
constexpr uint32_t kRoot = 0;  // the default namespace

// Everything that a tree stands on.
struct World {
  World(size_t max_nodes, size_t num_groups, uint64_t mask, uint64_t blocks = 2048, size_t events = 0) {
    EXPECT_TRUE(ring.create(memory, heap.env(), events, kBlockSize));
    EXPECT_TRUE(pool.create(memory, &blocks, 1, false));
    EXPECT_TRUE(spaces.create(memory, arena, 1, 3));
    EXPECT_TRUE(tree.create(memory, max_nodes, kBlockSize, num_groups, mask, 1));
    hash.init(1);
  }

  uint64_t key_of(NodeId parent, int32_t token, const ExtraView& extra) const {
    const int32_t tokens[kBlockSize] = {token, token + 1};
    uint64_t chain;
    hash.blocks(is_node(parent) ? tree[parent].key : hash.root(~static_cast<uint32_t>(raw(parent)), 0),
                tokens, kBlockSize, 1, &chain);
    return extra.hash(hash, chain);
  }
  // The position {token, token + 1} below `parent`.
  NodeId publish(NodeId parent, int32_t token, std::vector<kvc_extra_key> keys = {}, uint32_t epoch = 0) {
    const int32_t tokens[kBlockSize] = {token, token + 1};
    ExtraRecords extras(arena, keys.data(), keys.size(), 0, 1, kBlockSize);
    EXPECT_TRUE(extras.ok());
    const uint32_t space = is_node(parent) ? tree[parent].space : ~static_cast<uint32_t>(raw(parent));
    return tree.publish_position(parent, key_of(parent, token, extras.view(0)), tokens, extras, 0, space,
                                 epoch);
  }
  NodeId find(NodeId parent, int32_t token, std::vector<kvc_extra_key> keys = {}, uint32_t epoch = 0) const {
    const int32_t tokens[kBlockSize] = {token, token + 1};
    const ExtraView extra(keys.data(), keys.size(), 0, kBlockSize);
    return tree.find(parent, key_of(parent, token, extra), tokens, extra, epoch);
  }
  BlockId take(uint8_t group = 0) { return pool.pop_free(0, group); }
  BlockId attach(NodeId node, uint8_t group = 0) {
    const BlockId block = take(group);
    tree.attach(node, group, block);
    return block;
  }
  // A chain of positions below `parent`, each with a block.
  std::vector<BlockId> chain(NodeId parent, size_t length) {
    std::vector<BlockId> blocks;
    for (size_t i = 0; i < length; ++i) {
      parent = publish(parent, static_cast<int32_t>(i));
      EXPECT_TRUE(is_node(parent));
      blocks.push_back(attach(parent));
    }
    return blocks;
  }
  std::vector<NodeId> children(NodeId parent) const {
    std::vector<NodeId> found;
    for (NodeId id = tree.first_child(parent); is_node(id); id = tree[id].sibling_next) found.push_back(id);
    return found;
  }

  CountingHeap heap;
  Memory memory{heap.env()};
  Arena arena{memory};
  Counters counters = {};
  EventRing ring;
  BlockPool pool;
  SpaceTable spaces;
  PrefixTree tree{pool, spaces, arena, ring, counters};
  TableHash hash;
};

kvc_extra_key image(uint8_t mark, uint64_t first = 0, uint64_t count = 1) {
  kvc_extra_key key = {};
  key.first_token = first;
  key.num_tokens = count;
  key.digest[0] = mark;
  return key;
}

class PrefixTreeTest : public ::testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Masks, PrefixTreeTest, ::testing::Values(~uint64_t{0}, uint64_t{0}, uint64_t{5}),
                         [](const auto& test) {
                           return test.index == 0 ? "Hash" : test.index == 1 ? "AllCollide" : "ManyCollide";
                         });

TEST_P(PrefixTreeTest, FindComparesParentTokensEpochAndExtraKeys) {
  World w(64, 1, GetParam());
  const NodeId root = root_of(kRoot);
  const NodeId a = w.publish(root, 10), b = w.publish(root, 20);
  const NodeId below_a = w.publish(a, 30), below_b = w.publish(b, 30);
  const NodeId pictured = w.publish(root, 10, {image(1)});
  const NodeId newer = w.publish(root, 10, {}, 1);
  const std::vector<NodeId> all = {a, b, below_a, below_b, pictured, newer};
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(is_node(all[i]));
    for (size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]);
  }
  EXPECT_EQ(w.counters.nodes_used, 6u);
  EXPECT_EQ(w.find(root, 10), a);
  EXPECT_EQ(w.find(root, 20), b);
  EXPECT_EQ(w.find(a, 30), below_a);
  EXPECT_EQ(w.find(b, 30), below_b);
  EXPECT_EQ(w.find(root, 10, {image(1)}), pictured);
  EXPECT_EQ(w.find(root, 10, {}, 1), newer);
  EXPECT_FALSE(is_node(w.find(root, 11)));
  EXPECT_FALSE(is_node(w.find(a, 10)));
  EXPECT_FALSE(is_node(w.find(below_a, 30)));
  EXPECT_FALSE(is_node(w.find(root, 10, {image(2)})));
  EXPECT_FALSE(is_node(w.find(root, 10, {image(1, 1)}))) << "another offset";
  EXPECT_FALSE(is_node(w.find(root, 10, {image(1, 0, 2)}))) << "another length";
  EXPECT_FALSE(is_node(w.find(root, 10, {}, 2)));
  EXPECT_EQ(w.publish(root, 10), a) << "a known position is not made again";
  EXPECT_EQ(w.counters.nodes_used, 6u);
  EXPECT_EQ(w.tree[below_a].depth, 1u);
}

TEST(PrefixTree, CandidatesThatTheComparisonRejectsAreCounted) {
  World w(64, 1, 0);
  NodeId oldest = kNoNode;
  for (int32_t i = 0; i < 10; ++i) {
    const NodeId node = w.publish(root_of(kRoot), 2 * i);
    if (i == 0) oldest = node;
  }
  const uint64_t before = w.tree.rejected_candidates();
  EXPECT_EQ(w.find(root_of(kRoot), 0), oldest);
  EXPECT_EQ(w.tree.rejected_candidates() - before, 9u);
  World spread(64, 1, ~uint64_t{0});
  for (int32_t i = 0; i < 10; ++i) spread.publish(root_of(kRoot), 2 * i);
  EXPECT_EQ(spread.tree.rejected_candidates(), 0u);
}

TEST_P(PrefixTreeTest, NamespacesHaveTheirOwnRoots) {
  World w(64, 1, GetParam());
  kvc_namespace_config config = {};
  config.struct_size = sizeof config;
  config.tenant = "t";
  config.tenant_size = 1;
  uint32_t slot = 0;
  ASSERT_EQ(w.spaces.open(config, &slot), KVC_OK);
  const NodeId here = w.publish(root_of(kRoot), 1), there = w.publish(root_of(slot), 1);
  EXPECT_NE(here, there);
  EXPECT_EQ(w.find(root_of(slot), 1), there);
  EXPECT_EQ(w.children(root_of(kRoot)), std::vector<NodeId>{here});
  EXPECT_EQ(w.spaces[slot].num_nodes, 1u);
  const BlockId block = w.attach(there);
  w.spaces.close(slot);
  uint32_t other = 0;
  ASSERT_EQ(w.spaces.open(config, &other), KVC_OK);
  EXPECT_NE(other, slot) << "its node is still there";
  w.tree.detach(block);
  EXPECT_FALSE(w.tree.alive(there));
  config.tenant = "u";
  ASSERT_EQ(w.spaces.open(config, &other), KVC_OK);
  EXPECT_EQ(other, slot) << "the last node freed the slot";
}

TEST_P(PrefixTreeTest, CopiesAreARingWithTheLowestInFront) {
  World w(8, 1, GetParam());
  const NodeId node = w.publish(root_of(kRoot), 1);
  std::vector<BlockId> b;
  for (int i = 0; i < 5; ++i) b.push_back(w.take());
  w.tree.attach(node, 0, b[3]);
  EXPECT_EQ(w.tree.block_of(node, 0), b[3]);
  w.tree.attach(node, 0, b[4]);
  EXPECT_EQ(w.tree.block_of(node, 0), b[3]);
  w.tree.attach(node, 0, b[1]);
  w.tree.attach(node, 0, b[2]);
  EXPECT_EQ(w.tree.block_of(node, 0), b[1]);
  for (const int i : {1, 2, 3, 4}) EXPECT_EQ(w.tree.num_copies(b[static_cast<size_t>(i)]), 4u);
  EXPECT_EQ(w.counters.published_blocks, 4u);
  EXPECT_EQ(w.counters.duplicates, 3u);

  EXPECT_FALSE(is_block(w.tree.idle_copy(b[1])));
  w.pool.drop_ref(w.pool[b[4]]);
  w.pool.push_lru(b[4]);
  w.tree.make_idle(b[4]);
  EXPECT_EQ(w.tree.idle_copy(b[1]), b[4]);
  EXPECT_FALSE(is_block(w.tree.idle_copy(b[4]))) << "another one";

  w.tree.detach(b[1]);
  EXPECT_EQ(w.tree.block_of(node, 0), b[2]);
  EXPECT_FALSE(is_node(w.pool[b[1]].node));
  EXPECT_EQ(w.pool[b[1]].next_copy, b[1]);
  w.tree.detach(b[3]);
  EXPECT_EQ(w.tree.block_of(node, 0), b[2]);
  EXPECT_EQ(w.tree.num_copies(b[2]), 2u);
  w.tree.detach(b[2]);
  EXPECT_EQ(w.tree.block_of(node, 0), b[4]);
  EXPECT_TRUE(w.tree.alive(node));
  w.tree.detach(b[4]);
  EXPECT_FALSE(w.tree.alive(node));
  EXPECT_EQ(w.counters.nodes_used, 0u);
}

TEST_P(PrefixTreeTest, GroupsHaveTheirOwnBlocks) {
  World w(8, 3, GetParam());
  const NodeId node = w.publish(root_of(kRoot), 1);
  for (size_t g = 0; g < 3; ++g) EXPECT_FALSE(is_block(w.tree.block_of(node, g)));
  const BlockId second = w.attach(node, 1);
  EXPECT_EQ(w.tree[node].resident, 2u);
  const BlockId third = w.attach(node, 2);
  EXPECT_EQ(w.tree[node].resident, 6u);
  EXPECT_EQ(w.tree.block_of(node, 1), second);
  EXPECT_EQ(w.tree.block_of(node, 2), third);
  EXPECT_EQ(w.tree.num_copies(second), 1u) << "copies are counted per group";
  w.tree.detach(second);
  EXPECT_EQ(w.tree[node].resident, 4u);
  EXPECT_FALSE(is_block(w.tree.block_of(node, 1)));
  w.tree.detach(third);
  EXPECT_FALSE(w.tree.alive(node));
}

TEST_P(PrefixTreeTest, ANodeLivesByBlocksChildrenOrHolders) {
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
  EXPECT_EQ(w.spaces[kRoot].num_nodes, 0u);
  EXPECT_TRUE(w.children(root_of(kRoot)).empty());
  w.tree.hold(kNoNode);
  w.tree.release(kNoNode);
}

TEST_P(PrefixTreeTest, SiblingsAreLinkedNewestFirst) {
  World w(16, 1, GetParam());
  const NodeId root = root_of(kRoot);
  const NodeId parent = w.publish(root, 50);
  std::vector<NodeId> nodes;
  std::vector<BlockId> blocks;
  for (int32_t i = 0; i < 5; ++i) {
    nodes.push_back(w.publish(parent, i));
    blocks.push_back(w.attach(nodes.back()));
  }
  EXPECT_EQ(w.children(parent), (std::vector<NodeId>{nodes[4], nodes[3], nodes[2], nodes[1], nodes[0]}));
  w.tree.detach(blocks[2]);
  EXPECT_EQ(w.children(parent), (std::vector<NodeId>{nodes[4], nodes[3], nodes[1], nodes[0]}));
  w.tree.detach(blocks[4]);
  w.tree.detach(blocks[0]);
  EXPECT_EQ(w.children(parent), (std::vector<NodeId>{nodes[3], nodes[1]}));
  const NodeId again = w.publish(parent, 2);
  EXPECT_EQ(w.children(parent), (std::vector<NodeId>{again, nodes[3], nodes[1]}));
}

TEST_P(PrefixTreeTest, NodesAreCappedAndADeathMakesRoom) {
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

// Positions 0 .. length - 1 of the chain that chain() made.
size_t walk_chain(const World& w, size_t length, uint32_t needed = 0, uint32_t epoch = 0,
                  size_t limit = SIZE_MAX) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < length; ++i) {
    tokens.push_back(static_cast<int32_t>(i));
    tokens.push_back(static_cast<int32_t>(i) + 1);
  }
  std::vector<uint64_t> hashes(length);
  w.hash.blocks(w.hash.root(kRoot, 0), tokens.data(), kBlockSize, length, hashes.data());
  std::vector<NodeId> path(length, kNoNode);
  const Prompt prompt{tokens.data(), hashes.data(), nullptr, 0, kRoot, epoch};
  const size_t reached = w.tree.walk(prompt, std::min(limit, length), needed, path.data());
  for (size_t i = 0; i < reached; ++i) {
    EXPECT_TRUE(w.tree.alive(path[i]));
    EXPECT_EQ(w.tree[path[i]].depth, i);
    EXPECT_EQ(w.tree[path[i]].parent, i == 0 ? root_of(kRoot) : path[i - 1]);
  }
  if (reached > 3) {  // from the middle
    std::vector<NodeId> rest(path);
    rest[3] = kNoNode;
    EXPECT_EQ(w.tree.walk(prompt, rest[2], 3, std::min(limit, length), needed, rest.data()), reached);
    EXPECT_EQ(rest[3], path[3]);
  }
  return reached;
}

TEST_P(PrefixTreeTest, WalkStopsAtTheLimitTheUnknownTheStaleAndTheUnserved) {
  World w(64, 2, GetParam());
  const auto blocks = w.chain(root_of(kRoot), 20);
  EXPECT_EQ(walk_chain(w, 20), 20u);
  EXPECT_EQ(walk_chain(w, 30), 20u);
  EXPECT_EQ(walk_chain(w, 20, 0, 0, 7), 7u);
  EXPECT_EQ(walk_chain(w, 20, 0, 1), 0u) << "another epoch";
  EXPECT_EQ(walk_chain(w, 20, 1), 20u);
  EXPECT_EQ(walk_chain(w, 20, 2), 0u) << "no block in group 1";
  w.tree.detach(blocks[12]);
  EXPECT_EQ(walk_chain(w, 20, 1), 12u);
  EXPECT_EQ(walk_chain(w, 20, 0), 20u) << "the position is still known";
}

TEST_P(PrefixTreeTest, AThousandBlocklessAncestorsAreReclaimedByNewNodes) {
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

TEST_P(PrefixTreeTest, WhatHangsOnADeadNodeIsNeverReached) {
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

TEST_P(PrefixTreeTest, TheDeadAreCountedAndStayAsTheyAre) {
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

TEST_P(PrefixTreeTest, ExtraKeysOfADeadNodeGoBack) {
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

TEST_P(PrefixTreeTest, EventsTellTheFirstAndTheLastCopyByChainedDigests) {
  World w(16, 1, GetParam(), 64, 32);
  const NodeId a = w.publish(root_of(kRoot), 1), b = w.publish(a, 5, {image(9, 1, 4)});
  const BlockId first = w.attach(a), copy = w.attach(a), below = w.attach(b);
  w.tree.detach(first);
  EXPECT_EQ(w.ring.next_sequence(), 2u) << "copies tell nothing";
  w.tree.detach(copy);
  w.spaces.reset_all();
  w.tree.detach(below);
  EXPECT_EQ(w.ring.next_sequence(), 3u) << "nor do stale ones";

  kvc_event events[4];
  int32_t tokens[8];
  uint64_t cursor = 0;
  ASSERT_EQ(w.ring.read(&cursor, events, sizeof events[0], 4, tokens, 8), 3u);
  EXPECT_EQ(events[0].kind, static_cast<uint32_t>(KVC_EVENT_STORED));
  EXPECT_EQ(events[0].block, raw(first));
  EXPECT_EQ(events[0].parent_node, 0u);
  EXPECT_EQ(events[1].parent_node, events[0].node);
  EXPECT_EQ(events[1].token_offset, kBlockSize);
  EXPECT_EQ(std::memcmp(events[1].parent_digest, events[0].digest, 32), 0);
  EXPECT_EQ(events[2].kind, static_cast<uint32_t>(KVC_EVENT_REMOVED));
  EXPECT_EQ(events[2].block, raw(copy));
  EXPECT_EQ(std::memcmp(events[2].digest, events[0].digest, 32), 0);
  EXPECT_EQ(tokens[2], 5);

  const kvc_extra_key key = image(9, 1, 4);
  const ExtraSpan span = ExtraView(&key, 1, 0, kBlockSize).span(0);
  Sha256 sha;
  sha.update(&span, sizeof span);
  const Digest256 extra = sha.finish();
  EXPECT_EQ(std::memcmp(events[1].extra_digest, extra.bytes, 32), 0);
  const int32_t content[kBlockSize] = {5, 6};
  sha.update(events[0].digest, 32);
  sha.update(extra.bytes, 32);
  sha.update(&kBlockSize, 4);
  sha.update(content, sizeof content);
  const Digest256 chained = sha.finish();
  EXPECT_EQ(std::memcmp(events[1].digest, chained.bytes, 32), 0);
}

TEST(PrefixTree, CreationSaysWhenThereIsNoMemory) {
  for (uint64_t k = 0; k < 4; ++k) {
    World w(8, 2, ~uint64_t{0});
    PrefixTree tree(w.pool, w.spaces, w.arena, w.ring, w.counters);
    w.heap.fail_after(k);
    EXPECT_FALSE(tree.create(w.memory, 8, kBlockSize, 2, ~uint64_t{0}, 1)) << "allocation " << k;
  }
}

}  // namespace
}  // namespace kvc
