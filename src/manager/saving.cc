// SPDX-License-Identifier: Apache-2.0
// Blocks whose content is being saved, and blocks that get the content of a checkpoint.
#include "manager/blocks.h"

namespace kvc {
namespace {

bool same(Place a, Place b) { return a.cls == b.cls && a.level == b.level && a.shelf == b.shelf; }

}  // namespace

void Blocks::begin_reading(BlockId id, Reading* reading) {
  Block& block = pool_[id];
  *reading = {id, kNoBlock, 0, block.list == List::kLru};
  if (reading->cached && !pool_.at_end(block.prev)) reading->before = block.prev;
  hit(id);
  if (reading->cached) {
    // A step that is over, and none that a release now would write: so it is seen whether there was a
    // release.
    reading->mark = static_cast<uint32_t>(retired_) - 1;
    block.fence = reading->mark;
  }
  pool_.add_external(block);
}

void Blocks::end_reading(const Reading& reading) {
  const BlockId id = reading.block;
  Block& block = pool_[id];
  if (!pool_.drop_external(block)) return;
  const bool passed = pool_.fence_passed(block, retired_);
  if (!passed) return fence(id);
  if (reading.cached && block.fence == reading.mark && is_node(block.node) && block.next_copy == id &&
      !tree_.stale(tree_[block.node])) {
    const Place place = pool_.has_shelves() ? place_of(block.node) : Place{0, 0, 0};
    const BlockId before = reading.before;
    const bool stands =
        !is_block(before) || (pool_[before].list == List::kLru &&
                              (!pool_.has_shelves() || same(place_of(pool_[before].node), place)));
    if (stands && pool_.put_back(id, before, place)) {
      ++namespaces_.cached(tree_[block.node].ns, block.pool);
      if (quotas_.on()) quotas_.cache_held(id, block.pool);
      if (pool_.counts(block.pool).lru > shape_.max_cached[block.pool]) free_evicted(victim(block.pool));
      return;
    }
  }
  settle(id);
}

void Blocks::take_for_contents(uint32_t pool, size_t count, BlockId* out) {
  const size_t taken = pool_.pop_free(pool, 0, count, out);
  for (size_t i = 0; i < taken; ++i) {
    Block& block = pool_[out[i]];
    if (quotas_.on()) quotas_.take(out[i], pool, 0, kNoPayer);
    block.refs = 0;
    block.external = 1;
  }
}

void Blocks::give_back(BlockId id) {
  pool_.drop_external(pool_[id]);
  free_held(id);
}

void Blocks::attach_taken(NodeId node, uint32_t group, BlockId id, uint32_t uses, uint32_t level,
                          uint64_t until) {
  const uint32_t ns = tree_[node].ns;
  Block& block = pool_[id];
  if (zeroing_.on()) zeroing_.set_owner(id, namespaces_.id(ns));
  if (quotas_.on()) give(id, ns);
  block.group = static_cast<uint8_t>(group);
  pool_.mark_written(block);
  tree_.attach(node, group, id);
  if (tree_.retention().on()) tree_.retention().set(node, level, until);
  for (uint32_t i = 0; tree_.counts_uses() && i < uses && tree_.uses().of(node) < uses; ++i) tree_.use(node);
}

}  // namespace kvc
