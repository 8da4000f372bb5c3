// SPDX-License-Identifier: Apache-2.0
// The cached blocks: the list in which each waits, which of them leaves next, how it leaves its position, and
// the time and levels that decide it. Blocks that others need are popped here: from FREE, or in place of
// those that leave. Under the manager's lock.
//
// Where a pool has several lists, each block's place follows its namespace's class, its position's level and
// the shelves of the policy (src/pool/policy.h). Uses, hints, demotions and the time change levels: a block
// whose level changes goes to the end of its new list, as if it were released now; of several positions the
// last one goes first.
#pragma once
#include "manager/block_state.h"

namespace kvc {

class CachedBlocks {
 public:
  explicit CachedBlocks(BlockState& state) : s_(state) {}

  // Takes blocks for a group's requests of a namespace, or for an external holder (kNoNamespace).
  void pop(GroupIndex group, NamespaceId ns, size_t count, BlockId* out);
  // A published block that nobody holds comes to LRU.
  void push(BlockId id) {
    s_.pool.push_cached(id, [&] { return place_of(s_.pool[id].node); });
  }
  // What is cached of a group at a position comes to the end of its list, as if it were released now.
  void renew(NodeId node, GroupIndex group) {
    if (const BlockId id = idle(node, group); is_block(id))
      s_.pool.renew_cached(id, [&] { return place_of(node); });
  }
  // Where a block of a position waits, if there are several lists.
  Place place_of(NodeId node) const;
  // visit(id): the blocks of a position that are in LRU, at most one of each group.
  template <typename Visit>
  void each(NodeId node, Visit&& visit) {
    for (uint32_t g = 0; g < s_.shape.num_groups; ++g) {
      if (const BlockId id = idle(node, g); is_block(id)) visit(id);
    }
  }
  // Takes a block from its position. Other blocks there may become fragments.
  void detach(BlockId id) {
    if (s_.pool.shelves().moves_fragments()) [[unlikely]]
      return detach_and_sort(id);
    s_.tree.detach(id);
  }
  // Frees a block of LRU, which is an eviction unless it is stale; or does not count as one.
  void free_evicted(BlockId victim) { free(victim, 1); }
  void free(BlockId id, uint64_t evictions = 0);
  // The block of some classes that leaves first.
  BlockId victim(PoolIndex pool, uint64_t classes = Shelves::kAllClasses);
  // Evicts up to `max_blocks` cached blocks of the pools [first, end) and returns how many.
  size_t evict_oldest(size_t first, size_t end, size_t max_blocks);
  // With hints a position may lose its block before those behind it, which then keep its node. So if all
  // nodes are in use, victims leave until there is one for a namespace. False if that does not help.
  bool evict_for_node(NamespaceId ns);
  // Evicts a victim of the pool with the most cached blocks, and what else is cached at its position, as far
  // as the namespace may. False if there is no victim.
  bool evict_position(NamespaceId ns);
  // Evicts cached blocks of a class until it has `most` blocks, or none is cached.
  void keep_to_maximum(ClassIndex cls, PoolIndex pool, uint64_t most);
  // Frees what resets have left behind.
  void free_stale(PoolIndex pool);

  // The positions of a hit, or of what a request publishes, from the first on, were used once more.
  void use(const NodeId* path, size_t length) {
    if (s_.tree.notes().use(path, length)) [[unlikely]]
      raise(path, length);
  }
  uint64_t now() const { return s_.tree.notes().retention().deadlines().now(); }
  kvc_status check_time(uint64_t now_ns) const {
    if (now_ns >= now()) return KVC_OK;
    return invalid("now_ns is %llu, before the last time, %llu; give the time of a monotonic clock",
                   ull(now_ns), ull(now()));
  }
  // Ends the hints whose time has passed; the time is right.
  void pass_time(uint64_t now_ns);
  // A position takes a hint, unless it has no block.
  void hint(NodeId node, uint32_t priority, uint64_t until);
  // Demotes positions from `last` upwards to position `first`, as long as they lead to nothing else and
  // nobody holds a block or, but for `own_cursors` at `last`, is there. Returns how many.
  size_t demote(NodeId last, size_t first, uint32_t own_cursors);

 private:
  struct Coming {  // a block that will probably be evicted, as far as it is known
    BlockId block;
    NodeId node;
    uint32_t bucket;
  };
  struct LookAhead {
    static constexpr uint32_t kSize = 32;
    Coming coming[kSize];
    uint32_t count;
  };

  [[gnu::noinline]] void pop_sorted(GroupIndex group, NamespaceId ns, size_t count, BlockId* out);
  // The block of LRU of a group at a position, or kNoBlock.
  BlockId idle(NodeId node, GroupIndex group) const {
    const BlockId first = s_.tree.block_of(node, group);
    const bool held = is_block(first) && s_.pool[first].list != List::kLru;
    return held ? s_.tree.copies().idle(first) : first;
  }
  // Classes whose cached blocks may leave for a namespace.
  uint64_t evictable(NamespaceId ns, PoolIndex pool) const {
    return s_.quotas.evictable(s_.class_of(ns), pool);
  }
  BlockId stale_head(PoolIndex pool, uint64_t classes);
  uint32_t num_missing(NodeId node) const {
    const uint32_t resident = s_.tree[node].resident;
    return static_cast<uint32_t>(__builtin_popcount(s_.shape.whole_groups(resident) & ~resident));
  }
  [[gnu::noinline]] void detach_and_sort(BlockId id);
  [[gnu::noinline]] void raise(const NodeId* path, size_t length);
  void set_level(NodeId node, uint32_t level, uint64_t until) {
    const bool moves = s_.tree.notes().level(node) != level;
    s_.tree.notes().retention().set(node, level, until);
    if (moves) each(node, [&](BlockId id) { s_.pool.shelves().renew(id, place_of(node)); });
  }
  bool anyone_holds(NodeId node) const;
  void look_ahead(PoolIndex pool, BlockId victim);
  // Detaches a block of LRU; it stays in the list.
  void evict(BlockId victim, uint64_t evictions = 1);

  BlockState& s_;
  LookAhead ahead_[kMaxPools] = {};
};

}  // namespace kvc
