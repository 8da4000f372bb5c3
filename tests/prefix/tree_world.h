// SPDX-License-Identifier: Apache-2.0
// A prefix tree and all that it stands on, for tests. Each runs with hashes as they are, with one that makes
// all keys equal, and with one that lets many collide.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/counting_heap.h"
#include "prefix/ordered.h"
#include "prefix/prefix_tree.h"

namespace kvc {

inline constexpr uint32_t kBlockSize = 2;
inline constexpr uint32_t kRoot = 0;  // the default namespace

// Everything that a tree stands on.
struct World {
  World(size_t max_nodes, size_t num_groups, uint64_t mask, uint64_t blocks = 2048, size_t events = 0) {
    EXPECT_TRUE(ring.create(memory, heap.env(), events));
    EXPECT_TRUE(pool.create(memory, &blocks, 1, false));
    EXPECT_TRUE(namespaces.create(memory, arena, ring, 1, 3));
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
    const Ordered ordered(keys);
    ExtraRecords extras(arena, ordered.list(), 0, 1, kBlockSize);
    EXPECT_TRUE(extras.ok());
    const uint32_t ns = is_node(parent) ? tree[parent].ns : ~static_cast<uint32_t>(raw(parent));
    return tree.publish_position(parent, key_of(parent, token, extras.view(0)), tokens, extras, 0, ns, epoch);
  }
  NodeId find(NodeId parent, int32_t token, std::vector<kvc_extra_key> keys = {}, uint32_t epoch = 0) const {
    const int32_t tokens[kBlockSize] = {token, token + 1};
    const Ordered ordered(keys);
    const ExtraView extra(ordered.list(), 0, kBlockSize);
    return tree.find(parent, key_of(parent, token, extra), tokens, extra, epoch);
  }
  BlockId take(uint8_t group = 0) {
    BlockId id = kNoBlock;
    pool.pop_free(0, group, 1, &id);
    return id;
  }
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
  NamespaceTable namespaces;
  PrefixTree tree{pool, namespaces, arena, ring, counters};
  TableHash hash;
};

inline kvc_extra_key image(uint8_t mark, uint64_t first = 0, uint64_t count = 1) {
  kvc_extra_key key = {};
  key.first_token = first;
  key.num_tokens = count;
  key.digest[0] = mark;
  return key;
}

// Positions 0 .. length - 1 of the chain that chain() made.
inline size_t walk_chain(const World& w, size_t length, uint32_t needed = 0, uint32_t epoch = 0,
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

// The parameter is the mask of hashes.
inline const auto kMasks = ::testing::Values(~uint64_t{0}, uint64_t{0}, uint64_t{5});
inline std::string name_of_mask(const ::testing::TestParamInfo<uint64_t>& test) {
  return test.index == 0 ? "Hash" : test.index == 1 ? "AllCollide" : "ManyCollide";
}

}  // namespace kvc
