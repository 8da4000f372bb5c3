// SPDX-License-Identifier: Apache-2.0
// The cached blocks: the list in which each waits, which of them leaves next, and how it leaves its position.
// Blocks that others need are popped here: from FREE, or in place of those that leave. Under the manager's
// lock.
//
// Where a pool has several lists, each block's place follows its namespace's class, its position's level and
// the shelves of the policy (src/pool/policy.h).
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
    if (s_.pool.shelves().on()) [[unlikely]]
      shelve(id);
    else if (s_.pool[id].leaves_first != 0)
      s_.pool.push_lru_first(id);
    else
      s_.pool.push_lru(id);
  }
  // What is cached of a group at a position comes to the end of its list, as if it were released now.
  void renew(NodeId node, GroupIndex group);
  // Where a block of a position waits, if there are several lists; the level is 0 without hints.
  Place place_of(NodeId node) const;
  uint32_t level_of(NodeId node) const {
    return s_.tree.notes().retention().on() ? s_.tree.notes().retention().level(node) : 0;
  }
  // visit(id): the blocks of a position that are in LRU, at most one of each group.
  template <typename Visit>
  void each(NodeId node, Visit&& visit) {
    for (uint32_t g = 0; g < s_.shape.num_groups; ++g) {
      BlockId id = s_.tree.block_of(node, g);
      if (is_block(id) && s_.pool[id].list != List::kLru) id = s_.tree.copies().idle(id);
      if (is_block(id)) visit(id);
    }
  }
  // Takes a block from its position. Other blocks there may become fragments.
  void detach(BlockId id) {
    if (s_.pool.shelves().on()) [[unlikely]]
      return detach_and_sort(id);
    s_.tree.detach(id);
  }
  // Frees a block of LRU: as an eviction; or, if it is not stale, without counting one.
  void free_evicted(BlockId victim);
  void free(BlockId id);
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

  // With quotas; with several lists.
  [[gnu::noinline]] void pop_share(GroupIndex group, NamespaceId ns, size_t count, BlockId* out);
  [[gnu::noinline]] void pop_victims(GroupIndex group, size_t count, BlockId* out);
  BlockId stale_head(PoolIndex pool, uint64_t classes);
  void shelve(BlockId id);
  uint32_t num_missing(NodeId node) const;
  void find_fragments(NodeId node, GroupIndex group);
  [[gnu::noinline]] void detach_and_sort(BlockId id);
  void look_ahead(PoolIndex pool, BlockId victim);
  // Detaches a block of LRU and counts it; it stays in the list.
  void evict(BlockId victim);

  BlockState& s_;
  LookAhead ahead_[kMaxPools] = {};
};

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
  if (is_node(bucket.node)) bucket.bucket = s_.tree.prefetch_bucket_of(bucket.node);
  if (s_.tree.notes().uses().on() && is_node(bucket.node)) [[unlikely]]
    s_.tree.notes().prefetch(bucket.node);
  s_.tree.prefetch_chain(ahead.coming[(now - kChain) % LookAhead::kSize].bucket);
}

}  // namespace kvc
