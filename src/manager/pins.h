// SPDX-License-Identifier: Apache-2.0
// Pins: prefixes kept from eviction. A pin remembers the blocks that it holds, per group and position.
#pragma once
#include "base/handle_table.h"
#include "manager/matcher.h"

namespace kvc {

struct Pin {
  uint64_t id;  // 0 = entry not in use
  uint32_t generation;
  int32_t next_free;
  NamespaceId ns;
  uint32_t length;         // positions
  Buffer<BlockId> blocks;  // [num_token_groups][length], kNoBlock where none is needed
};

using PinTable = HandleTable<Pin, HandleKind::kPin>;

class Pins {
 public:
  Pins(const Shape& shape, Blocks& blocks, Matcher& matcher, Arena& arena)
      : shape_(shape), blocks_(blocks), matcher_(matcher), arena_(arena) {}
  [[nodiscard]] bool create(Memory& memory, IdTag tag) {
    return table_.create(memory, shape_.max_requests, tag.tag, tag.generation);
  }

  const PinTable& table() const { return table_; }
  // Under the manager's lock, as unpin().
  kvc_status pin(LookupScratch& scratch, uint64_t* id, uint64_t* num_pinned);
  kvc_status unpin(uint64_t id);

  // Positions that a pin can keep of the longest hit within `limit`, which come to the arrays. A hit that
  // ends where chunks of all groups begin needs no block: a block of its last position stands in for it.
  // Without one there it is 0.
  size_t find(const Prompt& prompt, size_t limit, NodeId* path, uint32_t* residents) const {
    const size_t length = matcher_.match(prompt, limit, shape_.token_groups(), 0, path, residents, nullptr);
    return length == 0 || stand_in(path, length) < shape_.num_token_groups || needs_any(length) ? length : 0;
  }
  // What pins and registered prompts do with the blocks of the `length` positions that find() gave:
  // [num_token_groups][length]. LIMIT if a block has as many pins as it can have; without room for the
  // namespace what an admission answers.
  kvc_status check(const NodeId* path, size_t length, NamespaceId ns) const;
  bool may_hold(const NodeId* path, size_t length, NamespaceId ns) const {
    return first_full(path, length) == length &&
           (!blocks_.quotas().on() || blocks_.room.fits(demand(path, length), ns, 0));
  }
  void hold(const NodeId* path, size_t length, BlockId* blocks);
  void release(const BlockId* blocks, size_t length);
  // After a pool has shrunk: pins name where their blocks have gone.
  void follow_moves(PoolIndex pool) {
    for (size_t i = 0; i < table_.size(); ++i) {
      const Pin& pin = table_[i];
      if (pin.id != 0)
        blocks_.compactor.follow_moves(pool, pin.blocks.data, size_t{pin.length} * shape_.num_token_groups);
    }
  }

 private:
  bool needs_any(size_t length) const {
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      if (matcher_.needs_position(g, length - 1, length)) return true;
    }
    return false;
  }
  // The group whose block stands in; num_token_groups = none.
  uint32_t stand_in(const NodeId* path, size_t length) const {
    if (needs_any(length)) return shape_.num_token_groups;
    const uint32_t resident = blocks_.readable(path[length - 1], blocks_.retired()) & shape_.token_groups();
    return resident == 0 ? shape_.num_token_groups : first_bit(resident);
  }
  bool holds(GroupIndex group, size_t position, const NodeId* path, size_t length) const {
    return matcher_.needs_position(group, position, length) ||
           (position + 1 == length && group == stand_in(path, length));
  }
  // visit(group, position, block): what a pin holds.
  template <typename Visit>
  void each(const NodeId* path, size_t length, Visit&& visit) const {
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      for (size_t j = 0; j < length; ++j) {
        if (holds(g, j, path, length)) visit(g, j, blocks_.tree().block_of(path[j], g));
      }
    }
  }
  // Position of a block with as many pins as it can have, or `length`.
  size_t first_full(const NodeId* path, size_t length) const;
  Demand demand(const NodeId* path, size_t length) const {
    Demand demand(shape_.num_pools);
    each(path, length, [&](uint32_t, size_t, BlockId block) { demand.add_hit(blocks_.pool()[block]); });
    return demand;
  }

  const Shape& shape_;
  Blocks& blocks_;
  Matcher& matcher_;
  Arena& arena_;
  PinTable table_;
};

}  // namespace kvc
