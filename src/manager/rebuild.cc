// SPDX-License-Identifier: Apache-2.0
#include "manager/rebuild.h"

#include <algorithm>

namespace kvc {

kvc_status Rebuild::run(kvc_rebuild* out) {
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
    blocks_.levels().pass_time(from_.blocks_.levels().now());
  size_t begin[kMaxPools + 1] = {};
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    if (shape_.caches()) KVC_TRY(carry_pool(p));
    begin[p + 1] = num_taken_;
  }
  blocks_.positions().end_positions();
  blocks_.lineages().carry(from_.blocks_.lineages().current());
  for (size_t p = 0; p < shape_.num_pools; ++p) release(begin[p], begin[p + 1]);
  return finish();
}

kvc_status Rebuild::carry_namespaces() {
  const NamespaceTable& old = from_.blocks_.namespaces();
  for (uint32_t i = 1; i < old.size(); ++i) {
    if (old[i].opens == 0) continue;
    KVC_TRY(blocks_.namespace_blocks().carry_namespace(old[i], &new_ns_[i]));
    if (out_->num_namespaces < out_->namespace_capacity)
      out_->namespaces[out_->num_namespaces] = {old.id(i), blocks_.namespaces().id(new_ns_[i])};
    ++out_->num_namespaces;
  }
  return KVC_OK;
}

kvc_status Rebuild::carry_pool(size_t pool) {
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
size_t Rebuild::line_up(size_t pool, Array<Leaving>* line) const {
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
void Rebuild::find_reachable() {
  const StateReader state = from_.state();
  for (uint32_t ns = 0; ns < new_ns_.size(); ++ns) {
    state.each_node_of(ns, [&](NodeId id, const Node& node) {
      const bool whole = node.resident == from_.shape_.token_groups();
      seen(id).reachable = whole && (!is_node(node.parent) || seen(node.parent).reachable);
    });
  }
}

// Makes the new positions that end before this old one. False if all nodes are in use.
bool Rebuild::make_ancestors(NodeId old) {
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
bool Rebuild::carry(NodeId old, GroupIndex group, uint64_t came) {
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
bool Rebuild::attach(NodeId node, NodeId old, GroupIndex group, uint64_t came) {
  if (is_block(blocks_.tree().block_of(node, group))) return true;
  if (blocks_.pool().counts(shape_.groups[group].pool).free == 0) return false;
  const Notes& notes = old_tree_.notes();
  const BlockId block = blocks_.take_copy(group, blocks_.tree()[node].ns, true);
  blocks_.positions().carry_block(node, group, block, std::max(notes.uses().of(old), 1u),
                                  notes.retention().level(old), notes.retention().deadlines().of(old));
  taken_[num_taken_++] = {came, block, static_cast<uint32_t>(blocks_.tree()[node].ns)};
  list_copies(group, block);
  return true;
}

NodeId Rebuild::make_position(NodeId parent, NodeId old, uint64_t position) {
  const NamespaceId ns = new_ns_[old_tree_[old].ns];
  uint64_t key = is_node(parent) ? blocks_.tree()[parent].key : to_.matcher_.root(ns);
  to_.hash_.blocks(key, tokens_, shape_.block_size, 1, &key);
  const KeyList keys{keys_.data(), num_keys_};
  key = ExtraView(keys, position * shape_.block_size, shape_.block_size).hash(to_.hash_, key);
  ExtraRecords extras(to_.arena_, keys, position, position + 1, shape_.block_size);
  out_of_memory_ = out_of_memory_ || !extras.ok();
  if (out_of_memory_) return kNoNode;
  return blocks_.positions().carry_position(parent, key, tokens_, extras, position, ns);
}

// Reads the new position that begins at token `first` and ends in an old one, last part first.
void Rebuild::gather(NodeId old, uint64_t first) {
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
void Rebuild::gather_keys(NodeId old, uint64_t first) {
  const ExtraRecord* record = old_tree_[old].extra;
  for (uint64_t i = 0; record != nullptr && i < record->count; ++i) {
    const ExtraSpan& span = record->spans()[i];
    kvc_extra_key key = {begin_of(old) + static_cast<uint64_t>(span.offset), span.length, {}};
    std::memcpy(key.digest, span.digest, sizeof key.digest);
    if (key.first_token < first + shape_.block_size && key.first_token + key.num_tokens > first)
      num_keys_ = order_keys(&key, 1, keys_.data(), num_keys_);
  }
}

void Rebuild::list_copies(GroupIndex group, BlockId to) {
  for (size_t i = 0; i < num_parts_; ++i, ++out_->num_copies) {
    const auto& [old, begin, new_begin, count] = parts_[i];
    if (out_->num_copies < out_->copy_capacity)
      out_->copies[out_->num_copies] = {group, raw(old_tree_.block_of(old, group)), raw(to), begin, new_begin,
                                        count};
  }
}

// The block that leaves first comes first. With uses, which count beside the time of release, that time
// counts alone.
void Rebuild::release(size_t begin, size_t end) {
  Taken* const taken = taken_.data() + begin;
  std::reverse(taken, taken + (end - begin));
  if (old_tree_.notes().uses().on() && blocks_.tree().notes().uses().on()) {
    std::sort(taken, taken + (end - begin), [](const Taken& a, const Taken& b) {
      return a.came != b.came ? a.came < b.came : raw(a.block) > raw(b.block);
    });
  }
  for (size_t i = begin; i < end; ++i)
    blocks_.release(taken_[i].block, Keep::kPublished, taken_[i].ns, false);
}

kvc_status Rebuild::finish() {
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

}  // namespace kvc
