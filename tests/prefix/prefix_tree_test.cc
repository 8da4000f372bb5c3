// SPDX-License-Identifier: Apache-2.0
// The prefix tree: a match compares parent, tokens, epoch and extra keys whatever the hash says; copies form
// a ring with the lowest in front; walks stop where nothing may be used; events tell of first and last
// copies.
#include "prefix/identities_world.h"

namespace kvc {
namespace {

class PrefixTreeTest : public ::testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Masks, PrefixTreeTest, kMasks, name_of_mask);

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
  NamespaceId index{};
  ASSERT_EQ(w.namespaces.open(config, &index), KVC_OK);
  const NodeId here = w.publish(root_of(kRoot), 1), there = w.publish(root_of(index), 1);
  EXPECT_NE(here, there);
  EXPECT_EQ(w.find(root_of(index), 1), there);
  EXPECT_EQ(w.children(root_of(kRoot)), std::vector<NodeId>{here});
  EXPECT_EQ(w.namespaces[index].num_nodes, 1u);
  const BlockId block = w.attach(there);
  w.namespaces.close(index);
  NamespaceId other{};
  ASSERT_EQ(w.namespaces.open(config, &other), KVC_OK);
  EXPECT_NE(other, index) << "its node is still there";
  w.tree.detach(block);
  EXPECT_FALSE(w.tree.alive(there));
  config.tenant = "u";
  ASSERT_EQ(w.namespaces.open(config, &other), KVC_OK);
  EXPECT_EQ(other, index) << "the last node freed the index";
}

TEST_P(PrefixTreeTest, CopiesAreARingWithTheFirstPublishedInFront) {
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
  EXPECT_EQ(w.tree.block_of(node, 0), b[3]);
  for (const int i : {1, 2, 3, 4}) EXPECT_EQ(w.tree.copies().count(b[static_cast<size_t>(i)]), 4u);
  EXPECT_EQ(w.counters.published_blocks, 4u);
  EXPECT_EQ(w.counters.duplicates, 3u);

  EXPECT_FALSE(is_block(w.tree.copies().idle(b[1])));
  w.pool.drop_ref(w.pool[b[1]]);
  w.pool.push_lru(b[1]);
  w.tree.copies().make_idle(b[1]);
  EXPECT_EQ(w.tree.copies().idle(b[3]), b[1]);
  EXPECT_FALSE(is_block(w.tree.copies().idle(b[1]))) << "another one";
  EXPECT_EQ(w.tree.block_of(node, 0), b[3]);

  w.tree.detach(b[3]);
  EXPECT_EQ(w.tree.block_of(node, 0), b[1]) << "the idle one stands behind the first";
  EXPECT_FALSE(is_node(w.pool[b[3]].node));
  EXPECT_EQ(w.pool[b[3]].next_copy, b[3]);
  w.tree.detach(b[2]);
  EXPECT_EQ(w.tree.block_of(node, 0), b[1]);
  EXPECT_EQ(w.tree.copies().count(b[4]), 2u);
  w.tree.detach(b[1]);
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
  EXPECT_EQ(w.tree.copies().count(second), 1u) << "copies are counted per group";
  w.tree.detach(second);
  EXPECT_EQ(w.tree[node].resident, 4u);
  EXPECT_FALSE(is_block(w.tree.block_of(node, 1)));
  w.tree.detach(third);
  EXPECT_FALSE(w.tree.alive(node));
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

TEST_P(PrefixTreeTest, EventsTellTheFirstAndTheLastCopyByChainedDigests) {
  World w(16, 1, GetParam(), 64, 32);
  const NodeId a = w.publish(root_of(kRoot), 1), b = w.publish(a, 5, {image(9, 1, 4)});
  const BlockId first = w.attach(a), copy = w.attach(a), below = w.attach(b);
  w.tree.detach(first);
  EXPECT_EQ(w.ring.next_sequence(), 2u) << "copies tell nothing";
  w.tree.detach(copy);
  w.namespaces.reset_all();
  w.tree.detach(below);
  EXPECT_EQ(w.ring.next_sequence(), 4u) << "nor do stale ones";

  EventReader reader(w);
  const std::vector<kvc_event> events = reader.work_and_read();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].kind, static_cast<uint32_t>(KVC_EVENT_STORED));
  EXPECT_EQ(events[0].block, raw(first));
  EXPECT_EQ(events[0].parent_node, 0u);
  EXPECT_EQ(events[1].parent_node, events[0].node);
  EXPECT_EQ(events[1].token_offset, kBlockSize);
  EXPECT_EQ(std::memcmp(events[1].parent_digest, events[0].digest, 32), 0);
  EXPECT_EQ(events[2].kind, static_cast<uint32_t>(KVC_EVENT_REMOVED));
  EXPECT_EQ(events[2].block, raw(copy));
  EXPECT_EQ(std::memcmp(events[2].digest, events[0].digest, 32), 0);
  EXPECT_EQ(events[3].kind, static_cast<uint32_t>(KVC_EVENT_STORED)) << "it leads to the other position";
  EXPECT_EQ(events[3].block, -1);
  EXPECT_EQ(std::memcmp(events[3].digest, events[0].digest, 32), 0);
  EXPECT_EQ(w.tree.tokens(w.ring[1].position)[0], 5) << "of a dead position";

  const kvc_extra_key key = image(9, 1, 4);
  const Ordered ordered({key});
  const ExtraSpan span = ExtraView(ordered.list(), 0, kBlockSize).span(0);
  Sha256 sha;
  sha.update(&span, sizeof span);
  const Digest256 extra = sha.finish();
  EXPECT_EQ(std::memcmp(events[1].extra_digest, extra.bytes, 32), 0);
  const int32_t content[kBlockSize] = {5, 6};
  sha.update(content, sizeof content);
  sha.update(events[0].digest, 32);
  sha.update(extra.bytes, 32);
  const uint32_t with_keys = kBlockSize | 1u << 31;
  sha.update(&with_keys, 4);
  const Digest256 chained = sha.finish();
  EXPECT_EQ(std::memcmp(events[1].digest, chained.bytes, 32), 0);
}

TEST(PrefixTree, CreationSaysWhenThereIsNoMemory) {
  for (uint64_t k = 0; k < 4; ++k) {
    World w(8, 2, ~uint64_t{0});
    PrefixTree tree(w.pool, w.namespaces, w.arena, w.ring, w.counters);
    w.heap.fail_after(k);
    EXPECT_FALSE(tree.create(w.memory, 8, kBlockSize, 2, ~uint64_t{0}, 1)) << "allocation " << k;
  }
}

}  // namespace
}  // namespace kvc
