// SPDX-License-Identifier: Apache-2.0
// What a tree notes of positions with blocks: how often they were used, for policies that ask for it, and how
// long they stay, if the manager has hints. A position has at most the uses of the position before it, unless
// that has no block: so it does not stay longer. Not thread-safe.
#pragma once
#include "pool/block_pool.h"
#include "prefix/node.h"
#include "prefix/retention.h"
#include "prefix/uses.h"

namespace kvc {

class Notes {
 public:
  // As PrefixTree::create() says.
  [[nodiscard]] bool create(Memory& memory, const Node* nodes, size_t num_places, size_t history, bool hints,
                            uint64_t secret) {
    nodes_ = nodes;
    if (!uses_.create(memory, num_places, history, secret) ||
        (hints && !retention_.create(memory, num_places)))
      return false;
    on_ = uses_.on() || retention_.on();
    return true;
  }
  // Whether anything is noted.
  bool on() const { return on_; }
  const Uses& uses() const { return uses_; }
  const Retention& retention() const { return retention_; }
  Retention& retention() { return retention_; }

  // A position has its first block, or has lost its last one.
  void begin(NodeId id) { uses_.begin(id, key_of(nodes_[raw(id)])); }
  void end(NodeId id, bool stale);
  // Blocks that were attached to new positions, which are used once.
  void begin_chain(const BlockPool& pool, const BlockId* blocks, size_t count);
  void use(NodeId id);
  // What is noted of a position.
  void digest(NodeId id, DigestHash* out) const {
    if (uses_.on()) out->add(uses_.of(id));
    if (retention_.on()) out->add(retention_.level(id));
  }
  void prefetch(NodeId id) const { uses_.prefetch(key_of(nodes_[raw(id)])); }

 private:
  // Epochs are told apart; the key tells namespaces and contents apart.
  static uint64_t key_of(const Node& node) { return node.key ^ node.epoch * 0x9E3779B97F4A7C15u; }

  const Node* nodes_ = nullptr;
  Uses uses_;
  Retention retention_;
  bool on_ = false;
};

}  // namespace kvc
