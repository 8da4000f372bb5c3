// SPDX-License-Identifier: Apache-2.0
// Carries what one manager has cached into a new one of another block size. Runs under both locks; the old
// manager is only read.
//
// The old blocks are taken in the reverse order of eviction. Each brings the new positions that end inside
// it; those get blocks until the new pool is full. So what is left out is what the old manager would evict
// first. Positions before them that no block was brought for yet are made without one; the others' turn comes
// later, or they die at the end. Equal beginnings of several old blocks are one new position, which the tree
// finds.
//
// Invariants: `made` is set once all new positions that end in an old one exist, down from the root; `tip` is
// then the last new position that ends in it or before it.
#pragma once
#include <kvcache/rebuild.h>

#include "manager/manager.h"

namespace kvc {

class Rebuild {
 public:
  Rebuild(const Manager& from, Manager& to)
      : from_(from), to_(to), old_tree_(from.blocks_.tree()), shape_(to.shape_), blocks_(to.blocks_) {}

  // BUFFER_TOO_SMALL, with counts, leaves a manager that the caller destroys, as OUT_OF_MEMORY does.
  kvc_status run(kvc_rebuild* out);

 private:
  struct Seen {  // of an old position
    NodeId tip, down;
    bool reachable, made;
  };
  struct Part {  // tokens of an old position that a new one has
    NodeId old;
    uint32_t begin, new_begin, count;
  };
  struct Leaving {  // an old block of the cached ones
    uint32_t level;
    uint64_t at;     // when, among those of its level, to compare
    uint64_t bonus;  // of `at`: of equal ones that of the lowest shelf leaves first
    uint32_t place;  // in the lists
    BlockId block;
    auto operator<=>(const Leaving&) const = default;
    uint64_t came() const { return at - bonus; }
  };
  struct Taken {  // a new block
    uint64_t came;
    BlockId block;
    NamespaceId ns;
  };
  static constexpr uint32_t kNoGroup = UINT32_MAX;
  static constexpr size_t kMostTokens = 1024;

  Seen& seen(NodeId old) { return seen_[static_cast<size_t>(raw(old))]; }
  uint64_t begin_of(NodeId old) const { return uint64_t{old_tree_[old].depth} * from_.shape_.block_size; }
  uint64_t end_of(NodeId old) const { return begin_of(old) + from_.shape_.block_size; }

  kvc_status carry_namespaces();
  kvc_status carry_pool(size_t pool);
  size_t line_up(size_t pool, Array<Leaving>* line) const;
  void find_reachable();
  bool make_ancestors(NodeId old);
  bool carry(NodeId old, GroupIndex group, uint64_t came);
  bool attach(NodeId node, NodeId old, GroupIndex group, uint64_t came);
  NodeId make_position(NodeId parent, NodeId old, uint64_t position);
  void gather(NodeId old, uint64_t first);
  void gather_keys(NodeId old, uint64_t first);
  void list_copies(GroupIndex group, BlockId to);
  void release(size_t begin, size_t end);
  kvc_status finish();

  const Manager& from_;
  Manager& to_;
  const PrefixTree& old_tree_;
  const Shape& shape_;  // the new one, and its blocks
  Blocks& blocks_;
  kvc_rebuild* out_ = nullptr;

  Array<Seen> seen_;           // by place of the old node
  Array<NamespaceId> new_ns_;  // by index of the old namespace
  Array<Taken> taken_;         // in the reverse order of eviction
  size_t num_taken_ = 0;
  bool out_of_memory_ = false;

  // The new position at hand: its tokens and keys, and where they come from.
  int32_t tokens_[kMostTokens];
  Part parts_[kMostTokens + 1];
  size_t num_parts_ = 0;
  Array<ExtraKey> keys_;
  size_t num_keys_ = 0;
};

}  // namespace kvc
