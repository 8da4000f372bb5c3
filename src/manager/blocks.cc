// SPDX-License-Identifier: Apache-2.0
#include "manager/blocks.h"

#include <kvcache/prefix.h>

namespace kvc {
namespace {
thread_local uint64_t missing_blocks = 0;
}

bool Blocks::create(Memory& memory, const Env& env, IdTag tag, uint64_t secret) {
  if (!env.random_bytes(&origin_, sizeof origin_)) origin_ = secret + env.wall_clock_ns();
  return pool_.create(memory, shape_.pool_blocks, shape_.num_pools,
                      (shape_.flags & KVC_MANAGER_NULL_BLOCK) != 0, *shape_.policy, shape_.policy_weight,
                      {shape_.num_classes, shape_.num_levels, shape_.has_fills()}, shape_.pool_room) &&
         namespaces_.create(memory, arena_, events_, shape_.num_pools, tag.tag, tag.generation) &&
         tree_.create(memory, shape_.max_nodes, shape_.block_size, shape_.num_groups, env.table_hash_mask,
                      secret, shape_.policy_history, shape_.has_hints(), shape_.reuses_heads()) &&
         zeroing_.create(memory, shape_.flags, pool_.num_ids()) &&
         quotas_.create(memory, shape_.num_classes - 1, pool_);
}

void Demand::answer_probe(const uint64_t* available, size_t num_pools, uint64_t watermark,
                          kvc_probe_info* info) const {
  const auto slack = [&](size_t p) {
    return static_cast<int64_t>(available[p]) - static_cast<int64_t>(blocks[p]);
  };
  size_t tightest = 0;
  info->fits = 1;
  for (size_t p = 0; p < num_pools; ++p) {
    if (slack(p) < slack(tightest)) tightest = p;
    if (wanted(p, watermark) > available[p]) info->fits = 0;
  }
  info->blocks_needed = blocks[tightest];
  info->blocks_available = available[tightest];
}

uint64_t Blocks::last_shortage() { return missing_blocks; }
void Blocks::note_shortage(uint64_t blocks) { missing_blocks = blocks; }

kvc_status Blocks::check_pools(const Demand& demand, uint64_t watermark, const char* who) const {
  size_t short_pool = kMaxPools;
  bool again = true;
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    const PoolCounts& pool = pool_.counts(p);
    const uint64_t wanted = demand.wanted(p, watermark);
    if (wanted <= pool.available()) continue;
    const bool fence_helps = wanted <= pool.available() + pool.fenced - demand.fenced_hits[p];
    if (short_pool == kMaxPools || (again && !fence_helps)) short_pool = p;  // the one that decides
    again = again && fence_helps;
  }
  if (short_pool == kMaxPools) return KVC_OK;
  const PoolCounts& pool = pool_.counts(short_pool);
  const char* fix = "free or preempt requests, or enlarge the pool";
  if (demand.blocks[short_pool] > pool.size && shape_.window_groups != 0) {
    fix = "it can never fit at once: take smaller steps (slots, kvc_step.admit_slots), or enlarge the pool";
  }
  return refuse(again ? KVC_ERROR_AGAIN : KVC_ERROR_NO_SPACE, demand, short_pool, watermark, pool.available(),
                who, fix);
}

kvc_status Blocks::refuse(kvc_status status, const Demand& demand, size_t pool, uint64_t watermark,
                          uint64_t room, const char* who, const char* fix) const {
  const PoolCounts& counts = pool_.counts(pool);
  const uint64_t wanted = demand.blocks[pool] + watermark;
  if (status == KVC_ERROR_AGAIN && demand.blocks[pool] <= counts.size)
    fix = "retire the steps in flight, then try again";
  missing_blocks = wanted - room;
  return fail(status,
              "%s needs %llu blocks of pool %zu (watermark %llu included), %llu of %llu are available and "
              "%llu fenced; %s",
              who, ull(wanted), pool, ull(watermark), ull(room), ull(counts.size), ull(counts.fenced), fix);
}

kvc_status Blocks::refuse_for_good(const Least& least, size_t pool, uint32_t ns, const char* who) const {
  const uint64_t most = most_room(ns, pool), size = pool_.counts(pool).size;
  return fail(
      KVC_ERROR_NEVER_FITS,
      "%s needs %llu blocks of pool %zu at once and can never get more than %llu of its %llu: end the "
      "request, ask for less, or %s",
      who, ull(least.blocks[pool]), pool, ull(most), ull(size),
      most < size ? "change the quotas" : "enlarge the pool");
}

// Detaches a block of LRU and counts it; it stays in the list. `plain`: the tree is plain, and no quotas are
// on.
void Blocks::evict(BlockId victim, bool plain) {
  Block& block = pool_[victim];
  const Node& node = tree_[block.node];
  if (plain && block.next_copy == victim && !tree_.stale(node)) {
    --namespaces_.cached(node.ns, block.pool);
    ++counters_.evictions;
    return tree_.detach_only(std::exchange(block.node, kNoNode));
  }
  if (tree_.stale(node)) [[unlikely]] {
    --pool_.counts(block.pool).stale;
  } else {
    --namespaces_.cached(node.ns, block.pool);
    if (quotas_.on()) [[unlikely]]
      quotas_.free_cached(victim, block.pool);
    ++counters_.evictions;
  }
  detach(victim);
}

void Blocks::free_evicted(BlockId victim) {
  evict(victim);
  pool_.remove(victim);
  pool_.push_free(victim);
}

size_t Blocks::evict_oldest(size_t first, size_t end, size_t max_blocks) {
  const uint64_t before = counters_.evictions;  // stale blocks do not count
  for (auto p = static_cast<uint32_t>(first); p < end; ++p) {
    while (counters_.evictions - before < max_blocks && pool_.counts(p).lru != 0) free_evicted(victim(p));
  }
  return counters_.evictions - before;
}

void Blocks::pop(uint32_t group, uint32_t ns, size_t count, BlockId* out) {
  if (quotas_.on()) [[unlikely]]
    return pop_share(group, ns, count, out);
  const uint32_t pool = shape_.groups[group].pool;
  const auto group_byte = static_cast<uint8_t>(group);
  size_t i = pool_.pop_free(pool, group_byte, count, out);
  if (i == count) return;
  if (pool_.has_shelves()) [[unlikely]]
    return pop_victims(group, count - i, out + i);

  const bool plain = tree_.is_plain();
  BlockPool::LruTaker lru(pool_, pool, group_byte);
  for (; i < count; ++i) {
    const BlockId victim = out[i] = lru.head();
    look_ahead(pool, victim);
    evict(victim, plain);
    lru.take();
  }
}

BlockId Blocks::take_copy(uint32_t group, uint32_t ns, bool written) {
  BlockId id;
  pop(group, ns, 1, &id);
  if (zeroing_.on()) zeroing_.overwrite(id, namespaces_.id(ns));
  if (written) pool_.mark_written(pool_[id]);
  return id;
}

void Blocks::take_external(uint32_t group, size_t count, BlockId* out) {
  pop(group, kNoNamespace, count, out);
  if (zeroing_.on()) zeroing_.hand_over(out, count, Zeroing::kExternal);
  for (size_t i = 0; i < count; ++i) {
    pool_[out[i]].refs = 0;
    pool_[out[i]].external = 1;
  }
}

void Blocks::hold_run(uint32_t group, const NodeId* path, size_t count, uint32_t ns, BlockId* out) {
  const bool plain = !quotas_.on() && pool_.num_filling() == 0;
  BlockPool::LruLeaver leaver(pool_, shape_.groups[group].pool);
  for (size_t i = 0; i < count; ++i) {
    const BlockId id = out[i] = tree_.block_of(path[i], group);
    Block& block = pool_[id];
    if (plain && block.list == List::kLru)
      leaver.take(block);
    else
      hit(id);
    pool_.add_ref(block);
  }
  namespaces_.cached(ns, shape_.groups[group].pool) -= leaver.count();
}

void Blocks::release(BlockId id, Keep keep, uint32_t ns, bool stale) {
  Block& block = pool_[id];
  if (!drop_ref(block)) return;
  if (keep == Keep::kNot && is_node(block.node)) detach(id);
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
  pool_.end_released_filling(pool_[id], Content::kEmpty);
  if (is_node(pool_[id].node)) detach(id);
  free_held(id);
}

void Blocks::renew(NodeId node, uint32_t group) {
  BlockId id = tree_.block_of(node, group);
  if (is_block(id) && pool_[id].list != List::kLru) id = tree_.idle_copy(id);
  if (!is_block(id)) return;
  pool_[id].leaves_first = 0;
  if (pool_.has_shelves()) [[unlikely]] {
    pool_.renew(id, place_of(node));
  } else {
    pool_.remove(id);
    pool_.push_lru(id);
  }
}

// While no step is in flight, published sole copies go to LRU in one sweep.
void Blocks::release_run(uint32_t group, const BlockId* blocks, size_t begin, size_t end, uint32_t ns) {
  constexpr size_t kAhead = 8;
  const uint32_t pool = shape_.groups[group].pool;
  const bool sweeps = !fencing() && !pool_.has_shelves();
  for (size_t j = end; j != begin;) {
    {
      BlockPool::LruAppender lru(pool_, pool);
      for (; sweeps && j != begin; --j) {
        const BlockId id = blocks[j - 1];
        if (j > kAhead) pool_.prefetch(blocks[j - 1 - kAhead]);
        Block& block = pool_[id];
        if (!is_node(block.node) || block.next_copy != id || block.content == Content::kFilling) break;
        if (drop_ref(block)) lru.append(id, block);
      }
      namespaces_.cached(ns, pool) += lru.count();
    }
    if (j != begin) release(blocks[--j], Keep::kPublished, ns, false);
  }
}

// A block that is not published now may hold anything that its holder wrote, even if it was published before.
void Blocks::release_external(BlockId id) {
  Block& block = pool_[id];
  if (zeroing_.on() && (!is_node(block.node) || tree_.stale(tree_[block.node])))
    zeroing_.set_owner(id, Zeroing::kExternal);
  if (pool_.drop_external(block)) {
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
  const NodeId node = pool_[id].node;
  if (pool_.is_filling(id)) [[unlikely]] {
    take_back(id);
  } else if (!is_node(node)) {
    free_held(id);
  } else {
    settle_published(id, tree_[node].ns, tree_.stale(tree_[node]));
  }
}

inline void Blocks::push_cached(BlockId id) {
  if (pool_.has_shelves()) [[unlikely]]
    shelve(id);
  else if (pool_[id].leaves_first != 0)
    pool_.push_lru_first(id);
  else
    pool_.push_lru(id);
}

void Blocks::settle_published(BlockId id, uint32_t ns, bool stale) {
  const Block& block = pool_[id];
  if (stale) {
    detach(id);
    free_held(id);
    return;
  }
  if (block.next_copy != id) {
    if (const BlockId other = tree_.idle_copy(id); is_block(other)) {  // one idle copy is enough
      tree_.detach(id);
      free_held(id);
      pool_.remove(other);
      pool_[other].leaves_first = 0;
      push_cached(other);
      return;
    }
  }
  push_cached(id);
  if (block.next_copy != id) tree_.make_idle(id);
  ++namespaces_.cached(ns, block.pool);
  if (quotas_.on()) [[unlikely]]
    quotas_.cache_held(id, block.pool);
  if (pool_.counts(block.pool).lru > shape_.max_cached[block.pool]) [[unlikely]]
    free_evicted(victim(block.pool));
}

void Blocks::settle_fenced(uint64_t step_id) {
  retired_ = step_id;
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    while (pool_.counts(p).fenced != 0 && pool_.fence_passed(pool_[pool_.fenced_head(p)], retired_)) {
      const BlockId id = pool_.fenced_head(p);
      pool_.remove(id);
      if (quotas_.on()) [[unlikely]]
        quotas_.leave_fence(id, p);
      if (pool_.is_filling(id) && pool_.filled(id, retired_)) [[unlikely]]
        pool_.end_released_filling(pool_[id], Content::kWritten);
      settle(id);
    }
    pool_.retire_filling(p, retired_);
  }
}

// In the order of lists: that of ids is decided by other namespaces.
void Blocks::fail_fills(uint64_t step_id) {
  const auto each_failing = [&](BlockId first, auto&& fail) {
    for (BlockId id = first, next; !pool_.at_end(id); id = next) {
      next = pool_[id].next;
      if (!pool_.is_filling(id) ||
          static_cast<int32_t>(pool_.filling_step(id) - static_cast<uint32_t>(step_id)) < 0)
        continue;
      fail(id);
      if (is_node(pool_[id].node)) detach(id);
    }
  };
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    each_failing(pool_.filling_head(p), [&](BlockId id) { pool_.fail_filling(id); });
    each_failing(pool_.fenced_head(p),
                 [&](BlockId id) { pool_.end_released_filling(pool_[id], Content::kEmpty); });
  }
}

void Blocks::take_zero_blocks(int32_t* blocks) {
  if (zeroing_.count() != 0) std::memcpy(blocks, zeroing_.blocks(), zeroing_.count() * sizeof(int32_t));
  zeroing_.clear_list();
}

}  // namespace kvc
