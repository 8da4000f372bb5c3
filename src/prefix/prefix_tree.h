// SPDX-License-Identifier: Apache-2.0
// The prefix tree. A node is a position of a prefix, and blocks are attached to it. Its identity is (parent,
// tokens, extra keys) in one namespace and epoch; the table hash only finds candidates. A node dies when it
// has no block in any group, no child and no holder. So the parent of a living node never changes its
// identity, and a match is exact by induction.
//
// With events, a dead node keeps its place for a while (places.h).
//
// Readers of events build a tree: before a position is told of, its ancestors are, those without a block as
// waypoints (an event without a block). A waypoint is taken back when it gets a block, or dies.
//
// Invariants: a node is in its bucket's chain exactly while it is alive; siblings are linked newest first;
// `resident` has a bit per group with a block; block_of() is the first of the copies, which form a ring
// (copy_ring.h). A death goes up a bounded number of ancestors; the others wait in the list of orphans, out
// of the table. Not thread-safe.
#pragma once
#include "observe/counters.h"
#include "observe/event_ring.h"
#include "prefix/copies.h"
#include "prefix/identities.h"
#include "prefix/namespace_table.h"
#include "prefix/node_table.h"
#include "prefix/notes.h"
#include "prefix/places.h"
#include "prefix/tree_readers.h"

namespace kvc {

// Content to look for: one prompt in one namespace and epoch.
struct Prompt {
  const int32_t* tokens;   // of position 0 on
  const uint64_t* hashes;  // chain values of full blocks
  KeyList keys;
  NamespaceId ns;
  uint64_t epoch;
};

class PrefixTree {
 public:
  PrefixTree(BlockPool& pool, NamespaceTable& namespaces, Arena& arena, EventRing& events, Counters& counters)
      : pool_(pool), namespaces_(namespaces), arena_(arena), events_(events), counters_(counters) {}

  // `history`: positions without blocks whose uses are remembered; 0 = uses are not counted. `num_levels`:
  // that a position may have. `heads`: whether siblings stand in the order in which they got their first
  // block, the last one first.
  [[nodiscard]] bool create(Memory& memory, size_t max_nodes, uint32_t block_size, size_t num_groups,
                            uint64_t hash_mask, uint64_t secret, size_t history = 0, uint32_t num_levels = 1,
                            bool heads = false);

  Node& operator[](NodeId id) { return nodes_[static_cast<size_t>(raw(id))]; }
  const Node& operator[](NodeId id) const { return nodes_[static_cast<size_t>(raw(id))]; }
  const int32_t* tokens(NodeId id) const { return &rows_[static_cast<size_t>(raw(id)) * block_size_]; }
  const Places& places() const { return places_; }
  bool alive(NodeId id) const { return (*this)[id].listed != 0; }
  NodeId first_orphan() const { return orphans_; }
  NodeId first_child(NodeId parent) const {
    return is_node(parent) ? (*this)[parent].first_child
                           : namespaces_[~static_cast<uint32_t>(raw(parent))].first_child;
  }
  bool stale(const Node& node) const { return node.epoch != namespaces_.epoch(node.ns); }

  // First copy of a position in a group; kNoBlock if none.
  BlockId block_of(NodeId id, size_t group) const { return copies_.first(id, group); }
  const Copies& copies() const { return copies_; }
  Copies& copies() { return copies_; }

  NodeId find(NodeId parent, uint64_t key, const int32_t* tokens, const ExtraView& extra,
              uint64_t epoch) const;

  // Follows known positions from the root: path[i] is the node of position i. Stops before `limit`, at the
  // first unknown position, or at the first that lacks a block in one of the groups of `needed`.
  size_t walk(const Prompt& prompt, size_t limit, uint32_t needed, NodeId* path) const;
  // The same from position `begin`, whose parent is given.
  size_t walk(const Prompt& prompt, NodeId parent, size_t begin, size_t limit, uint32_t needed,
              NodeId* path) const;
  // The last known position of a prompt within `limit`; the root if none is. Needs no path.
  NodeId last_known(const Prompt& prompt, size_t limit) const;

  // Finds or makes the child of `parent` with this content; kNoNode if all nodes are in use.
  NodeId publish_position(NodeId parent, uint64_t key, const int32_t* tokens, ExtraRecords& extras,
                          size_t position, NamespaceId ns, uint64_t epoch) {
    if (is_node(first_child(parent))) {  // else nothing can be there: no need to look
      const NodeId known = find(parent, key, tokens, extras.view(position), epoch);
      if (is_node(known)) return known;
    }
    if (!has_room()) return kNoNode;
    return make(parent, key, tokens, extras.take(position), ns, epoch);
  }
  // The usual case of publishing: a chain of positions in a tree of one group, without extra keys, that must
  // be new because the first parent has no child. Makes them and attaches blocks[i], the only block of
  // position i. Returns how many it made, 0 if this is not the usual case; `parent` is then the last one.
  size_t publish_chain(NodeId& parent, const uint64_t* keys, const int32_t* tokens, const BlockId* blocks,
                       size_t count, NamespaceId ns, uint64_t epoch);
  // While it lives, token rows are written past the caches if there are many.
  class Bulk {
   public:
    Bulk(PrefixTree& tree, size_t count) : tree_(tree) { tree.stream_ = count >= 8; }
    ~Bulk();
    Bulk(const Bulk&) = delete;
    Bulk& operator=(const Bulk&) = delete;

   private:
    PrefixTree& tree_;
  };
  size_t free_nodes() const { return max_nodes_ - counters_.nodes_used; }
  // Whether a new position has a node. Also reclaims orphans: doing so once for each new node keeps up with
  // them. Takes places into use.
  bool has_room() { return has_place() || reclaim(); }
  // The same as it is now, with nothing to reclaim.
  bool has_place() const { return is_node(places_.next()) && !is_node(orphans_) && free_nodes() != 0; }

  // Publishes a held block at a position.
  void attach(NodeId id, size_t group, BlockId block) {
    Node& node = (*this)[id];
    const uint32_t bit = 1u << group;
    if ((node.resident & bit) != 0) {
      copies_.attach(id, group, block);
      return;
    }
    if (node.resident == 0 && notes_residence_) [[unlikely]]
      begin_residence(id);
    node.resident |= bit;
    Block& record = pool_[block];
    record.node = id;
    record.next_copy = block;
    copies_.set_first(id, group, block);
    ++counters_.published_blocks;
    if (!events_.enabled()) return;
    if (identities_.is_waypoint(id) || !is_told(node.parent)) [[unlikely]]
      identities_.tell_way(id, group);
    tell(kEventStored, id, group, block);
  }
  // Takes a block from its position; the position may die.
  void detach(BlockId id) {
    Block& block = pool_[id];
    if (block.next_copy != id) {
      copies_.detach(id);
      return;
    }
    const NodeId position = std::exchange(block.node, kNoNode);
    Node& node = (*this)[position];
    const size_t group = block.group;
    if (!stale(node)) tell(kEventRemoved, position, group, id);
    copies_.set_first(position, group, kNoBlock);
    node.resident &= ~(1u << group);
    if (node.resident == 0) {
      if (notes_.on()) [[unlikely]]
        notes_.end(position, stale(node));
      if (events_.enabled() && is_node(node.first_child) && !stale(node))
        identities_.begin_waypoint(position, group);
    }
    if (unused(node)) bury(position);
  }
  // The usual tree and time: one group, and nobody who must know what happens to positions.
  bool is_plain() const { return num_groups_ == 1 && !notes_.on() && !readers_.any() && !events_.enabled(); }
  // Then: detach() of the only block of a position.
  void detach_only(NodeId id);

  const Notes& notes() const { return notes_; }
  Notes& notes() { return notes_; }

  void hold(NodeId id) {
    if (is_node(id)) ++(*this)[id].holds;
  }
  void release(NodeId id) {
    if (is_node(id) && --(*this)[id].holds == 0 && unused((*this)[id])) bury(id);
  }

  // The number of nodes that are dead and not reclaimed yet, at most `most`. Each new node reclaims one of
  // them at least. Visits them and their siblings.
  size_t count_dead(size_t most);
  // Whether a longer prefix is known. Dead nodes do not count: this reclaims them first, each once.
  bool has_children(NodeId id) {
    while (is_node((*this)[id].first_child) && is_node(orphans_)) reclaim();
    return is_node((*this)[id].first_child);
  }

  // Whether no longer prefix is known than those through the child `below`, which may be none.
  bool leads_only_to(NodeId id, NodeId below) {
    const auto only = [&] {
      const NodeId first = (*this)[id].first_child;
      return is_node(below) ? first == below && !is_node((*this)[below].sibling_next) : !is_node(first);
    };
    while (!only() && is_node(orphans_)) reclaim();
    return only();
  }

  // For loops over many positions: each call reads what an earlier one has fetched.
  const NodeTable& table() const { return table_; }
  void prefetch_node(NodeId id) const { __builtin_prefetch(&nodes_[static_cast<size_t>(raw(id))], 1); }
  // The same for a node that will be made.
  void prefetch_place(NodeId id) const {
    prefetch_node(id);
    __builtin_prefetch(&rows_[static_cast<size_t>(raw(id)) * block_size_], 1);
  }
  // What taking the node out of the table also reads: its bucket, then the first node of the bucket's chain.
  uint32_t prefetch_bucket_of(NodeId id) const {
    const uint64_t key = (*this)[id].key;
    table_.prefetch_write(key);
    return static_cast<uint32_t>(table_.bucket_of(key));
  }
  void prefetch_chain(uint32_t bucket) const {
    if (const NodeId first = table_.first_in(bucket); is_node(first)) prefetch_node(first);
  }

  bool has_events() const { return events_.enabled(); }
  // Whether readers of events were told of a position: it has a block, or is a waypoint. A root needs no
  // word.
  bool is_told(NodeId id) const {
    return !is_node(id) || (*this)[id].resident != 0 || identities_.is_waypoint(id);
  }
  // The group of a waypoint, -1 = it is none.
  int32_t waypoint_group(NodeId id) const {
    return events_.enabled() && identities_.is_waypoint(id)
               ? static_cast<int32_t>(identities_.waypoint_group(id))
               : -1;
  }

  Identities& identities() { return identities_; }
  TreeReaders& readers() const { return readers_; }
  uint64_t rejected_candidates() const { return rejected_; }

 private:
  static constexpr int kClimb = 8;

  bool unused(const Node& node) const {
    return node.resident == 0 && node.holds == 0 && !is_node(node.first_child);
  }
  void tell(uint32_t kind, NodeId id, size_t group, BlockId block) {
    if (events_.enabled()) events_.add(kind, (*this)[id].epoch, id, group, block);
  }
  // Positions that publish_chain has made below `parent`.
  void note_chain(NodeId parent, const BlockId* blocks, size_t count, uint64_t epoch);
  void begin_residence(NodeId id);
  void bury(NodeId id);  // an unused node; its ancestors may follow
  bool reclaim();
  bool last_dead_child(Node& node);
  void tell_readers(NodeId dead) {
    if (readers_.any()) [[unlikely]]
      readers_.fall_back(dead, (*this)[dead].parent, (*this)[dead].sibling_next);
  }
  NodeId make(NodeId parent, uint64_t key, const int32_t* tokens, ExtraRecord* extra, NamespaceId ns,
              uint64_t epoch);
  template <bool kPlain>
  void bury_chain(NodeId id);
  template <bool kPlain>
  void take_from_table(NodeId id);
  // Frees a node that is out of the table; returns its parent if that is now unused.
  template <bool kPlain>
  NodeId free_node(NodeId id);
  // find() among the nodes of a bucket from `first` on, inline.
  NodeId look_up(NodeId first, NodeId parent, uint64_t key, const int32_t* tokens, const ExtraView& extra,
                 uint64_t epoch) const;
  template <bool kHasKeys>
  size_t walk_positions(const Prompt& prompt, NodeId parent, size_t begin, size_t limit, uint32_t needed,
                        NodeId* path) const;
  bool same_tokens(NodeId id, const int32_t* tokens) const;
  void write_row(NodeId id, const int32_t* tokens);

  BlockPool& pool_;
  NamespaceTable& namespaces_;
  Arena& arena_;
  EventRing& events_;
  Counters& counters_;
  Array<Node> nodes_;
  Array<int32_t> rows_;  // tokens, block_size per node
  NodeTable table_;
  Copies copies_{pool_, counters_};
  Identities identities_{*this, namespaces_, events_};  // only with events
  Places places_{arena_, events_, identities_};
  Notes notes_;
  bool orders_heads_ = false;
  bool notes_residence_ =
      false;  // whether a first block means something for uses or for the order of siblings
  uint32_t block_size_ = 0;
  size_t num_groups_ = 0;
  size_t max_nodes_ = 0;  // that are in use at a time
  NodeId orphans_ = kNoNode;
  mutable TreeReaders readers_;  // between two slices
  bool stream_ = false;
  mutable uint64_t rejected_ = 0;
};

}  // namespace kvc
