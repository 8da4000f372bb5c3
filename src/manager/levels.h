// SPDX-License-Identifier: Apache-2.0
// Uses and levels of positions: hints, demotions, and the time that ends them. A cached block whose level
// changes goes to the end of its new list, as if it were released now; of several positions the last one goes
// first. Under the manager's lock.
#pragma once
#include "manager/cached_blocks.h"

namespace kvc {

class Levels {
 public:
  Levels(BlockState& state, CachedBlocks& cached) : s_(state), cached_(cached) {}

  // The positions of a hit, or of what a request publishes, from the first on, were used once more.
  void use(const NodeId* path, size_t length) {
    if (s_.tree.notes().use(path, length)) [[unlikely]]
      raise(path, length);
  }
  uint64_t now() const { return s_.tree.notes().retention().deadlines().now(); }
  kvc_status check_time(uint64_t now_ns) const;
  // Ends the hints whose time has passed; the time is right.
  void pass_time(uint64_t now_ns);
  // A position takes a hint, unless it has no block.
  void hint(NodeId node, uint32_t priority, uint64_t until);
  // Demotes positions from `last` upwards to position `first`, as long as they lead to nothing else and
  // nobody holds a block or, but for `own_cursors` at `last`, is there. Returns how many.
  size_t demote(NodeId last, size_t first, uint32_t own_cursors);

 private:
  [[gnu::noinline]] void raise(const NodeId* path, size_t length);
  void set_level(NodeId node, uint32_t level, uint64_t until);
  bool anyone_holds(NodeId node) const;

  BlockState& s_;
  CachedBlocks& cached_;
};

}  // namespace kvc
