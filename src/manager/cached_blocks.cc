// SPDX-License-Identifier: Apache-2.0
#include "manager/cached_blocks.h"

namespace kvc {

// Fetches the blocks that will be evicted next in stages, each when the one before has arrived: the block,
// its node, the node's bucket, the chain that it ends. The stages go on from call to call. All are hints: a
// block may have another node by then, or none.
inline void CachedBlocks::look_ahead(PoolIndex pool, BlockId victim) {
  constexpr uint32_t kNode = 10, kBucket = 18, kChain = 25;
  LookAhead& ahead = ahead_[pool];
  const uint32_t now = ahead.count++;
  Coming& block = ahead.coming[now % LookAhead::kSize];
  block.block = s_.pool.skip(s_.pool[victim]);
  s_.pool.prefetch(block.block);
  Coming& node = ahead.coming[(now - kNode) % LookAhead::kSize];
  node.node = s_.pool[node.block].node;
  if (is_node(node.node)) s_.tree.prefetch_node(node.node);
  Coming& bucket = ahead.coming[(now - kBucket) % LookAhead::kSize];
  if (is_node(bucket.node)) {
    bucket.bucket = s_.tree.prefetch_bucket_of(bucket.node);
    s_.tree.notes().prefetch(bucket.node);
  }
  s_.tree.prefetch_chain(ahead.coming[(now - kChain) % LookAhead::kSize].bucket);
}

void CachedBlocks::evict(BlockId victim, uint64_t evictions) {
  Block& block = s_.pool[victim];
  const Node& node = s_.tree[block.node];
  if (s_.tree.stale(node)) [[unlikely]] {
    --s_.pool.counts(block.pool).stale;
  } else {
    --s_.namespaces.cached(node.ns, block.pool);
    s_.quotas.free_cached(victim, block.pool);
    s_.counters.evictions += evictions;
  }
  detach(victim);
}

void CachedBlocks::free(BlockId id, uint64_t evictions) {
  evict(id, evictions);
  s_.pool.remove(id);
  s_.pool.push_free(id);
}

size_t CachedBlocks::evict_oldest(size_t first, size_t end, size_t max_blocks) {
  const uint64_t before = s_.counters.evictions;  // stale blocks do not count
  for (auto p = static_cast<uint32_t>(first); p < end; ++p) {
    while (s_.counters.evictions - before < max_blocks && s_.pool.counts(p).lru != 0) free_evicted(victim(p));
  }
  return s_.counters.evictions - before;
}

void CachedBlocks::pop(GroupIndex group, NamespaceId ns, size_t count, BlockId* out) {
  if (s_.pool.shelves().on()) [[unlikely]]
    return pop_sorted(group, ns, count, out);
  const PoolIndex pool = s_.shape.groups[group].pool;
  const auto group_byte = static_cast<uint8_t>(group);
  size_t i = s_.pool.pop_free(pool, group_byte, count, out);
  if (i == count) return;
  const bool plain = s_.tree.is_plain();
  BlockState& s = s_;
  const auto evict_only = [&s](BlockId victim) {  // evict() of the only block of a position in a plain tree
    Block& block = s.pool[victim];
    const Node& node = s.tree[block.node];
    if (block.next_copy != victim || s.tree.stale(node)) return false;
    --s.namespaces.cached(node.ns, block.pool);
    ++s.counters.evictions;
    s.tree.detach_only(std::exchange(block.node, kNoNode));
    return true;
  };
  BlockPool::LruTaker lru(s_.pool, pool, group_byte);
  for (; i < count; ++i) {
    const BlockId victim = out[i] = lru.head();
    look_ahead(pool, victim);
    if (!plain || !evict_only(victim)) evict(victim);
    lru.take();
  }
}

// Where there are several lists. At its maximum a namespace evicts its own blocks, so that its cache costs
// nobody else anything.
void CachedBlocks::pop_sorted(GroupIndex group, NamespaceId ns, size_t count, BlockId* out) {
  const PoolIndex pool = s_.shape.groups[group].pool;
  const ClassIndex cls = s_.class_of(ns);
  const uint64_t payer = ns == kNoNamespace ? kNoPayer : s_.namespaces.id(ns), max = s_.quotas.max(cls, pool);
  for (size_t i = 0; i < count; ++i) {
    if (max != Quotas::kNoMaximum) keep_to_maximum(cls, pool, max - 1);
    if (s_.pool.pop_free(pool, static_cast<uint8_t>(group), 1, &out[i]) == 0) {
      out[i] = victim(pool, evictable(ns, pool));
      look_ahead(pool, out[i]);
      evict(out[i]);
      s_.pool.take(out[i], static_cast<uint8_t>(group));
    }
    s_.quotas.take(out[i], pool, cls, payer);
  }
}

void CachedBlocks::keep_to_maximum(ClassIndex cls, PoolIndex pool, uint64_t most) {
  const Quotas::Share& share = s_.quotas.share(cls, pool);
  const uint64_t own = uint64_t{1} << cls;
  while (share.used() > most && share.cached != 0) {
    const BlockId stale = stale_head(pool, own);
    free_evicted(is_block(stale) ? stale : s_.pool.victim(pool, own));
  }
}

bool CachedBlocks::evict_for_node(NamespaceId ns) {
  if (!s_.shape.has_hints()) return false;
  constexpr size_t kMost = 256;  // victims
  size_t evicted = 0;
  for (uint32_t p = 0; p < s_.shape.num_pools; ++p) {
    const uint64_t classes = evictable(ns, p);
    while (evicted < kMost) {
      if (s_.tree.has_room()) return true;
      const BlockId leaves = victim(p, classes);
      if (!is_block(leaves)) break;
      free_evicted(leaves);
      ++evicted;
    }
  }
  return s_.tree.has_room();
}

bool CachedBlocks::evict_position(NamespaceId ns) {
  BlockId leaves = kNoBlock;
  uint64_t most = 0;
  for (uint32_t p = 0; p < s_.shape.num_pools; ++p) {
    const uint64_t cached = s_.pool.counts(p).lru;
    if (cached <= most) continue;
    if (const BlockId block = victim(p, evictable(ns, p)); is_block(block)) leaves = block, most = cached;
  }
  if (!is_block(leaves)) return false;
  const NodeId node = s_.pool[leaves].node;
  const uint64_t cls = uint64_t{1} << s_.class_of(s_.tree[node].ns);
  s_.tree.hold(node);
  each(node, [&](BlockId id) {
    if (id == leaves || s_.tree.stale(s_.tree[node]) || (evictable(ns, s_.pool[id].pool) & cls) != 0)
      free_evicted(id);
  });
  s_.tree.release(node);
  return true;
}

// What a reset left in LRU is not worth moving.
void CachedBlocks::free_stale(PoolIndex pool) {
  for (uint32_t list = 0; list < s_.pool.shelves().num_lists(); ++list) {
    for (BlockId id = s_.pool.lru_head(pool, list); !s_.pool.at_end(id) && s_.pool.counts(pool).stale != 0;) {
      const BlockId next = s_.pool[id].next;
      if (s_.tree.stale(s_.tree[s_.pool[id].node])) free_evicted(id);
      id = next;
    }
  }
}

// What a reset left behind is as good as free, however often it was used: it leaves before any block that a
// hit can use, as far as it stands first in its list.
BlockId CachedBlocks::victim(PoolIndex pool, uint64_t classes) {
  const BlockId stale = stale_head(pool, Shelves::kAllClasses);
  return is_block(stale) ? stale : s_.pool.victim(pool, classes);
}

BlockId CachedBlocks::stale_head(PoolIndex pool, uint64_t classes) {
  if (s_.pool.counts(pool).stale == 0) return kNoBlock;
  return s_.pool.shelves().find_head(pool, classes,
                                     [&](BlockId id) { return s_.tree.stale(s_.tree[s_.pool[id].node]); });
}

Place CachedBlocks::place_of(NodeId node) const {
  const ClassIndex cls = s_.class_of(s_.tree[node].ns);
  const uint32_t level = s_.tree.notes().level(node);
  if (s_.pool.shelves().num_shelves() == 1) return {cls, level, 0};
  return {cls, level, s_.shape.policy->shelf({s_.tree.notes().uses().of(node), num_missing(node)})};
}

// If the position is not whole any more, what is cached there comes to another shelf. Stale blocks stay where
// they are: free_stale() walks along the shelves.
void CachedBlocks::detach_and_sort(BlockId id) {
  const NodeId node = s_.pool[id].node;
  const uint32_t bit = 1u << s_.pool[id].group;
  s_.tree.detach(id);
  if ((s_.shape.whole_groups(bit) & bit) == 0) return;
  if (!s_.tree.alive(node) || s_.tree.stale(s_.tree[node])) return;
  if ((s_.tree[node].resident & bit) != 0 || num_missing(node) != 1) return;
  each(node, [&](BlockId other) { s_.pool.shelves().reshelve(other, place_of(node)); });
}

// What was demoted and is used again has the usual level.
void CachedBlocks::raise(const NodeId* path, size_t length) {
  for (size_t j = length; j-- > 0;) {
    if (s_.tree.notes().level(path[j]) == kDemoted) set_level(path[j], kDefaultLevel, 0);
  }
}

void CachedBlocks::hint(NodeId node, uint32_t priority, uint64_t until) {
  if (s_.tree[node].resident == 0) return;
  if (until != 0 && until <= now()) {
    set_level(node, kDefaultLevel, 0);
  } else {
    set_level(node, level_of_priority(priority), until);
  }
}

bool CachedBlocks::anyone_holds(NodeId node) const {
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

size_t CachedBlocks::demote(NodeId last, size_t first, uint32_t own_cursors) {
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

// What a reset left behind stays where it is: free_stale() walks along the lists.
void CachedBlocks::pass_time(uint64_t now_ns) {
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
