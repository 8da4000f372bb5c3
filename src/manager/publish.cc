// SPDX-License-Identifier: Apache-2.0
// Blocks that become findable, and blocks that stop being so before they are evicted.
#include <algorithm>

#include "manager/blocks.h"

namespace kvc {

size_t Blocks::publish(NodeId* cursor, const Publication& publication, size_t begin, size_t end) {
  constexpr size_t kAhead = 8;
  const auto& [first_key, first_token, extras, groups, ns, epoch, filled_by, checkpoint] = publication;
  const PrefixTree::Bulk bulk(tree_, end - begin);
  const auto follow = [this](NodeId* at, NodeId node) {
    if (shape_.has_gaps())
      move_cursor(at, node);  // it may get no block
    else
      *at = node;
  };
  size_t i = begin;
  while (i < end) {
    const uint64_t* keys = first_key + (i - begin);
    const int32_t* tokens = first_token + (i - begin) * shape_.block_size;
    if (shape_.has_gaps()) make_node_room(*cursor, *keys, tokens, extras.view(i), ns, epoch);
    if (extras.empty() && filled_by == 0 && shape_.state_groups == 0) {
      size_t run = end - i;
      if (shape_.has_gaps()) {
        const size_t most = std::min(run, std::max(spare_nodes(), size_t{1}));
        for (run = 0; run < most && is_block(groups[0].blocks.data[i + run]);) ++run;
      }
      NodeId last = *cursor;
      const size_t made =
          run == 0 ? 0 : tree_.publish_chain(last, keys, tokens, groups[0].blocks.data + i, run, ns, epoch);
      if (made != 0) {
        follow(cursor, last);
        i += made;
        continue;
      }
    }
    if (i + kAhead < end) {
      tree_.prefetch_bucket(keys[kAhead]);
      pool_.prefetch(groups[0].blocks.data[i + kAhead]);
    }
    const NodeId node = tree_.publish_position(*cursor, *keys, tokens, extras, i, ns, epoch);
    if (!is_node(node)) break;
    follow(cursor, node);
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      const BlockId block = groups[g].blocks.data[i];
      if (!is_block(block)) continue;
      if (filled_by != 0) {
        pool_.begin_filling(block, filled_by);
      } else {
        pool_.mark_written(pool_[block]);
      }
      const bool inside = i != checkpoint && (shape_.state_groups >> g & 1) != 0;
      if (!inside) tree_.attach(node, g, block);
    }
    use(&node, 1);
    ++i;
  }
  return i;
}

// Evicts a victim of the pool with the most cached blocks, and what else is cached at its position, as far as
// the namespace may. False if there is no victim.
bool Blocks::evict_position(uint32_t ns) {
  const auto evictable = [&](uint32_t p) {
    return quotas_.on() ? quotas_.evictable(class_of(ns), p) : BlockPool::kAllClasses;
  };
  BlockId leaves = kNoBlock;
  uint64_t most = 0;
  for (uint32_t p = 0; p < shape_.num_pools; ++p) {
    const uint64_t cached = pool_.counts(p).lru;
    if (cached <= most) continue;
    if (const BlockId block = victim(p, evictable(p)); is_block(block)) leaves = block, most = cached;
  }
  if (!is_block(leaves)) return false;
  const NodeId node = pool_[leaves].node;
  const uint64_t cls = uint64_t{1} << class_of(tree_[node].ns);
  tree_.hold(node);
  each_cached(node, [&](BlockId id) {
    if (id == leaves || tree_.stale(tree_[node]) || (evictable(pool_[id].pool) & cls) != 0) free_evicted(id);
  });
  tree_.release(node);
  return true;
}

size_t Blocks::spare_nodes() const {
  constexpr size_t kReserve = 8;  // part of the nodes
  const size_t free = tree_.free_nodes(), reserve = shape_.max_nodes / kReserve;
  return free < reserve ? 0 : free - reserve;
}

void Blocks::make_node_room(NodeId parent, uint64_t key, const int32_t* tokens, const ExtraView& extra,
                            uint32_t ns, uint64_t epoch) {
  constexpr size_t kReclaim = 16;  // dead chains
  constexpr size_t kRounds = 16;   // for a group
  if (spare_nodes() != 0 || is_node(tree_.find(parent, key, tokens, extra, epoch))) return;
  size_t chains = kReclaim, rounds = kRounds * shape_.num_groups;
  while (spare_nodes() == 0) {
    if (is_node(tree_.first_orphan())) {  // what is dead comes first
      if (chains-- == 0) return;
      tree_.has_room();
    } else if (rounds-- == 0 || !evict_position(ns)) {
      return;
    }
  }
}

size_t Blocks::room_for_positions(size_t wanted, NodeId kept) {
  size_t room = tree_.free_nodes();
  if (wanted <= room) return wanted;
  tree_.hold(kept);  // it may be dead; the others that are dead and not reclaimed yet count
  room += tree_.count_dead(wanted - room);
  tree_.release(kept);
  return room < wanted ? room : wanted;
}

void Blocks::publish_external(const Prompt& prompt, uint32_t group, const int32_t* blocks, size_t num_blocks,
                              ExtraRecords& extras) {
  NodeId cursor = root_of(prompt.ns);
  for (size_t j = 0; j < num_blocks; ++j) {
    const NodeId node = tree_.publish_position(
        cursor, prompt.hashes[j], prompt.tokens + j * shape_.block_size, extras, j, prompt.ns, prompt.epoch);
    if (!is_node(node)) break;   // the caller has counted the nodes
    move_cursor(&cursor, node);  // a position without a block would die when the next orphan is reclaimed
    if (blocks[j] == -1) continue;
    const BlockId id{blocks[j]};
    Block& block = pool_[id];
    if (block.node == node) continue;
    if (is_node(block.node)) detach(id);  // of an epoch that is over
    if (zeroing_.on()) zeroing_.overwrite(id, namespaces_.id(prompt.ns));
    if (quotas_.on()) give(id, prompt.ns);
    block.group = static_cast<uint8_t>(group);
    pool_.mark_written(block);
    tree_.attach(node, group, id);
    use(&node, 1);
  }
  tree_.release(cursor);
}

NodeId Blocks::carry_position(NodeId parent, uint64_t key, const int32_t* tokens, ExtraRecords& extras,
                              size_t position, uint32_t ns) {
  const NodeId node =
      tree_.publish_position(parent, key, tokens, extras, position, ns, namespaces_.epoch(ns));
  if (is_node(node) && tree_[node].holds == 0) tree_.hold(node);
  return node;
}

BlockId Blocks::carry_block(NodeId node, uint32_t group, uint32_t uses, uint32_t level, uint64_t until) {
  const BlockId block = take_copy(group, tree_[node].ns, true);
  tree_.attach(node, group, block);
  if (tree_.retention().on()) tree_.retention().set(node, level, until);
  for (uint32_t i = 0; tree_.counts_uses() && i < uses && tree_.uses().of(node) < uses; ++i) tree_.use(node);
  return block;
}

void Blocks::end_positions() {
  for (size_t i = 0; i < tree_.num_places(); ++i) {
    const NodeId node{static_cast<int32_t>(i)};
    if (tree_.alive(node) && tree_[node].holds != 0) tree_.release(node);
  }
}

bool Blocks::is_alone(const GroupTable* groups, size_t position) {
  NodeId node = kNoNode;
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    const BlockId id = groups[g].blocks.data[position];
    if (is_block(id) && is_node(pool_[id].node)) node = pool_[id].node;
  }
  if (!is_node(node)) return true;  // nothing is published
  if (tree_.stale(tree_[node])) {   // nobody finds it; how long what waits in LRU stays there, others decide
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      const BlockId id = groups[g].blocks.data[position];
      if (is_block(id) && pool_[id].shared()) return false;
    }
    return true;
  }
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    const BlockId id = tree_.block_of(node, g);
    if (!is_block(id)) continue;
    if (id != groups[g].blocks.data[position] || pool_[id].shared() || pool_[id].next_copy != id)
      return false;
  }
  return !tree_.has_children(node);
}

void Blocks::make_private(const GroupTable* groups, size_t position) {
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    const BlockId id = groups[g].blocks.data[position];
    if (is_block(id) && is_node(pool_[id].node)) detach(id);
  }
}

bool Blocks::unpublish(BlockId id) {
  const Block block = pool_.read(id);
  if (!is_node(block.node) || tree_.stale(tree_[block.node])) return false;
  if (block.list == List::kLru) {
    free_cached(id);
  } else {
    detach(id);
  }
  return true;
}

size_t Blocks::drop_idle(NodeId node) {
  size_t dropped = 0;
  each_cached(node, [&](BlockId id) {
    free_cached(id);
    ++dropped;
  });
  return dropped;
}

// Frees a block of LRU that is not stale, which does not count as an eviction.
void Blocks::free_cached(BlockId id) {
  --namespaces_.cached(tree_[pool_[id].node].ns, pool_[id].pool);
  if (quotas_.on()) quotas_.free_cached(id, pool_[id].pool);
  pool_.remove(id);
  detach(id);
  pool_.push_free(id);
}

}  // namespace kvc
