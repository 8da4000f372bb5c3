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
  [[nodiscard]] bool create(Memory& memory, const Node* nodes, size_t num_places, size_t history,
                            uint32_t num_levels, uint64_t secret) {
    nodes_ = nodes;
    if (!uses_.create(memory, num_places, history, secret) ||
        (num_levels != 1 && !retention_.create(memory, num_places)))
      return false;
    on_ = uses_.on() || retention_.on();
    return true;
  }
  // Whether anything is noted.
  bool on() const { return on_; }
  const Uses& uses() const { return uses_; }
  const Retention& retention() const { return retention_; }
  Retention& retention() { return retention_; }
  // The level of the list in which a position's blocks wait: 0 without hints, where retention().level() is
  // the default one.
  uint32_t level(NodeId id) const { return retention_.on() ? retention_.level(id) : 0; }

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
  // The positions of a path were used once more, from the first on. Whether one of them is demoted.
  bool use(const NodeId* path, size_t length) { return on_ && use_noted(path, length); }
  // What another tree noted of a position, as far as this one keeps it: it has been used so often, and has
  // the level until then (0 = no end).
  void carry(NodeId id, uint32_t uses, uint32_t level, uint64_t until);
  void prefetch(NodeId id) const {
    if (uses_.on()) [[unlikely]]
      uses_.prefetch(key_of(nodes_[raw(id)]));
  }

 private:
  bool use_noted(const NodeId* path, size_t length);
  // Epochs are told apart; the key tells namespaces and contents apart.
  static uint64_t key_of(const Node& node) { return node.key ^ node.epoch * 0x9E3779B97F4A7C15u; }

  const Node* nodes_ = nullptr;
  Uses uses_;
  Retention retention_;
  bool on_ = false;
};

}  // namespace kvc
