// SPDX-License-Identifier: Apache-2.0
// kvc_manager_check: counts everything anew and compares. The first difference is reported. O(blocks + nodes
// + tables).
#include "manager/growth.h"
#include "manager/guard.h"

namespace kvc {
namespace {

struct Holds {
  uint32_t refs, pins;
};

#define KVC_CHECK(condition, ...) \
  if (!(condition)) return fail(KVC_ERROR_CORRUPT, __VA_ARGS__)

}  // namespace

class Checker {
 public:
  explicit Checker(Manager& manager)
      : m_(manager),
        pool_(manager.pool_),
        tree_(manager.tree_),
        shape_(manager.shape_),
        scratch_(manager.env_) {}

  kvc_status run() {
    if (!holds_.create(scratch_, pool_.num_ids()) || !cursors_.create(scratch_, tree_.max_nodes()) ||
        !users_.create(scratch_, m_.namespaces_.size()) ||
        !nodes_of_.create(scratch_, m_.namespaces_.size()) ||
        !cached_.create(scratch_, m_.namespaces_.size() * shape_.num_pools)) {
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to check %llu blocks",
                  static_cast<unsigned long long>(pool_.num_ids()));
    }
    kvc_status status = requests();
    if (status == KVC_OK) status = pins();
    copies_in_progress();
    for (size_t p = 0; p < shape_.num_pools && status == KVC_OK; ++p) status = pool(p);
    if (status == KVC_OK) status = blocks();
    if (status == KVC_OK) status = nodes();
    if (status == KVC_OK) status = namespaces();
    if (status == KVC_OK) status = zeroing();
    return status;
  }

 private:
  kvc_status requests() {
    size_t live = 0, all = 0;
    for (size_t i = 0; i < m_.requests_.size(); ++i) {
      Request& r = m_.requests_.at(i);
      if (r.id == 0 && !r.building) continue;
      ++all;
      ++users_[r.ns];
      if (r.building) continue;
      KVC_CHECK(r.committed <= r.known && r.committed <= r.capacity,
                "request %zu: committed %u, known %u, capacity %u", i, r.committed, r.known, r.capacity);
      KVC_CHECK(r.tail_base <= r.published * shape_.block_size && r.known - r.tail_base <= r.tail.capacity,
                "request %zu: its tail does not cover its tokens", i);
      if (!r.admitted) {
        KVC_CHECK(r.append_limit == 0, "request %zu waits with an open lane", i);
        KVC_CHECK(r.positions == 0 && r.capacity == 0 && r.tail_base == 0,
                  "request %zu waits but has %u positions", i, r.positions);
        KVC_CHECK(r.num_hashes == r.known / shape_.block_size && r.hashed == r.num_hashes,
                  "request %zu waits with %u of %u hashes", i, r.num_hashes, r.known / shape_.block_size);
        continue;
      }
      ++live;
      KVC_CHECK(r.positions == ceil_div(r.capacity, shape_.block_size),
                "request %zu: %u positions for a capacity of %u", i, r.positions, r.capacity);
      KVC_CHECK(r.published * shape_.block_size <= r.committed, "request %zu published %u of %u tokens", i,
                r.published * shape_.block_size, r.committed);
      if (is_node(r.cursor)) {
        KVC_CHECK(tree_.alive(r.cursor) && tree_[r.cursor].depth + 1 == r.published,
                  "request %zu: its cursor is wrong", i);
        ++cursors_[static_cast<size_t>(raw(r.cursor))];
      } else {
        KVC_CHECK(r.published == 0, "request %zu published %u positions and has no cursor", i, r.published);
      }
      KVC_TRY(tables(i, r));
      KVC_TRY(lane(i, r));
    }
    for (size_t row = 0; row < m_.row_owners_.size(); ++row) {
      const Request* owner = m_.requests_.find(m_.row_owners_[row]);
      KVC_CHECK(owner == nullptr || owner->row == static_cast<int32_t>(row),
                "row %zu is kept for request %u, which is in row %d", row, m_.requests_.index_of(*owner),
                owner->row);
    }
    KVC_CHECK(live == m_.live_requests_ && all == m_.num_requests_,
              "%zu requests, %zu admitted; counted %llu, %llu", all, live,
              static_cast<unsigned long long>(m_.num_requests_),
              static_cast<unsigned long long>(m_.live_requests_));
    return KVC_OK;
  }

  // What an open lane promises about the request's next tokens.
  kvc_status lane(size_t i, const Request& r) {
    if (r.known >= r.append_limit) return KVC_OK;
    const uint32_t position = r.known / shape_.block_size;
    KVC_CHECK(!r.tail_shared && r.append_limit <= (position + 1) * shape_.block_size &&
                  uint64_t{r.append_limit} + r.lookahead <= r.room &&
                  r.append_limit - r.tail_base <= r.tail.capacity,
              "request %zu: its lane goes to %u tokens, room is for %u", i, r.append_limit, r.room);
    KVC_CHECK(r.commit_limit < r.next_full && r.next_token == r.tail.data + (r.known - r.tail_base),
              "request %zu: its lane commits %u tokens, %u would be published", i, r.commit_limit,
              r.next_full);
    KVC_CHECK(r.slot_base ==
                  (int64_t{raw(r.groups[0].blocks.data[position])} - position) * int64_t{shape_.block_size},
              "request %zu: its lane leads to other slots than block %d", i,
              raw(r.groups[0].blocks.data[position]));
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      const uint32_t tail = r.capacity / shape_.block_size;  // where capacity grows into
      if (tail < r.positions) {
        const Block& block = pool_[r.groups[g].blocks.data[tail]];
        KVC_CHECK(block.refs == 1 && block.external == 0 && block.pins == 0 && !is_node(block.node),
                  "request %zu, group %u: its lane goes on in a shared block", i, g);
      }
      KVC_CHECK(!shape_.groups[g].windowed() ||
                    r.groups[g].dropped >=
                        shape_.groups[g].window_start(
                            r.committed > r.commit_limit ? r.committed : r.commit_limit, shape_.block_size),
                "request %zu, group %u: its lane passes over window blocks", i, g);
    }
    return KVC_OK;
  }

  kvc_status tables(size_t i, const Request& r) {
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      const GroupShape& shape = shape_.groups[g];
      const GroupTable& table = r.groups[g];
      NodeId node = r.cursor;
      for (size_t j = r.positions; j-- > 0;) {
        const BlockId id = table.blocks.data[j];
        const bool dropped = shape.windowed() && j >= shape.sinks && j < table.dropped;
        KVC_CHECK(is_block(id) != dropped,
                  "request %zu, group %u, position %zu: block %d, returned positions end at %u", i, g, j,
                  raw(id), table.dropped);
        const NodeId here = j < r.published ? node : kNoNode;
        if (j < r.published) node = tree_[node].parent;
        if (dropped) continue;
        KVC_CHECK(pool_.exists(raw(id)) && pool_[id].pool == shape.pool && pool_[id].group == g,
                  "request %zu, group %u, position %zu: block %d is not of this group", i, g, j, raw(id));
        KVC_CHECK(j >= r.published || pool_[id].node == here || !is_node(pool_[id].node),
                  "request %zu, group %u, position %zu: block %d is published elsewhere", i, g, j, raw(id));
        KVC_CHECK((pool_[id].written != 0) || j * shape_.block_size >= r.committed,
                  "block %d holds committed tokens, marked unwritten", raw(id));
        ++holds_[static_cast<size_t>(raw(id))].refs;
      }
    }
    return KVC_OK;
  }

  // Sources of copies are held: those of single calls until they are taken, those of a step until it ends.
  void copies_in_progress() {
    const auto hold = [&](const kvc_block_copy& copy) { ++holds_[static_cast<size_t>(copy.source)].refs; };
    for (size_t i = 0; i < m_.num_copies_; ++i) hold(m_.copies_.data[i]);
    for (const Manager::CopyList* step = m_.executing_; step != nullptr; step = step->next) {
      for (size_t i = 0; i < step->count; ++i) hold(step->out[i]);
    }
  }

  kvc_status pins() {
    for (size_t i = 0; i < m_.pins_.size(); ++i) {
      const Pin& pin = m_.pins_.at(i);
      if (pin.id == 0) continue;
      ++users_[pin.ns];
      for (size_t j = 0; j < pin.length * shape_.num_groups; ++j) {
        const BlockId id = pin.blocks.data[j];
        if (is_block(id)) ++holds_[static_cast<size_t>(raw(id))].pins;
      }
    }
    return KVC_OK;
  }

  kvc_status pool(size_t p) {
    const PoolCounts& counts = pool_.counts(p);
    size_t free = 0, lru = 0, fenced = 0, stale = 0;
    for (BlockId id = pool_.free_top(p); is_block(id); id = pool_[id].next, ++free) {
      KVC_CHECK(pool_[id].list == List::kFree && pool_[id].pool == p && free <= counts.free,
                "FREE of pool %zu holds block %d", p, raw(id));
    }
    for (BlockId id = pool_.lru_head(p); !pool_.at_end(id); id = pool_[id].next, ++lru) {
      KVC_CHECK(
          pool_[id].list == List::kLru && pool_[id].pool == p && lru <= counts.lru && is_node(pool_[id].node),
          "LRU of pool %zu holds block %d", p, raw(id));
      const Node& node = tree_[pool_[id].node];
      if (tree_.stale(node)) {
        ++stale;
      } else {
        ++cached(node.ns, p);
      }
    }
    uint32_t fence = 0;
    for (BlockId id = pool_.fenced_head(p); !pool_.at_end(id); id = pool_[id].next, ++fenced) {
      KVC_CHECK(pool_[id].list == List::kFenced && pool_[id].pool == p && fenced <= counts.fenced,
                "FENCED of pool %zu holds block %d", p, raw(id));
      KVC_CHECK(fenced == 0 || static_cast<int32_t>(pool_[id].fence - fence) >= 0,
                "FENCED of pool %zu is out of order", p);
      KVC_CHECK(!pool_.fence_passed(pool_[id], m_.retired_), "block %d is fenced by a retired step", raw(id));
      fence = pool_[id].fence;
    }
    KVC_CHECK(free == counts.free && lru == counts.lru && fenced == counts.fenced && stale == counts.stale,
              "pool %zu has %zu free, %zu in LRU (%zu stale), %zu fenced; counted %llu, %llu (%llu), %llu", p,
              free, lru, stale, fenced, static_cast<unsigned long long>(counts.free),
              static_cast<unsigned long long>(counts.lru), static_cast<unsigned long long>(counts.stale),
              static_cast<unsigned long long>(counts.fenced));
    return KVC_OK;
  }

  kvc_status blocks() {
    for (size_t p = 0; p < shape_.num_pools; ++p) {
      const PoolCounts& counts = pool_.counts(p);
      uint64_t listed[4] = {}, reserved = 0, pinned = 0;
      for (uint64_t i = counts.first; i < counts.first + counts.size; ++i) {
        const BlockId id{static_cast<int32_t>(i)};
        const Block& block = pool_[id];
        ++listed[static_cast<size_t>(block.list)];
        const bool held = block.list == List::kHeld;
        KVC_CHECK(held == block.held(), "block %d: list %d with %u references, %u external holds, %u pins",
                  raw(id), static_cast<int>(block.list), block.refs, block.external, block.pins);
        KVC_CHECK(block.refs == holds_[i].refs && block.pins == holds_[i].pins,
                  "block %d: %u references and %u pins; tables have %u, pins %u", raw(id), block.refs,
                  block.pins, holds_[i].refs, holds_[i].pins);
        KVC_CHECK(!is_node(block.node) || block.list != List::kFree, "block %d is free and published",
                  raw(id));
        KVC_CHECK(!is_node(block.node) || block.written != 0, "block %d is published and not written",
                  raw(id));
        KVC_CHECK(is_node(block.node) || block.next_copy == id, "block %d is not published and has copies",
                  raw(id));
        reserved += held && block.written == 0;
        pinned += held && block.refs == 0 && block.external == 0;
        if (is_node(block.node)) {
          KVC_TRY(copies(id));
        }
      }
      KVC_CHECK(reserved == counts.reserved && pinned == counts.pinned,
                "pool %zu: %llu reserved, %llu pinned; counted %llu, %llu", p,
                static_cast<unsigned long long>(reserved), static_cast<unsigned long long>(pinned),
                static_cast<unsigned long long>(counts.reserved),
                static_cast<unsigned long long>(counts.pinned));
      KVC_CHECK(listed[0] + counts.free + counts.lru + counts.fenced == counts.size,
                "the states of pool %zu do not sum to it", p);
    }
    return KVC_OK;
  }

  kvc_status copies(BlockId id) {
    const Block& block = pool_[id];
    KVC_CHECK(tree_.alive(block.node), "block %d hangs on a dead node", raw(id));
    const BlockId lowest = tree_.block_of(block.node, block.group);
    KVC_CHECK(is_block(lowest) && raw(lowest) <= raw(id), "block %d is lower than the lowest copy, %d",
              raw(id), raw(lowest));
    if (lowest != id) return KVC_OK;
    size_t idle = 0, count = 0;
    BlockId copy = id;
    do {
      KVC_CHECK(
          pool_[copy].node == block.node && pool_[copy].group == block.group && ++count <= block_limit(),
          "the copies of block %d are broken", raw(id));
      KVC_CHECK(tree_.in_ring(copy), "the copies of block %d are broken at block %d", raw(id), raw(copy));
      idle += pool_[copy].list == List::kLru;
      copy = pool_[copy].next_copy;
    } while (copy != id);
    KVC_CHECK(idle <= 1, "block %d has %zu idle copies", raw(id), idle);
    return KVC_OK;
  }

  kvc_status nodes() {
    size_t alive = 0;
    for (size_t i = 0; i < tree_.max_nodes(); ++i) {
      const NodeId id{static_cast<int32_t>(i)};
      if (!tree_.alive(id)) continue;
      const Node& node = tree_[id];
      ++alive;
      ++nodes_of_[node.ns];
      KVC_CHECK(node.resident != 0 || node.holds != 0 || is_node(node.first_child),
                "node %zu has no block, child or holder", i);
      KVC_CHECK(node.holds == cursors_[i], "node %zu has %u holders, %u cursors", i, node.holds, cursors_[i]);
      KVC_CHECK(!is_node(node.parent) ||
                    (tree_.alive(node.parent) && tree_[node.parent].depth + 1 == node.depth &&
                     tree_[node.parent].ns == node.ns && tree_[node.parent].epoch == node.epoch),
                "node %zu hangs on a wrong parent", i);
      uint32_t resident = 0;
      for (uint32_t g = 0; g < shape_.num_groups; ++g) {
        const BlockId block = tree_.block_of(id, g);
        if (!is_block(block)) continue;
        resident |= 1u << g;
        KVC_CHECK(pool_[block].node == id && pool_[block].group == g, "node %zu: block %d hangs elsewhere", i,
                  raw(block));
      }
      KVC_CHECK(resident == node.resident, "node %zu: resident mask %x, groups with a block %x", i,
                node.resident, resident);
      const ExtraView none;
      KVC_CHECK(node.extra != nullptr ||
                    tree_.find(node.parent, node.key, tree_.tokens(id), none, node.epoch) == id,
                "node %zu is not found by its content", i);
      NodeId child = node.first_child;
      NodeId before = kNoNode;
      for (; is_node(child); before = child, child = tree_[child].sibling_next) {
        KVC_CHECK(tree_[child].parent == id && tree_[child].sibling_prev == before,
                  "the children of node %zu are broken", i);
      }
    }
    for (NodeId id = tree_.first_orphan(); is_node(id); id = tree_[id].hash_next) {
      ++alive;
      ++nodes_of_[tree_[id].ns];
      KVC_CHECK(alive <= tree_.max_nodes(), "the orphans go in circles");
    }
    KVC_CHECK(alive == m_.counters_.nodes_used, "%zu nodes are in use, %llu counted", alive,
              static_cast<unsigned long long>(m_.counters_.nodes_used));
    return KVC_OK;
  }

  kvc_status namespaces() {
    for (uint32_t s = 0; s < m_.namespaces_.size(); ++s) {
      KVC_CHECK(m_.namespaces_[s].num_nodes == nodes_of_[s], "namespace %u has %u nodes, %u counted", s,
                nodes_of_[s], m_.namespaces_[s].num_nodes);
      NodeId before = kNoNode;
      for (NodeId child = m_.namespaces_[s].first_child; is_node(child);
           before = child, child = tree_[child].sibling_next) {
        KVC_CHECK(tree_[child].parent == root_of(s) && tree_[child].sibling_prev == before,
                  "the first positions of namespace %u are broken", s);
      }
      KVC_CHECK(m_.namespaces_[s].users == users_[s], "namespace %u has %u users, %u counted", s, users_[s],
                m_.namespaces_[s].users);
      for (size_t p = 0; p < shape_.num_pools; ++p) {
        KVC_CHECK(m_.namespaces_.cached(s, p) == cached(s, p),
                  "namespace %u has %llu cached blocks in pool %zu, %llu counted", s,
                  static_cast<unsigned long long>(cached(s, p)), p,
                  static_cast<unsigned long long>(m_.namespaces_.cached(s, p)));
      }
    }
    return KVC_OK;
  }

  kvc_status zeroing() {
    const Zeroing& list = m_.zeroing_;
    size_t listed = 0;
    for (size_t i = 0; list.on() && i < pool_.num_ids(); ++i)
      listed += list.listed(BlockId{static_cast<int32_t>(i)});
    KVC_CHECK(listed == list.count(), "%zu blocks are marked as to be cleared, %zu listed", listed,
              list.count());
    return KVC_OK;
  }

  uint64_t& cached(uint32_t ns, size_t pool) { return cached_[ns * shape_.num_pools + pool]; }
  size_t block_limit() const { return pool_.num_ids(); }

  Manager& m_;
  BlockPool& pool_;
  PrefixTree& tree_;
  const Shape& shape_;
  Memory scratch_;
  Array<Holds> holds_;
  Array<uint32_t> cursors_;
  Array<uint32_t> users_;
  Array<uint32_t> nodes_of_;  // per namespace
  Array<uint64_t> cached_;
};

kvc_status Manager::check() {
  const std::lock_guard lock(mutex_);
  return Checker(*this).run();
}

}  // namespace kvc
