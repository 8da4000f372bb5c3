// SPDX-License-Identifier: Apache-2.0
#include "prefix/prefix_tree.h"

#include <algorithm>
#include <limits>

#include "base/copy.h"

namespace kvc {
namespace {

// Equality of whole blocks without a branch per word.
template <size_t kCount>
bool equal(const int32_t* a, const int32_t* b) {
  uint64_t difference = 0;
  for (size_t i = 0; i < kCount; i += 2) {
    uint64_t x, y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    difference |= x ^ y;
  }
  return difference == 0;
}

}  // namespace

PrefixTree::Bulk::~Bulk() {
  stream_fence(tree_.stream_);  // before the lock is released
  tree_.stream_ = false;
}

bool PrefixTree::create(Memory& memory, size_t max_nodes, uint32_t block_size, size_t num_groups,
                        uint64_t hash_mask, uint64_t secret, size_t history, uint32_t num_levels,
                        bool heads) {
  block_size_ = block_size;
  num_groups_ = num_groups;
  max_nodes_ = max_nodes;
  const size_t most = std::numeric_limits<int32_t>::max() - max_nodes;
  const size_t places = max_nodes + (events_.capacity() < most ? events_.capacity() : most);
  size_t row_tokens;
  if (!checked_mul(places, block_size, &row_tokens)) return false;
  if (!nodes_.create(memory, places) || !rows_.create(memory, row_tokens) ||
      !table_.create(memory, max_nodes, hash_mask, secret) ||
      !copies_.create(memory, nodes_.data(), places, num_groups) ||
      !places_.create(memory, nodes_.data(), places)) {
    return false;
  }
  if (events_.enabled() && (!identities_.create(memory, places, block_size))) return false;
  if (!notes_.create(memory, nodes_.data(), places, history, num_levels, secret)) return false;
  orders_heads_ = heads;
  notes_residence_ = notes_.uses().on() || heads;
  return true;
}

bool PrefixTree::same_tokens(NodeId id, const int32_t* tokens) const {
  const int32_t* row = this->tokens(id);
  if (block_size_ == 16) return equal<16>(row, tokens);
  return std::memcmp(row, tokens, block_size_ * sizeof(int32_t)) == 0;
}

inline NodeId PrefixTree::look_up(NodeId first, NodeId parent, uint64_t key, const int32_t* tokens,
                                  const ExtraView& extra, uint64_t epoch) const {
  for (NodeId id = first; is_node(id); id = (*this)[id].hash_next) {
    const Node& node = (*this)[id];
    if (!table_.may_equal(node.key, key)) continue;
    if (node.parent == parent && node.epoch == epoch && same_tokens(id, tokens) && extra.equals(node.extra))
      return id;
    ++rejected_;
  }
  return kNoNode;
}

NodeId PrefixTree::find(NodeId parent, uint64_t key, const int32_t* tokens, const ExtraView& extra,
                        uint64_t epoch) const {
  return look_up(table_.first_of(key), parent, key, tokens, extra, epoch);
}

size_t PrefixTree::walk(const Prompt& prompt, size_t limit, uint32_t needed, NodeId* path) const {
  return walk(prompt, root_of(prompt.ns), 0, limit, needed, path);
}

size_t PrefixTree::walk(const Prompt& prompt, NodeId parent, size_t begin, size_t limit, uint32_t needed,
                        NodeId* path) const {
  return prompt.keys.count == 0 ? walk_positions<false>(prompt, parent, begin, limit, needed, path)
                                : walk_positions<true>(prompt, parent, begin, limit, needed, path);
}

template <bool kHasKeys>
size_t PrefixTree::walk_positions(const Prompt& prompt, NodeId parent, size_t begin, size_t limit,
                                  uint32_t needed, NodeId* path) const {
  constexpr size_t kBucketAhead = 16, kNodeAhead = 8, kBlockAhead = 4;
  NodeId first[kNodeAhead];  // of the buckets of the next positions
  const auto look_ahead = [&](size_t i) {
    const NodeId id = first[i % kNodeAhead] = table_.first_of(prompt.hashes[i]);
    if (!is_node(id)) return;
    __builtin_prefetch(&(*this)[id]);
    __builtin_prefetch(tokens(id));
  };
  for (size_t i = begin; i < begin + kNodeAhead && i < limit; ++i) look_ahead(i);
  for (size_t i = begin; i < limit; ++i) {
    const NodeId candidate = first[i % kNodeAhead];
    if (i + kBucketAhead < limit) table_.prefetch(prompt.hashes[i + kBucketAhead]);
    if (i + kNodeAhead < limit) look_ahead(i + kNodeAhead);
    if (i + kBlockAhead < limit) {
      const NodeId later = first[(i + kBlockAhead) % kNodeAhead];
      if (is_node(later) && is_block((*this)[later].block)) pool_.prefetch((*this)[later].block);
    }
    ExtraView extra;
    if constexpr (kHasKeys) extra = ExtraView(prompt.keys, i * block_size_, block_size_);
    const NodeId id =
        look_up(candidate, parent, prompt.hashes[i], prompt.tokens + i * block_size_, extra, prompt.epoch);
    if (!is_node(id) || ((*this)[id].resident & needed) != needed) return i;
    path[i] = parent = id;
  }
  return limit;
}

NodeId PrefixTree::last_known(const Prompt& prompt, size_t limit) const {
  NodeId last = root_of(prompt.ns);
  for (size_t i = 0; i < limit; ++i) {
    const ExtraView extra(prompt.keys, i * block_size_, block_size_);
    const NodeId id = find(last, prompt.hashes[i], prompt.tokens + i * block_size_, extra, prompt.epoch);
    if (!is_node(id)) break;
    last = id;
  }
  return last;
}

// Most rows are overwritten before they are read, so many at once go past the caches.
inline void PrefixTree::write_row(NodeId id, const int32_t* tokens) {
  auto* row = reinterpret_cast<char*>(&rows_[static_cast<size_t>(raw(id)) * block_size_]);
  const auto* from = reinterpret_cast<const char*>(tokens);
  if (block_size_ == 16) {  // the usual size: no call
    copy_bytes(row, from, 16 * sizeof(int32_t), stream_);
  } else {
    copy_bytes(row, from, block_size_ * sizeof(int32_t), stream_);
  }
}

size_t PrefixTree::publish_chain(NodeId& parent, const uint64_t* keys, const int32_t* tokens,
                                 const BlockId* blocks, size_t count, NamespaceId ns, uint64_t epoch) {
  if (num_groups_ != 1 || is_node(orphans_) || is_node(first_child(parent)) || !has_room()) return 0;
  if (count > free_nodes()) count = free_nodes();
  constexpr size_t kBucketAhead = 12, kBlockAhead = 6;
  Node* const nodes = nodes_.data();
  int32_t* const buckets = table_.buckets();
  const NodeTable::Hash bucket_of = table_.hash();
  const uint32_t block_size = block_size_;
  NodeId* link = is_node(parent) ? &nodes[raw(parent)].first_child : &namespaces_[ns].first_child;
  uint32_t depth = is_node(parent) ? nodes[raw(parent)].depth + 1 : 0;
  NodeId last = parent, id = places_.next();
  size_t i = 0, written = 0;
  for (; i < count && is_node(id); ++i, tokens += block_size) {
    if (i + kBucketAhead < count) {
      __builtin_prefetch(&buckets[bucket_of(keys[i + kBucketAhead])], 1);
      pool_.prefetch(blocks[i + kBlockAhead]);
    }
    Node& node = nodes[raw(id)];
    const NodeId next_free = node.hash_next;
    __builtin_prefetch(&nodes[static_cast<int32_t>(node.key)], 1);  // as in make()
    write_row(id, tokens);
    int32_t& bucket = buckets[bucket_of(keys[i])];
    node = Node{.key = keys[i],
                .extra = nullptr,
                .parent = last,
                .hash_next = NodeId{bucket},
                .listed = 1,
                .first_child = kNoNode,
                .sibling_next = kNoNode,
                .sibling_prev = kNoNode,
                .block = blocks[i],
                .holds = 0,
                .epoch = epoch & kEpochMask,
                .ns = static_cast<uint16_t>(ns),
                .depth = depth++,
                .resident = 1};
    bucket = raw(id);
    *link = id;
    link = &node.first_child;
    written += pool_.publish(blocks[i], id);
    last = id;
    id = next_free;
  }
  if (i == 0) return 0;
  places_.set_next(id);
  if (is_node(id)) prefetch_place(id);  // for the next call
  pool_.count_written(pool_[blocks[0]].pool, written);
  counters_.nodes_used += i;
  counters_.published_blocks += i;
  namespaces_[ns].num_nodes += static_cast<uint32_t>(i);
  if (events_.enabled() || notes_.uses().on()) [[unlikely]]
    note_chain(parent, blocks, i, epoch);
  parent = last;
  return i;
}

void PrefixTree::note_chain(NodeId parent, const BlockId* blocks, size_t count, uint64_t epoch) {
  for (size_t j = 0; j < count && events_.enabled(); ++j) {
    const NodeId made = pool_[blocks[j]].node;
    identities_.begin(made);
    if (j == 0 && !is_told(parent)) identities_.tell_way(made, 0);
    events_.add(kEventStored, epoch, made, 0, blocks[j]);
  }
  if (notes_.uses().on()) notes_.begin_chain(pool_, blocks, count);
}

NodeId PrefixTree::make(NodeId parent, uint64_t key, const int32_t* tokens, ExtraRecord* extra,
                        NamespaceId ns, uint64_t epoch) {
  Node* const nodes = nodes_.data();
  const auto at = [nodes](NodeId id) -> Node& { return nodes[raw(id)]; };
  const NodeId id = places_.next();
  Node& node = at(id);
  places_.set_next(node.hash_next);
  prefetch_node(NodeId{static_cast<int32_t>(node.key)});  // give_back() left word of a later one
  ++counters_.nodes_used;
  ++namespaces_[ns].num_nodes;

  write_row(id, tokens);
  int32_t& bucket = table_.bucket(key);
  const NodeId hash_next = NodeId{bucket};
  bucket = raw(id);

  const bool nested = is_node(parent);
  NodeId& youngest = nested ? at(parent).first_child : namespaces_[ns].first_child;
  const NodeId sibling = youngest;
  youngest = id;
  if (is_node(sibling)) at(sibling).sibling_prev = id;

  node = Node{.key = key,
              .extra = extra,
              .parent = parent,
              .hash_next = hash_next,
              .listed = 1,
              .first_child = kNoNode,
              .sibling_next = sibling,
              .sibling_prev = kNoNode,
              .block = kNoBlock,
              .holds = 0,
              .epoch = epoch & kEpochMask,
              .ns = static_cast<uint16_t>(ns),
              .depth = nested ? at(parent).depth + 1 : 0,
              .resident = 0};
  for (size_t g = 1; g < num_groups_; ++g) copies_.set_first(id, g, kNoBlock);
  if (events_.enabled()) identities_.begin(id);
  return id;
}

// A node that others kept without a block becomes the newest sibling, as if it had died in between: who kept
// it must not decide what a request copies.
void PrefixTree::begin_residence(NodeId id) {
  Node& node = (*this)[id];
  if (notes_.uses().on()) notes_.begin(id);
  if (!orders_heads_ || !is_node(node.sibling_prev)) return;
  NodeId& youngest =
      is_node(node.parent) ? (*this)[node.parent].first_child : namespaces_[node.ns].first_child;
  (*this)[node.sibling_prev].sibling_next = node.sibling_next;
  if (is_node(node.sibling_next)) (*this)[node.sibling_next].sibling_prev = node.sibling_prev;
  (*this)[youngest].sibling_prev = id;
  node.sibling_next = std::exchange(youngest, id);
  node.sibling_prev = kNoNode;
  readers_.note_moved(id);
}

// Chains are short and new nodes come first, so walking one costs less than links back would.
template <bool kPlain>
inline void PrefixTree::take_from_table(NodeId id) {
  Node* const nodes = nodes_.data();
  Node& node = nodes[raw(id)];
  node.listed = 0;
  if (!kPlain && events_.enabled() && identities_.is_waypoint(id)) identities_.end_waypoint(id);
  if (!kPlain) tell_readers(id);
  int32_t& bucket = table_.bucket(node.key);
  if (bucket == raw(id)) {
    bucket = raw(node.hash_next);
    return;
  }
  int32_t before = bucket;
  while (nodes[before].hash_next != id) before = raw(nodes[before].hash_next);
  nodes[before].hash_next = node.hash_next;
}

template <bool kPlain>
inline NodeId PrefixTree::free_node(NodeId id) {
  Node* const nodes = nodes_.data();
  Node& node = nodes[raw(id)];
  const NodeId parent = node.parent;
  if (is_node(node.sibling_next)) nodes[raw(node.sibling_next)].sibling_prev = node.sibling_prev;
  if (is_node(node.sibling_prev)) {
    nodes[raw(node.sibling_prev)].sibling_next = node.sibling_next;
  } else if (is_node(parent)) {
    nodes[raw(parent)].first_child = node.sibling_next;
  } else {
    namespaces_[node.ns].first_child = node.sibling_next;
  }
  if (!kPlain && events_.enabled()) {
    places_.wait(id, node);
  } else {
    places_.give_back(id, node);
  }
  --counters_.nodes_used;
  if (--namespaces_[node.ns].num_nodes == 0) namespaces_.free_if_unused(node.ns);
  return parent;
}

// `kPlain`: is_plain() now.
template <bool kPlain>
inline void PrefixTree::bury_chain(NodeId id) {
  for (int climbed = 0; climbed < kClimb; ++climbed) {
    take_from_table<kPlain>(id);
    id = free_node<kPlain>(id);
    if (!is_node(id) || !unused((*this)[id])) return;
  }
  take_from_table<kPlain>(id);  // the rest of a long dead chain waits
  (*this)[id].hash_next = orphans_;
  orphans_ = id;
}

void PrefixTree::bury(NodeId id) { bury_chain<false>(id); }

void PrefixTree::detach_only(NodeId id) {
  Node& node = (*this)[id];
  node.block = kNoBlock;
  node.resident = 0;
  if (unused(node)) bury_chain<true>(id);
}

bool PrefixTree::reclaim() {
  if (is_node(orphans_)) {
    const NodeId id = orphans_;
    orphans_ = (*this)[id].hash_next;
    tell_readers(id);
    if (const NodeId parent = free_node<false>(id); is_node(parent) && unused((*this)[parent])) bury(parent);
  }
  if (free_nodes() == 0) return false;
  if (!is_node(places_.next())) places_.refill();
  return true;
}

// Counts one more dead child of a node and returns whether the node is dead with it. Until count_dead() ends,
// `listed` is 2 plus the number of children that may be alive.
bool PrefixTree::last_dead_child(Node& node) {
  if (node.resident != 0 || node.holds != 0) return false;
  if (node.listed == 1) {
    node.listed = 2;
    for (NodeId id = node.first_child; is_node(id); id = (*this)[id].sibling_next) ++node.listed;
  }
  return --node.listed == 2;
}

size_t PrefixTree::count_dead(size_t most) {
  size_t count = 0;
  for (NodeId id = orphans_; is_node(id) && count < most; id = (*this)[id].hash_next) {
    ++count;
    for (NodeId up = (*this)[id].parent; count < most && is_node(up); up = (*this)[up].parent) {
      if (!last_dead_child((*this)[up])) break;
      ++count;
    }
  }
  for (NodeId id = orphans_; is_node(id); id = (*this)[id].hash_next) {
    for (NodeId up = (*this)[id].parent; is_node(up) && (*this)[up].listed > 1; up = (*this)[up].parent)
      (*this)[up].listed = 1;
  }
  return count;
}

}  // namespace kvc
