// SPDX-License-Identifier: Apache-2.0
#include "manager/blocks.h"

namespace kvc {

bool Blocks::create(Memory& memory, const Env& env, IdTag tag, uint64_t secret) {
  uint64_t origin;
  if (!env.random_bytes(&origin, sizeof origin)) origin = secret + env.wall_clock_ns();
  s_.lineages.begin(origin);
  const Shape& of = s_.shape;
  return s_.pool.create(memory, of.pool_blocks, of.num_pools, of.null_blocks(0) != 0, *of.policy,
                        of.policy_weight, of.division(), of.pool_room) &&
         s_.namespaces.create(memory, s_.arena, s_.events, of.num_pools, tag.tag, tag.generation) &&
         s_.tree.create(memory, of.max_nodes, of.block_size, of.num_groups, env.table_hash_mask, secret,
                        of.policy_history, of.num_levels, of.reuses_heads()) &&
         s_.zeroing.create(memory, of.flags, s_.pool.num_ids()) &&
         s_.quotas.create(memory, of.num_classes - 1, s_.pool);
}

BlockId Blocks::take_copy(GroupIndex group, NamespaceId ns, bool written) {
  BlockId id;
  cached.pop(group, ns, 1, &id);
  s_.zeroing.overwrite(id, s_.namespaces.id(ns));
  if (written) s_.pool.mark_written(s_.pool[id]);
  return id;
}

void Blocks::take_external(GroupIndex group, size_t count, BlockId* out) {
  cached.pop(group, kNoNamespace, count, out);
  s_.zeroing.hand_over(out, count, Zeroing::kExternal);
  for (size_t i = 0; i < count; ++i) {
    s_.pool[out[i]].refs = 0;
    s_.pool[out[i]].external = 1;
  }
}

void Blocks::take_for_contents(PoolIndex pool, size_t count, BlockId* out) {
  const size_t taken = s_.pool.pop_free(pool, 0, count, out);
  for (size_t i = 0; i < taken; ++i) {
    Block& block = s_.pool[out[i]];
    s_.quotas.take(out[i], pool, 0, kNoPayer);
    block.refs = 0;
    block.external = 1;
  }
}

void Blocks::hold_run(GroupIndex group, const NodeId* path, size_t count, NamespaceId ns, BlockId* out) {
  const bool plain = !s_.quotas.on() && s_.pool.filling().size() == 0;
  BlockPool::LruLeaver leaver(s_.pool, s_.shape.groups[group].pool);
  for (size_t i = 0; i < count; ++i) {
    const BlockId id = out[i] = s_.tree.block_of(path[i], group);
    Block& block = s_.pool[id];
    if (plain && block.list == List::kLru)
      leaver.take(block);
    else
      hit(id);
    s_.pool.add_ref(block);
  }
  s_.namespaces.cached(ns, s_.shape.groups[group].pool) -= leaver.count();
}

uint32_t Blocks::written(NodeId node, uint64_t step) const {
  uint32_t groups = s_.tree[node].resident;
  for (const uint32_t g : bits_of(groups)) {
    const BlockId block = s_.tree.block_of(node, g);
    if (s_.pool.is_filling(block) && !s_.pool.filling().over(block, step)) groups &= ~(1u << g);
  }
  return groups;
}

void Blocks::release(BlockId id, Keep keep, NamespaceId ns, bool stale) {
  Block& block = s_.pool[id];
  if (!drop_ref(block)) return;
  if (keep == Keep::kNot && is_node(block.node)) cached.detach(id);
  block.leaves_first = keep == Keep::kFirstOut && is_node(block.node);
  if (fencing()) {
    fence(id);
  } else if (block.content == Content::kFilling) [[unlikely]] {
    take_back(id);
  } else if (!is_node(block.node)) {
    free_held(id);
  } else {
    settle_published(id, ns, stale);
  }
}

// Frees a block whose step is not over, and that nobody waits for.
void Blocks::take_back(BlockId id) {
  s_.pool.filling().end_released(s_.pool[id], Content::kEmpty);
  if (is_node(s_.pool[id].node)) cached.detach(id);
  free_held(id);
}

// While no step is in flight, published sole copies go to LRU in one sweep.
void Blocks::release_run(GroupIndex group, const BlockId* blocks, size_t begin, size_t end, NamespaceId ns) {
  constexpr size_t kAhead = 8;
  const PoolIndex pool = s_.shape.groups[group].pool;
  const bool sweeps = !fencing() && !s_.pool.shelves().on();
  for (size_t j = end; j != begin;) {
    {
      BlockPool::LruAppender lru(s_.pool, pool);
      for (; sweeps && j != begin; --j) {
        const BlockId id = blocks[j - 1];
        if (j > kAhead) s_.pool.prefetch(blocks[j - 1 - kAhead]);
        Block& block = s_.pool[id];
        if (!is_node(block.node) || block.next_copy != id || block.content == Content::kFilling) break;
        if (drop_ref(block)) lru.append(id, block);
      }
      s_.namespaces.cached(ns, pool) += lru.count();
    }
    if (j != begin) release(blocks[--j], Keep::kPublished, ns, false);
  }
}

// A block that is not published now may hold anything that its holder wrote, even if it was published before.
void Blocks::release_external(BlockId id) {
  Block& block = s_.pool[id];
  if (s_.zeroing.on() && (!is_node(block.node) || s_.tree.stale(s_.tree[block.node])))
    s_.zeroing.set_owner(id, Zeroing::kExternal);
  if (s_.pool.drop_external(block)) {
    place(id);
  } else {
    note_release(block, issued_);
  }
}

void Blocks::place(BlockId id) {
  if (fencing()) {
    fence(id);
  } else {
    settle(id);
  }
}

void Blocks::settle(BlockId id) {
  const NodeId node = s_.pool[id].node;
  if (s_.pool.is_filling(id)) [[unlikely]] {
    take_back(id);
  } else if (!is_node(node)) {
    free_held(id);
  } else {
    settle_published(id, s_.tree[node].ns, s_.tree.stale(s_.tree[node]));
  }
}

void Blocks::settle_published(BlockId id, NamespaceId ns, bool stale) {
  const Block& block = s_.pool[id];
  if (stale) {
    cached.detach(id);
    free_held(id);
    return;
  }
  if (block.next_copy != id) {
    if (const BlockId other = s_.tree.copies().idle(id); is_block(other)) {  // one idle copy is enough
      s_.tree.detach(id);
      free_held(id);
      s_.pool.remove(other);
      s_.pool[other].leaves_first = 0;
      cached.push(other);
      return;
    }
  }
  cached.push(id);
  if (block.next_copy != id) s_.tree.copies().make_idle(id);
  ++s_.namespaces.cached(ns, block.pool);
  s_.quotas.cache_held(id, block.pool);
  if (s_.pool.counts(block.pool).lru > s_.shape.max_cached[block.pool]) [[unlikely]]
    cached.free_evicted(cached.victim(block.pool));
}

void Blocks::settle_fenced(uint64_t step_id) {
  retired_ = step_id;
  for (size_t p = 0; p < s_.shape.num_pools; ++p) {
    while (s_.pool.counts(p).fenced != 0 && s_.pool.fence_passed(s_.pool[s_.pool.fenced_head(p)], retired_)) {
      const BlockId id = s_.pool.fenced_head(p);
      s_.pool.remove(id);
      s_.quotas.leave_fence(id, p);
      if (s_.pool.is_filling(id) && s_.pool.filling().over(id, retired_)) [[unlikely]]
        s_.pool.filling().end_released(s_.pool[id], Content::kWritten);
      settle(id);
    }
    s_.pool.filling().retire(p, retired_);
  }
}

// In the order of lists: that of ids is decided by other namespaces.
void Blocks::fail_fills(uint64_t step_id) {
  const auto each_failing = [&](BlockId first, auto&& fail) {
    for (BlockId id = first, next; !s_.pool.at_end(id); id = next) {
      next = s_.pool[id].next;
      if (!s_.pool.is_filling(id) ||
          static_cast<int32_t>(s_.pool.filling().step(id) - static_cast<uint32_t>(step_id)) < 0)
        continue;
      fail(id);
      if (is_node(s_.pool[id].node)) cached.detach(id);
    }
  };
  for (size_t p = 0; p < s_.shape.num_pools; ++p) {
    each_failing(s_.pool.filling().head(p), [&](BlockId id) { s_.pool.filling().fail(id); });
    each_failing(s_.pool.fenced_head(p),
                 [&](BlockId id) { s_.pool.filling().end_released(s_.pool[id], Content::kEmpty); });
  }
}

}  // namespace kvc
