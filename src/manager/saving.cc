// SPDX-License-Identifier: Apache-2.0
// Blocks whose content is being saved, and blocks that get the content of a checkpoint.
#include "manager/blocks.h"

namespace kvc {
namespace {

bool same(Place a, Place b) { return a.cls == b.cls && a.level == b.level && a.shelf == b.shelf; }

}  // namespace

void Blocks::begin_reading(BlockId id, Reading* reading) {
  Block& block = pool_[id];
  *reading = {id, kNoBlock, block.fence, block.list, block.leaves_first != 0};
  if (block.list != List::kHeld && !pool_.at_end(block.prev)) reading->before = block.prev;
  hit(id);
  if (reading->list == List::kLru) {
    // A step that is over, and none that a release now would write: so it is seen whether there was a
    // release.
    reading->mark = static_cast<uint32_t>(retired_) - 1;
    block.fence = reading->mark;
  }
  pool_.add_external(block);
}

// Whether a block that nobody has used stands where it stood.
bool Blocks::put_back(const Reading& reading) {
  const BlockId id = reading.block, before = reading.before;
  Block& block = pool_[id];
  if (reading.list == List::kHeld || block.fence != reading.mark || !is_node(block.node) ||
      tree_.stale(tree_[block.node]) || (is_block(before) && pool_[before].list != reading.list))
    return false;
  if (reading.list == List::kFenced) {
    if (pool_.fence_passed(block, retired_) || !pool_.put_back_fenced(id, before)) return false;
    if (quotas_.on()) quotas_.fence(id, block.pool);
  } else {
    if (block.next_copy != id && is_block(tree_.idle_copy(id))) return false;
    const Place place = pool_.has_shelves() ? place_of(block.node) : Place{0, 0, 0};
    if (is_block(before) && pool_.has_shelves() && !same(place_of(pool_[before].node), place)) return false;
    if (!pool_.put_back(id, before, place)) return false;
    if (block.next_copy != id) tree_.make_idle(id);
    ++namespaces_.cached(tree_[block.node].ns, block.pool);
    if (quotas_.on()) quotas_.cache_held(id, block.pool);
  }
  block.leaves_first = reading.leaves_first;
  if (pool_.counts(block.pool).lru > shape_.max_cached[block.pool]) free_evicted(victim(block.pool));
  return true;
}

void Blocks::end_reading(const Reading& reading) {
  Block& block = pool_[reading.block];
  if (!pool_.drop_external(block) || put_back(reading)) return;
  if (pool_.fence_passed(block, retired_))
    settle(reading.block);
  else
    fence(reading.block);
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
