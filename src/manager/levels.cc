// SPDX-License-Identifier: Apache-2.0
// Levels of positions: hints, demotions, and the time that ends them. A cached block whose level changes goes
// to the end of its new list, as if it were released now; of several positions the last one goes first.
#include "manager/blocks.h"

namespace kvc {

void Blocks::set_level(NodeId node, uint32_t level, uint64_t until) {
  const bool moves = level_of(node) != level;
  tree_.retention().set(node, level, until);
  if (moves) each_cached(node, [&](BlockId id) { pool_.renew(id, place_of(node)); });
}

void Blocks::use_annotated(const NodeId* path, size_t length) {
  if (tree_.counts_uses()) {
    for (size_t j = 0; j < length; ++j) tree_.use(path[j]);
  }
  if (!tree_.retention().on()) return;
  for (size_t j = length; j-- > 0;) {
    if (level_of(path[j]) == kDemoted) set_level(path[j], kDefaultLevel, 0);
  }
}

void Blocks::hint(NodeId node, uint32_t priority, uint64_t until) {
  if (tree_[node].resident == 0) return;
  if (until != 0 && until <= now()) {
    set_level(node, kDefaultLevel, 0);
  } else {
    set_level(node, level_of_priority(priority), until);
  }
}

bool Blocks::anyone_holds(NodeId node) const {
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    const BlockId first = tree_.block_of(node, g);
    if (!is_block(first)) continue;
    BlockId id = first;
    do {
      if (pool_[id].list == List::kHeld) return true;
      id = pool_[id].next_copy;
    } while (id != first);
  }
  return false;
}

size_t Blocks::demote(NodeId last, size_t first, uint32_t own_cursors) {
  if (!is_node(last)) return 0;
  size_t count = 0;
  uint32_t cursors = own_cursors + 1;
  tree_.hold(last);  // it may be dead
  NodeId below = kNoNode;
  for (NodeId node = last; is_node(node) && tree_[node].depth >= first; node = tree_[node].parent) {
    if (tree_[node].holds != cursors || anyone_holds(node) || !tree_.leads_only_to(node, below)) break;
    if (tree_[node].resident != 0) {
      set_level(node, kDemoted, 0);
      ++count;
    }
    below = node;
    cursors = 0;
  }
  tree_.release(last);
  return count;
}

bool Blocks::evict_for_node(uint32_t ns) {
  if (!shape_.has_hints()) return false;
  constexpr size_t kMost = 256;  // victims
  size_t evicted = 0;
  for (uint32_t p = 0; p < shape_.num_pools; ++p) {
    const uint64_t classes = quotas_.on() ? quotas_.evictable(class_of(ns), p) : BlockPool::kAllClasses;
    while (evicted < kMost) {
      if (tree_.has_room()) return true;
      const BlockId leaves = victim(p, classes);
      if (!is_block(leaves)) break;
      free_evicted(leaves);
      ++evicted;
    }
  }
  return tree_.has_room();
}

kvc_status Blocks::check_time(uint64_t now_ns) const {
  if (now_ns >= now()) return KVC_OK;
  return invalid("now_ns is %llu, before the last time, %llu; give the time of a monotonic clock",
                 ull(now_ns), ull(now()));
}

// What a reset left behind stays where it is: free_stale() walks along the lists.
void Blocks::pass_time(uint64_t now_ns) {
  Retention& retention = tree_.retention();
  for (NodeId node = retention.next_ended(now_ns); is_node(node); node = retention.next_ended(now_ns)) {
    if (tree_.stale(tree_[node])) {
      retention.end(node);
    } else {
      set_level(node, kDefaultLevel, 0);
    }
  }
}

}  // namespace kvc
