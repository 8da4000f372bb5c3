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
                        uint64_t hash_mask, uint64_t secret, size_t history, bool hints, bool heads) {
  block_size_ = block_size;
  num_groups_ = num_groups;
  max_nodes_ = max_nodes;
  const size_t most = std::numeric_limits<int32_t>::max() - max_nodes;
  const size_t places = max_nodes + (events_.capacity() < most ? events_.capacity() : most);
  const size_t buckets = next_power_of_two(2 * max_nodes);
  bucket_shift_ = 64 - __builtin_ctzll(buckets);
  spread_ = secret | 1;
  hash_mask_ = hash_mask;
  size_t row_tokens;
  if (!checked_mul(places, block_size, &row_tokens)) return false;
  if (!nodes_.create(memory, places) || !rows_.create(memory, row_tokens) ||
      !buckets_.create(memory, buckets) || !copies_.create(memory)) {
    return false;
  }
  if (num_groups > 1 && !more_.create(memory, places * (num_groups - 1))) return false;
  if (events_.enabled() && (!identities_.create(memory, places, block_size) || !dead_.create(memory, places)))
    return false;
  if (!uses_.create(memory, places, history, secret) || (hints && !retention_.create(memory, places)))
    return false;
  annotates_ = uses_.on() || retention_.on();
  orders_heads_ = heads;
  notes_residence_ = uses_.on() || heads;
  // This touches the whole table. It would be touched soon, at random. And a huge page that is read before it
  // is written falls apart into small ones (Linux before 6.13), which each look-up would pay for.
  std::memset(buckets_.data(), 0xff, buckets * sizeof(int32_t));
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
    if (((node.key ^ key) & hash_mask_) != 0) continue;
    if (node.parent == parent && node.epoch == epoch && same_tokens(id, tokens) && extra.equals(node.extra))
      return id;
    ++rejected_;
  }
  return kNoNode;
}

NodeId PrefixTree::find(NodeId parent, uint64_t key, const int32_t* tokens, const ExtraView& extra,
                        uint64_t epoch) const {
  return look_up(first_of(key), parent, key, tokens, extra, epoch);
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
    const NodeId id = first[i % kNodeAhead] = first_of(prompt.hashes[i]);
    if (!is_node(id)) return;
    __builtin_prefetch(&(*this)[id]);
    __builtin_prefetch(tokens(id));
  };
  for (size_t i = begin; i < begin + kNodeAhead && i < limit; ++i) look_ahead(i);
  for (size_t i = begin; i < limit; ++i) {
    const NodeId candidate = first[i % kNodeAhead];
    if (i + kBucketAhead < limit) __builtin_prefetch(&buckets_[bucket_of(prompt.hashes[i + kBucketAhead])]);
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
                                 const BlockId* blocks, size_t count, uint32_t ns, uint64_t epoch) {
  if (num_groups_ != 1 || is_node(orphans_) || is_node(first_child(parent)) || !has_room()) return 0;
  if (count > free_nodes()) count = free_nodes();
  constexpr size_t kBucketAhead = 12, kBlockAhead = 6;
  Node* const nodes = nodes_.data();
  int32_t* const buckets = buckets_.data();
  const BucketHash bucket_of = bucket_hash();
  const uint32_t block_size = block_size_;
  NodeId* link = is_node(parent) ? &nodes[raw(parent)].first_child : &namespaces_[ns].first_child;
  uint32_t depth = is_node(parent) ? nodes[raw(parent)].depth + 1 : 0;
  NodeId last = parent, id = free_;
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
  free_ = id;
  if (is_node(id)) prefetch_place(id);  // for the next call
  pool_.count_written(pool_[blocks[0]].pool, written);
  counters_.nodes_used += i;
  counters_.published_blocks += i;
  namespaces_[ns].num_nodes += static_cast<uint32_t>(i);
  for (size_t j = 0; j < i && events_.enabled(); ++j) {
    const NodeId made = pool_[blocks[j]].node;
    identities_.begin(made);
    if (j == 0 && !is_told(parent)) tell_way(made, 0);
    events_.add(kEventStored, epoch, made, 0, blocks[j]);
  }
  if (uses_.on()) [[unlikely]]
    begin_uses(blocks, i);
  parent = last;
  return i;
}

NodeId PrefixTree::make(NodeId parent, uint64_t key, const int32_t* tokens, ExtraRecord* extra, uint32_t ns,
                        uint64_t epoch) {
  Node* const nodes = nodes_.data();
  const auto at = [nodes](NodeId id) -> Node& { return nodes[raw(id)]; };
  const NodeId id = free_;
  Node& node = at(id);
  free_ = node.hash_next;
  prefetch_node(NodeId{static_cast<int32_t>(node.key)});  // free_node left word of a later one
  ++counters_.nodes_used;
  ++namespaces_[ns].num_nodes;

  write_row(id, tokens);
  int32_t& bucket = buckets_[bucket_of(key)];
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
  for (size_t g = 1; g < num_groups_; ++g) set_block(id, g, kNoBlock);
  if (events_.enabled()) identities_.begin(id);
  return id;
}

void PrefixTree::begin_uses(const BlockId* blocks, size_t count) {
  constexpr size_t kBucketAhead = 12, kEntryAhead = 6;
  const auto key = [&](size_t i) { return use_key((*this)[pool_[blocks[i]].node]); };
  for (size_t j = 0; j < count; ++j) {
    if (j + kBucketAhead < count) uses_.prefetch(key(j + kBucketAhead));
    if (j + kEntryAhead < count) uses_.prefetch_entry(key(j + kEntryAhead));
    uses_.begin(pool_[blocks[j]].node, key(j));
    use(pool_[blocks[j]].node);
  }
}

void PrefixTree::use(NodeId id) {
  const Node& node = (*this)[id];
  if (node.resident == 0) return;
  const bool nested = is_node(node.parent) && (*this)[node.parent].resident != 0;
  uses_.add(id, nested ? uses_.of(node.parent) : Uses::kMost);
}

// A node that others kept without a block becomes the newest sibling, as if it had died in between: who kept
// it must not decide what a request copies.
void PrefixTree::begin_residence(NodeId id) {
  Node& node = (*this)[id];
  if (uses_.on()) uses_.begin(id, use_key(node));
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

void PrefixTree::end_residence(NodeId id) {
  if (retention_.on()) retention_.end(id);
  if (!uses_.on()) return;
  const Node& node = (*this)[id];
  if (stale(node)) return uses_.end_stale(id);  // what is stale never comes back
  DigestHash tag;                               // where the position was; its tokens would cost a cache miss
  tag.add(node.depth);
  tag.add(node.ns);
  uses_.end(id, use_key(node), static_cast<uint32_t>(tag.value()));
}

// Before a block of the group is told of at a position: it is no waypoint any more, and its ancestors were
// told of, the first one first.
[[gnu::noinline]] void PrefixTree::tell_way(NodeId id, size_t group) {
  if (identities_.is_waypoint(id)) end_waypoint(id);
  NodeId at = id;
  for (NodeId parent = (*this)[at].parent; !is_told(parent); parent = (*this)[at].parent) {
    identities_.note_way(parent, at);
    at = parent;
  }
  for (; at != id; at = identities_.way_down(at)) begin_waypoint(at, group);
}

// Chains are short and new nodes come first, so walking one costs less than links back would.
template <bool kPlain>
inline void PrefixTree::take_from_table(NodeId id) {
  Node* const nodes = nodes_.data();
  Node& node = nodes[raw(id)];
  node.listed = 0;
  if (!kPlain && events_.enabled() && identities_.is_waypoint(id)) end_waypoint(id);
  if (!kPlain) tell_readers(id);
  int32_t& bucket = buckets_[bucket_of(node.key)];
  if (bucket == raw(id)) {
    bucket = raw(node.hash_next);
    return;
  }
  int32_t before = bucket;
  while (nodes[before].hash_next != id) before = raw(nodes[before].hash_next);
  nodes[before].hash_next = node.hash_next;
}

inline void PrefixTree::release_extra(Node& node) {
  if (node.extra != nullptr) [[unlikely]] {
    arena_.release(node.extra, ExtraRecord::bytes(node.extra->count));
    node.extra = nullptr;
  }
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
    node.key = events_.next_sequence();
    const size_t end = first_dead_ + num_dead_++;
    dead_[end < dead_.size() ? end : end - dead_.size()] = id;
  } else {
    release_extra(node);
    node.hash_next = free_;
    free_ = id;
    NodeId& earlier =
        recently_freed_[num_freed_++ % kRecent];  // will be taken kRecent calls after this one: a hint
    node.key = static_cast<uint64_t>(raw(earlier));
    earlier = id;
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
  if (!is_node(free_)) {
    const bool wait = num_dead_ == 0 || (*this)[dead_[first_dead_]].key > events_.oldest();
    if (wait && num_places_ < nodes_.size()) {
      add_places();
    } else {
      reuse_dead();
    }
  }
  return true;
}

// Takes places into use that were not before.
void PrefixTree::add_places() {
  constexpr size_t kAtOnce = 256;
  const size_t first = num_places_;
  num_places_ = std::min(first + kAtOnce, nodes_.size());
  for (size_t i = num_places_; i-- > first;) {
    nodes_[i].hash_next = free_;
    free_ = NodeId{static_cast<int32_t>(i)};
  }
}

// Some of the dead become free nodes. There are no others.
void PrefixTree::reuse_dead() {
  constexpr size_t kAtOnce = 64, kAhead = 8;
  events_.drop_before((*this)[dead_[first_dead_]].key);  // changes something only if positions told no event
  NodeId* link = &free_;
  for (size_t i = 0; i < kAtOnce && num_dead_ != 0; ++i) {
    const NodeId id = dead_[first_dead_],
                 later = dead_[first_dead_ + kAhead < dead_.size() ? first_dead_ + kAhead : 0];
    prefetch_node(later);
    identities_.prefetch(later);
    Node& node = (*this)[id];
    if (node.key > events_.oldest()) break;
    release_extra(node);
    node.key = static_cast<uint64_t>(raw(later));  // a hint, as free_node() leaves it
    *link = id;
    link = &node.hash_next;
    if (++first_dead_ == dead_.size()) first_dead_ = 0;
    --num_dead_;
  }
  *link = kNoNode;
}

bool PrefixTree::places_intact() const {
  size_t count = counters_.nodes_used + num_dead_;
  for (NodeId id = free_; is_node(id); id = (*this)[id].hash_next)
    if (alive(id) || ++count > num_places()) return false;
  uint64_t before = 0;
  for (size_t i = 0; i < num_dead_; ++i) {
    const size_t at = first_dead_ + i;
    const Node& node = (*this)[dead_[at < dead_.size() ? at : at - dead_.size()]];
    if (node.listed != 0 || node.key < before || node.key > events_.next_sequence()) return false;
    before = node.key;
  }
  return count == num_places();
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
