// SPDX-License-Identifier: Apache-2.0
// What positions are called on the wire where that is a chain of its own (events/hash_chain.h). A position is
// kept while it can be found in a group, or while one that is kept has it as its parent: so its hash is there
// when it is removed, and when a child of it is stored.
#pragma once
#include <cstdint>
#include <unordered_map>

#include "base/ids.h"
#include "base/sha256.h"

namespace kvc {

class NodeHashes {
 public:
  // Null = not known. Positions are kvc_event.node.
  const Digest256* find(uint64_t node) const {
    const auto at = nodes_.find(node);
    return at == nodes_.end() ? nullptr : &at->second.hash;
  }
  // Keeps a hash from elsewhere, for a child that is about to be stored.
  void know(uint64_t node, const Digest256& hash) { nodes_.try_emplace(node, Node{hash, 0, 0, 0}); }
  // The position, whose parent is known or 0, can be found in a group.
  void store(uint64_t node, uint64_t parent, GroupIndex group, const Digest256& hash) {
    Node& own = nodes_.try_emplace(node, Node{hash, 0, 0, 0}).first->second;
    own.groups |= 1u << group;
    if (own.parent == parent) return;
    own.parent = parent;
    ++nodes_.at(parent).children;
  }
  // It cannot be found in the group any more.
  void remove(uint64_t node, GroupIndex group) {
    auto at = nodes_.find(node);
    if (at == nodes_.end()) return;
    at->second.groups &= ~(1u << group);
    while (at != nodes_.end() && at->second.groups == 0 && at->second.children == 0) {
      const auto parent = nodes_.find(at->second.parent);
      nodes_.erase(at);
      if (parent != nodes_.end()) --parent->second.children;
      at = parent;
    }
  }
  void clear() { nodes_.clear(); }
  void swap(NodeHashes& other) { nodes_.swap(other.nodes_); }
  size_t size() const { return nodes_.size(); }

 private:
  struct Node {
    Digest256 hash;
    uint64_t parent;
    uint32_t groups;  // a bit each
    uint32_t children;
  };
  std::unordered_map<uint64_t, Node> nodes_;
};

}  // namespace kvc
