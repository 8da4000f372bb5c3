// SPDX-License-Identifier: Apache-2.0
// Cached blocks in several lists: the shelves of a policy (src/pool/policy.h). Not used where one list is
// enough.
#include "manager/blocks.h"

namespace kvc {

void Blocks::pop_victims(uint32_t group, size_t count, BlockId* out) {
  const uint32_t pool = shape_.groups[group].pool;
  for (size_t i = 0; i < count; ++i) {
    out[i] = victim(pool);
    look_ahead(pool, out[i]);
    evict(out[i]);
    pool_.take(out[i], static_cast<uint8_t>(group));
  }
}

// What a reset left behind is as good as free, however often it was used: it leaves before any block that a
// hit can use, as far as it stands first in its list.
BlockId Blocks::victim(uint32_t pool, uint64_t classes) {
  const BlockId stale = stale_head(pool, BlockPool::kAllClasses);
  return is_block(stale) ? stale : pool_.victim(pool, classes);
}

BlockId Blocks::stale_head(uint32_t pool, uint64_t classes) {
  if (!pool_.has_shelves() || pool_.counts(pool).stale == 0) return kNoBlock;
  return pool_.find_head(pool, classes, [&](BlockId id) { return tree_.stale(tree_[pool_[id].node]); });
}

Place Blocks::place_of(NodeId node) const {
  const uint32_t cls = class_of(tree_[node].ns), level = level_of(node);
  if (pool_.num_shelves() == 1) return {cls, level, 0};
  return {cls, level,
          shape_.policy->shelf({tree_.counts_uses() ? tree_.uses().of(node) : 0, num_missing(node)})};
}

void Blocks::shelve(BlockId id) { pool_.push_shelf(id, place_of(pool_[id].node)); }

uint32_t Blocks::num_missing(NodeId node) const {
  const uint32_t resident = tree_[node].resident;
  const uint32_t needed = (resident & shape_.cross_groups) != 0 ? shape_.cross_groups : shape_.full_groups;
  return static_cast<uint32_t>(__builtin_popcount(needed & ~resident));
}

void Blocks::detach_and_sort(BlockId id) {
  const NodeId node = pool_[id].node;
  const uint32_t group = pool_[id].group;
  tree_.detach(id);
  if (shape_.policy->moves_fragments && pool_.num_shelves() != 1) find_fragments(node, group);
}

// A position lost a block of a group, perhaps its first one. What is cached there comes to another shelf.
// Stale blocks stay where they are: free_stale() walks along the shelves.
void Blocks::find_fragments(NodeId node, uint32_t group) {
  const uint32_t bit = 1u << group;
  if (((shape_.full_groups | shape_.cross_groups) & bit) == 0) return;
  if (!tree_.alive(node) || tree_.stale(tree_[node])) return;
  if ((tree_[node].resident & bit) != 0 || num_missing(node) != 1) return;
  each_cached(node, [&](BlockId id) { pool_.reshelve(id, place_of(node)); });
}

}  // namespace kvc
