// SPDX-License-Identifier: Apache-2.0
#include "manager/checkpoint_blocks.h"

namespace kvc {

void CheckpointBlocks::begin_reading(BlockId id, Reading* reading) {
  Block& block = s_.pool[id];
  *reading = {id, kNoBlock, block.fence, block.list, block.leaves_first != 0};
  if (block.list != List::kHeld && !s_.pool.at_end(block.prev)) reading->before = block.prev;
  blocks_.hit(id);
  if (reading->list == List::kLru) {
    // A step that is over, and none that a release now would write: so it is seen whether there was a
    // release.
    reading->mark = static_cast<uint32_t>(blocks_.retired_) - 1;
    block.fence = reading->mark;
  }
  s_.pool.add_external(block);
}

// Whether a block that nobody has used stands where it stood.
bool CheckpointBlocks::put_back(const Reading& reading) {
  const BlockId id = reading.block, before = reading.before;
  Block& block = s_.pool[id];
  if (reading.list == List::kHeld || block.fence != reading.mark || !is_node(block.node) ||
      s_.tree.stale(s_.tree[block.node]) || (is_block(before) && s_.pool[before].list != reading.list))
    return false;
  if (reading.list == List::kFenced) {
    if (s_.pool.fence_passed(block, blocks_.retired_) || !s_.pool.put_back_fenced(id, before)) return false;
    s_.quotas.fence(id, block.pool);
  } else {
    if (block.next_copy != id && is_block(s_.tree.copies().idle(id))) return false;
    const Place place = cached_.place_of(block.node);
    if (is_block(before) && cached_.place_of(s_.pool[before].node) != place) return false;
    if (!s_.pool.put_back(id, before, place)) return false;
    if (block.next_copy != id) s_.tree.copies().make_idle(id);
    ++s_.namespaces.cached(s_.tree[block.node].ns, block.pool);
    s_.quotas.cache_held(id, block.pool);
  }
  block.leaves_first = reading.leaves_first;
  if (s_.pool.counts(block.pool).lru > s_.shape.max_cached[block.pool])
    cached_.free_evicted(cached_.victim(block.pool));
  return true;
}

void CheckpointBlocks::end_reading(const Reading& reading) {
  Block& block = s_.pool[reading.block];
  if (!s_.pool.drop_external(block) || put_back(reading)) return;
  if (s_.pool.fence_passed(block, blocks_.retired_))
    blocks_.settle(reading.block);
  else
    blocks_.fence(reading.block);
}

void CheckpointBlocks::take_for_contents(PoolIndex pool, size_t count, BlockId* out) {
  const size_t taken = s_.pool.pop_free(pool, 0, count, out);
  for (size_t i = 0; i < taken; ++i) {
    Block& block = s_.pool[out[i]];
    s_.quotas.take(out[i], pool, 0, kNoPayer);
    block.refs = 0;
    block.external = 1;
  }
}

void CheckpointBlocks::give_back(BlockId id) {
  s_.pool.drop_external(s_.pool[id]);
  blocks_.free_held(id);
}

}  // namespace kvc
