// SPDX-License-Identifier: Apache-2.0
#include "manager/levels.h"

namespace kvc {

void Levels::set_level(NodeId node, uint32_t level, uint64_t until) {
  const bool moves = s_.tree.notes().level(node) != level;
  s_.tree.notes().retention().set(node, level, until);
  if (moves) cached_.each(node, [&](BlockId id) { s_.pool.shelves().renew(id, cached_.place_of(node)); });
}

// What was demoted and is used again has the usual level.
void Levels::raise(const NodeId* path, size_t length) {
  for (size_t j = length; j-- > 0;) {
    if (s_.tree.notes().level(path[j]) == kDemoted) set_level(path[j], kDefaultLevel, 0);
  }
}

void Levels::hint(NodeId node, uint32_t priority, uint64_t until) {
  if (s_.tree[node].resident == 0) return;
  if (until != 0 && until <= now()) {
    set_level(node, kDefaultLevel, 0);
  } else {
    set_level(node, level_of_priority(priority), until);
  }
}

bool Levels::anyone_holds(NodeId node) const {
  for (uint32_t g = 0; g < s_.shape.num_groups; ++g) {
    const BlockId first = s_.tree.block_of(node, g);
    if (!is_block(first)) continue;
    BlockId id = first;
    do {
      if (s_.pool[id].list == List::kHeld) return true;
      id = s_.pool[id].next_copy;
    } while (id != first);
  }
  return false;
}

size_t Levels::demote(NodeId last, size_t first, uint32_t own_cursors) {
  if (!is_node(last)) return 0;
  size_t count = 0;
  uint32_t cursors = own_cursors + 1;
  s_.tree.hold(last);  // it may be dead
  NodeId below = kNoNode;
  for (NodeId node = last; is_node(node) && s_.tree[node].depth >= first; node = s_.tree[node].parent) {
    if (s_.tree[node].holds != cursors || anyone_holds(node) || !s_.tree.leads_only_to(node, below)) break;
    if (s_.tree[node].resident != 0) {
      set_level(node, kDemoted, 0);
      ++count;
    }
    below = node;
    cursors = 0;
  }
  s_.tree.release(last);
  return count;
}

kvc_status Levels::check_time(uint64_t now_ns) const {
  if (now_ns >= now()) return KVC_OK;
  return invalid("now_ns is %llu, before the last time, %llu; give the time of a monotonic clock",
                 ull(now_ns), ull(now()));
}

// What a reset left behind stays where it is: free_stale() walks along the lists.
void Levels::pass_time(uint64_t now_ns) {
  Retention& retention = s_.tree.notes().retention();
  for (NodeId node = retention.next_ended(now_ns); is_node(node); node = retention.next_ended(now_ns)) {
    if (s_.tree.stale(s_.tree[node])) {
      retention.end(node);
    } else {
      set_level(node, kDefaultLevel, 0);
    }
  }
}

}  // namespace kvc
