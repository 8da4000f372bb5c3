// SPDX-License-Identifier: Apache-2.0
// Taking and returning blocks: the only code that moves blocks between FREE, LRU, FENCED and their holders.
#include "manager/manager.h"

namespace kvc {
namespace {
thread_local uint64_t missing_blocks = 0;
}

// Coming victims are fetched in stages, each when the one before has arrived: the block, its node, the node's
// bucket, the chain that it ends. The stages go on from call to call. All are hints: a block may have another
// node by then, or none.
inline void Manager::look_ahead(uint32_t pool, BlockId victim) {
  constexpr uint32_t kNode = 10, kBucket = 18, kChain = 25;
  LookAhead& ahead = ahead_[pool];
  const uint32_t now = ahead.count++;
  Coming& block = ahead.coming[now % LookAhead::kSize];
  block.block = pool_.skip(pool_[victim]);
  pool_.prefetch(block.block);
  Coming& node = ahead.coming[(now - kNode) % LookAhead::kSize];
  node.node = pool_[node.block].node;
  if (is_node(node.node)) tree_.prefetch_node(node.node);
  Coming& bucket = ahead.coming[(now - kBucket) % LookAhead::kSize];
  if (is_node(bucket.node)) bucket.bucket = tree_.prefetch_bucket_of(bucket.node);
  tree_.prefetch_chain(ahead.coming[(now - kChain) % LookAhead::kSize].bucket);
}

// Detaches the block at the head of LRU and counts it; it stays in the list.
void Manager::evict(BlockId victim) {
  const Block& block = pool_[victim];
  const Node& node = tree_[block.node];
  if (tree_.stale(node)) [[unlikely]] {
    --pool_.counts(block.pool).stale;
  } else {
    --namespaces_.cached(node.ns, block.pool);
    ++counters_.evictions;
  }
  tree_.detach(victim);
}

// There must be `count` available blocks in the group's pool.
void Manager::pop_blocks(uint32_t group, size_t count, BlockId* out) {
  const uint32_t pool = shape_.groups[group].pool;
  const auto group_byte = static_cast<uint8_t>(group);
  size_t i = 0;
  while (i < count && pool_.counts(pool).free != 0) out[i++] = pool_.pop_free(pool, group_byte);
  if (i == count) return;

  BlockPool::LruTaker lru(pool_, pool, group_byte);
  for (; i < count; ++i) {
    const BlockId victim = out[i] = lru.head();
    look_ahead(pool, victim);
    evict(victim);
    lru.take();
  }
}

void Manager::place(BlockId id) {
  if (issued_ > retired_) {
    pool_.push_fenced(id, issued_);
  } else {
    settle(id);
  }
}

void Manager::place(BlockId id, uint32_t ns, bool stale) {
  if (issued_ > retired_) {
    pool_.push_fenced(id, issued_);
  } else {
    settle(id, ns, stale);
  }
}

void Manager::settle(BlockId id) {
  const NodeId node = pool_[id].node;
  if (!is_node(node)) {
    pool_.push_free(id);
  } else {
    settle(id, tree_[node].ns, tree_.stale(tree_[node]));
  }
}

// `ns` and `stale` are those of the block's node, if it has one.
void Manager::settle(BlockId id, uint32_t ns, bool stale) {
  Block& block = pool_[id];
  if (!is_node(block.node)) {
    pool_.push_free(id);
    return;
  }
  if (stale) {
    tree_.detach(id);
    pool_.push_free(id);
    return;
  }
  BlockId kept = id;
  if (block.next_copy != id) {
    const BlockId other = tree_.idle_copy(id);
    if (is_block(other)) {  // one idle copy is enough: the lowest, at the newest place
      pool_.remove(other);
      --namespaces_.cached(ns, block.pool);
      kept = raw(other) < raw(id) ? other : id;
      const BlockId given_up = kept == id ? other : id;
      tree_.detach(given_up);
      pool_.push_free(given_up);
    }
  }
  pool_.push_lru(kept);
  if (pool_[kept].next_copy != kept) tree_.make_idle(kept);
  ++namespaces_.cached(ns, block.pool);
}

void Manager::retire(uint64_t step_id) {
  if (step_id <= retired_) return;
  retired_ = step_id;
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    while (pool_.counts(p).fenced != 0 && pool_.fence_passed(pool_[pool_.fenced_head(p)], retired_)) {
      const BlockId id = pool_.fenced_head(p);
      pool_.remove(id);
      settle(id);
    }
  }
}

uint64_t Manager::last_shortage() { return missing_blocks; }

// OK if every pool has what is wanted of it and the watermark; AGAIN if what is fenced would fill every gap;
// else NO_SPACE.
kvc_status Manager::shortage(const Demand& demand, uint64_t watermark, const char* who) {
  size_t short_pool = kMaxPools;
  bool again = true;
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    const PoolCounts& pool = pool_.counts(p);
    const uint64_t wanted = demand.blocks[p] == 0 ? 0 : demand.blocks[p] + watermark;
    if (wanted <= pool.available()) continue;
    const bool fence_helps = wanted <= pool.available() + pool.fenced - demand.fenced_hits[p];
    if (short_pool == kMaxPools || (again && !fence_helps)) short_pool = p;  // the one that decides
    again = again && fence_helps;
  }
  if (short_pool == kMaxPools) return KVC_OK;
  const PoolCounts& pool = pool_.counts(short_pool);
  const uint64_t wanted = demand.blocks[short_pool] + watermark;
  missing_blocks = wanted - pool.available();
  return fail(again ? KVC_ERROR_AGAIN : KVC_ERROR_NO_SPACE,
              "%s needs %llu blocks of pool %zu (watermark %llu included), %llu of %llu are available and "
              "%llu fenced; %s",
              who, static_cast<unsigned long long>(wanted), short_pool,
              static_cast<unsigned long long>(watermark), static_cast<unsigned long long>(pool.available()),
              static_cast<unsigned long long>(pool.size), static_cast<unsigned long long>(pool.fenced),
              again ? "retire a step" : "free or preempt requests, or enlarge the pool");
}

}  // namespace kvc
