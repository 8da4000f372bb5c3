// SPDX-License-Identifier: Apache-2.0
// Carries what one manager has cached into a new one of another block size. Runs under both locks; the old
// manager is only read.
//
// The old blocks are taken in the reverse order of eviction. Each brings the new positions that end inside
// it; those get blocks until the new pool is full. So what is left out is what the old manager would evict
// first. Positions before them that no block was brought for yet are made without one; the others' turn comes
// later, or they die at the end. Equal beginnings of several old blocks are one new position, which the tree
// finds.
//
// Invariants: `made` is set once all new positions that end in an old one exist, down from the root; `tip` is
// then the last new position that ends in it or before it.
#include <kvcache/rebuild.h>

#include <algorithm>

#include "manager/manager.h"

namespace kvc {

class Rebuild {
 public:
  Rebuild(const Manager& from, Manager& to)
      : from_(from), to_(to), old_tree_(from.blocks_.tree()), shape_(to.shape_), blocks_(to.blocks_) {}

  // BUFFER_TOO_SMALL, with counts, leaves a manager that the caller destroys, as OUT_OF_MEMORY does.
  kvc_status run(kvc_rebuild* out) {
    out_ = out;
    out->num_copies = out->num_namespaces = 0;
    out->num_blocks = 0;
    if (!seen_.create(to_.memory_, old_tree_.places().used() + 1) ||
        !new_ns_.create(to_.memory_, from_.blocks_.namespaces().size()) ||
        !keys_.create(to_.memory_, most_keys_of_block(shape_.block_size) + 1) ||
        !taken_.create(to_.memory_, shape_.num_ids)) {
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to go through %llu positions",
                  ull(from_.counters_.nodes_used));
    }
    KVC_TRY(carry_namespaces());
    find_reachable();
    if (old_tree_.notes().retention().on() && blocks_.tree().notes().retention().on())
      blocks_.cached.pass_time(from_.blocks_.cached.now());
    size_t begin[kMaxPools + 1] = {};
    for (size_t p = 0; p < shape_.num_pools; ++p) {
      if (shape_.caches()) KVC_TRY(carry_pool(p));
      begin[p + 1] = num_taken_;
    }
    blocks_.positions.end_positions();
    blocks_.lineages().carry(from_.blocks_.lineages().current());
    for (size_t p = 0; p < shape_.num_pools; ++p) release(begin[p], begin[p + 1]);
    return finish();
  }

 private:
  struct Seen {  // of an old position
    NodeId tip, down;
    bool reachable, made;
  };
  struct Part {  // tokens of an old position that a new one has
    NodeId old;
    uint32_t begin, new_begin, count;
  };
  struct Leaving {  // an old block of the cached ones
    uint32_t level;
    uint64_t at;     // when, among those of its level, to compare
    uint64_t bonus;  // of `at`: of equal ones that of the lowest shelf leaves first
    uint32_t place;  // in the lists
    BlockId block;
    auto operator<=>(const Leaving&) const = default;
    uint64_t came() const { return at - bonus; }
  };
  struct Taken {  // a new block
    uint64_t came;
    BlockId block;
  };
  static constexpr uint32_t kNoGroup = UINT32_MAX;
  static constexpr size_t kMostTokens = 1024;

  Seen& seen(NodeId old) { return seen_[static_cast<size_t>(raw(old))]; }
  uint64_t begin_of(NodeId old) const { return uint64_t{old_tree_[old].depth} * from_.shape_.block_size; }
  uint64_t end_of(NodeId old) const { return begin_of(old) + from_.shape_.block_size; }

  kvc_status carry_namespaces() {
    const NamespaceTable& old = from_.blocks_.namespaces();
    for (uint32_t i = 1; i < old.size(); ++i) {
      if (old[i].opens == 0) continue;
      KVC_TRY(blocks_.s_.namespaces.open_like(old[i], &new_ns_[i]));
      if (out_->num_namespaces < out_->namespace_capacity)
        out_->namespaces[out_->num_namespaces] = {old.id(i), blocks_.namespaces().id(new_ns_[i])};
      ++out_->num_namespaces;
    }
    return KVC_OK;
  }

  kvc_status carry_pool(size_t pool) {
    Array<Leaving> line;
    const PoolCounts& counts = from_.blocks_.pool().counts(pool);
    if (counts.lru == 0) return KVC_OK;
    if (!line.create(to_.memory_, counts.lru))
      return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to order %llu blocks", ull(counts.lru));
    for (size_t i = line_up(pool, &line); i-- > 0;) {
      const Block& block = from_.blocks_.pool()[line[i].block];
      if (old_tree_.stale(old_tree_[block.node]) || !seen(block.node).reachable) continue;
      const bool carried = make_ancestors(block.node) && carry(block.node, block.group, line[i].came());
      if (out_of_memory_) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for extra keys of a position");
      if (!carried) break;  // the pool is full, or all nodes are in use
    }
    return KVC_OK;
  }

  // The cached blocks of a pool in the order in which they would leave.
  size_t line_up(size_t pool, Array<Leaving>* line) const {
    const BlockPool& old = from_.blocks_.pool();
    const Shape& shape = from_.shape_;
    size_t count = 0;
    for (size_t list = 0; list < old.shelves().num_lists(); ++list) {
      const Place place = old.shelves().place_of(list);
      const uint64_t bonus = shape.policy->bonus(place.shelf, shape.policy_weight, old.counts(pool).size);
      for (BlockId id = old.lru_head(pool, list); !old.at_end(id); id = old[id].next) {
        const uint64_t came = UINT64_MAX / 4 - old.shelves().age(id);
        (*line)[count] = {place.level, came + bonus, bonus, static_cast<uint32_t>(count), id};
        ++count;
      }
    }
    std::sort(line->data(), line->data() + count);
    return count;
  }

  // Whether a hit may go as far as to a position: it and all before it have a block in each group.
  void find_reachable() {
    const StateReader state = from_.state();
    for (uint32_t ns = 0; ns < new_ns_.size(); ++ns) {
      state.each_node_of(ns, [&](NodeId id, const Node& node) {
        const bool whole = node.resident == from_.shape_.token_groups();
        seen(id).reachable = whole && (!is_node(node.parent) || seen(node.parent).reachable);
      });
    }
  }

  // Makes the new positions that end before this old one. False if all nodes are in use.
  bool make_ancestors(NodeId old) {
    NodeId at = old;
    for (NodeId parent = old_tree_[at].parent; is_node(parent) && !seen(parent).made;
         parent = old_tree_[at].parent) {
      seen(parent).down = at;
      at = parent;
    }
    for (; at != old; at = seen(at).down) {
      if (!carry(at, kNoGroup, 0)) return false;
    }
    return true;
  }

  // Makes the new positions that end in an old one, and gives them blocks of the group. False if there is no
  // node or block left.
  bool carry(NodeId old, GroupIndex group, uint64_t came) {
    const uint32_t size = shape_.block_size;
    const NodeId before = old_tree_[old].parent;
    NodeId tip = is_node(before) ? seen(before).tip : root_of(new_ns_[old_tree_[old].ns]);
    for (uint64_t position = begin_of(old) / size; (position + 1) * size <= end_of(old); ++position) {
      gather(old, position * size);
      tip = make_position(tip, old, position);
      if (!is_node(tip)) return false;
      if (group != kNoGroup && !attach(tip, old, group, came)) return false;
    }
    seen(old).tip = tip;
    seen(old).made = true;
    return true;
  }

  // Gives a position a block of the group, unless an equal one has brought it.
  bool attach(NodeId node, NodeId old, GroupIndex group, uint64_t came) {
    if (is_block(blocks_.tree().block_of(node, group))) return true;
    const PoolIndex pool = shape_.groups[group].pool;
    if (blocks_.pool().counts(pool).free == 0) return false;
    const Notes& notes = old_tree_.notes();
    BlockId block;
    blocks_.take_for_contents(pool, 1, &block);
    blocks_.positions.carry_block(node, group, block, std::max(notes.uses().of(old), 1u),
                                  notes.retention().level(old), notes.retention().deadlines().of(old));
    taken_[num_taken_++] = {came, block};
    list_copies(group, block);
    return true;
  }

  NodeId make_position(NodeId parent, NodeId old, uint64_t position) {
    const NamespaceId ns = new_ns_[old_tree_[old].ns];
    ExtraRecords extras(to_.arena_, {keys_.data(), num_keys_}, position, position + 1, shape_.block_size);
    out_of_memory_ = out_of_memory_ || !extras.ok();
    if (out_of_memory_) return kNoNode;
    return blocks_.positions.carry_position(parent, to_.matcher_.chain(parent, ns), to_.hash_, tokens_,
                                            extras, position, ns);
  }

  // Reads the new position that begins at token `first` and ends in an old one, last part first.
  void gather(NodeId old, uint64_t first) {
    num_parts_ = num_keys_ = 0;
    for (NodeId at = old;; at = old_tree_[at].parent) {
      const uint64_t begin = begin_of(at), from = std::max(first, begin);
      const uint64_t until = std::min(first + shape_.block_size, end_of(at));
      parts_[num_parts_++] = {at, static_cast<uint32_t>(from - begin), static_cast<uint32_t>(from - first),
                              static_cast<uint32_t>(until - from)};
      std::copy_n(old_tree_.tokens(at) + (from - begin), until - from, tokens_ + (from - first));
      gather_keys(at, first);
      if (begin <= first) return;
    }
  }

  // A span over several old blocks is known to each of them. All keys lie over the new position, so no view
  // needs links.
  void gather_keys(NodeId old, uint64_t first) {
    const ExtraRecord* record = old_tree_[old].extra;
    for (uint64_t i = 0; record != nullptr && i < record->count; ++i) {
      const ExtraSpan& span = record->spans()[i];
      kvc_extra_key key = {begin_of(old) + static_cast<uint64_t>(span.offset), span.length, {}};
      std::memcpy(key.digest, span.digest, sizeof key.digest);
      if (key.first_token < first + shape_.block_size && key.first_token + key.num_tokens > first)
        num_keys_ = order_keys(&key, 1, keys_.data(), num_keys_);
    }
  }

  void list_copies(GroupIndex group, BlockId to) {
    for (size_t i = 0; i < num_parts_; ++i, ++out_->num_copies) {
      const auto& [old, begin, new_begin, count] = parts_[i];
      if (out_->num_copies < out_->copy_capacity)
        out_->copies[out_->num_copies] = {
            group, raw(old_tree_.block_of(old, group)), raw(to), begin, new_begin, count};
    }
  }

  // The block that leaves first comes first. With uses, which count beside the time of release, that time
  // counts alone.
  void release(size_t begin, size_t end) {
    Taken* const taken = taken_.data() + begin;
    std::reverse(taken, taken + (end - begin));
    if (old_tree_.notes().uses().on() && blocks_.tree().notes().uses().on()) {
      std::sort(taken, taken + (end - begin), [](const Taken& a, const Taken& b) {
        return a.came != b.came ? a.came < b.came : raw(a.block) > raw(b.block);
      });
    }
    for (size_t i = begin; i < end; ++i) blocks_.release_external(taken_[i].block);
  }

  kvc_status finish() {
    out_->num_blocks = num_taken_;
    if (out_->num_copies > out_->copy_capacity || out_->num_namespaces > out_->namespace_capacity) {
      return fail(KVC_ERROR_BUFFER_TOO_SMALL,
                  "%zu copies and %zu namespaces; the arrays have room for %zu and %zu", out_->num_copies,
                  out_->num_namespaces, out_->copy_capacity, out_->namespace_capacity);
    }
    std::sort(
        out_->copies, out_->copies + out_->num_copies, [](const kvc_token_copy& a, const kvc_token_copy& b) {
          if (a.group != b.group) return a.group < b.group;
          return a.destination != b.destination ? a.destination < b.destination : a.new_offset < b.new_offset;
        });
    return KVC_OK;
  }

  const Manager& from_;
  Manager& to_;
  const PrefixTree& old_tree_;
  const Shape& shape_;  // the new one, and its blocks
  Blocks& blocks_;
  kvc_rebuild* out_ = nullptr;

  Array<Seen> seen_;           // by place of the old node
  Array<NamespaceId> new_ns_;  // by index of the old namespace
  Array<Taken> taken_;         // in the reverse order of eviction
  size_t num_taken_ = 0;
  bool out_of_memory_ = false;

  // The new position at hand: its tokens and keys, and where they come from.
  int32_t tokens_[kMostTokens];
  Part parts_[kMostTokens + 1];
  size_t num_parts_ = 0;
  Array<ExtraKey> keys_;
  size_t num_keys_ = 0;
};

// BUSY unless all blocks are free or cached.
kvc_status Manager::check_idle() const {
  if (const uint64_t admitted = requests_.admissions.num_admitted(); admitted != 0)
    return fail(KVC_ERROR_BUSY, "%llu requests are admitted; preempt or free them first", ull(admitted));
  KVC_TRY(check_quiet());
  uint64_t held = 0, pinned = 0;
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    held += blocks_.pool().counts(p).held();
    pinned += blocks_.pool().counts(p).pinned;
  }
  if (held == 0) return KVC_OK;
  return fail(KVC_ERROR_BUSY,
              "%llu blocks are held, %llu of them by pins alone; end the pins and external holds first",
              ull(held), ull(pinned));
}

// Whether all groups can be rebuilt.
static kvc_status check_full(uint32_t windows, uint32_t encoders) {
  const char* const other = windows != 0 ? "has a window" : encoders != 0 ? "holds encoders" : nullptr;
  if (other == nullptr) return KVC_OK;
  return fail(KVC_ERROR_UNSUPPORTED,
              "a group %s; only groups with full attention can be rebuilt: create a new manager", other);
}

kvc_status Manager::take_over(Manager& old, kvc_rebuild* out) {
  KVC_TRY(check_full(old.shape_.window_groups | shape_.window_groups,
                     old.shape_.cross_groups | shape_.cross_groups));
  if (old.shape_.num_groups != shape_.num_groups || old.shape_.num_pools != shape_.num_pools) {
    return invalid("config has %u groups in %u pools, the old manager %u in %u; they must be equal",
                   shape_.num_groups, shape_.num_pools, old.shape_.num_groups, old.shape_.num_pools);
  }
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    if (shape_.groups[g].pool == old.shape_.groups[g].pool) continue;
    return invalid("group %u takes from pool %u, in the old manager from pool %u; they must be equal", g,
                   raw(shape_.groups[g].pool), raw(old.shape_.groups[g].pool));
  }
  const std::lock_guard lock(old.monitor_.mutex());
  KVC_TRY(old.check_idle());
  const Guard own(monitor_);  // of this manager nobody knows yet
  return Rebuild(old, *this).run(out);
}

}  // namespace kvc
