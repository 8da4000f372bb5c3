// SPDX-License-Identifier: Apache-2.0
#include "manager/contents_holder.h"

#include <algorithm>

namespace kvc {

// Whether the node at the position's place has its content now, if its parent has. Nodes are used again.
bool ContentsHolder::is_same(uint32_t position) const {
  const PrefixTree& tree = s_.tree;
  const Contents::Position& wanted = contents_.positions[position];
  const Contents::NamespaceEntry& ns = contents_.namespaces[wanted.ns];
  const NodeId id = contents_.nodes[position];
  if (!s_.namespaces.is_open(ns.id) || !tree.alive(id)) return false;
  const uint32_t index = ns.id == 0 ? 0 : handle_index(ns.id);
  const Node& node = tree[id];
  const NodeId parent =
      wanted.parent < 0 ? root_of(index) : contents_.nodes[static_cast<size_t>(wanted.parent)];
  if (node.ns != index || node.epoch != (ns.epoch & kEpochMask) || tree.stale(node) || node.parent != parent)
    return false;
  return contents_.has_content(position, tree.tokens(id), ExtraSpans(node.extra));
}

// The positions up to this one that were not looked at in this turn, last first.
void ContentsHolder::find_way(uint32_t position) {
  way_.clear();
  int64_t at = position;
  while (at >= 0 && checked_[static_cast<size_t>(at)] / 2 != turn_) {
    way_.push_back(static_cast<uint32_t>(at));
    at = contents_.positions[static_cast<size_t>(at)].parent;
  }
}

// The same for the position and all before it; each is looked at once in a turn.
bool ContentsHolder::is_there(uint32_t position) {
  if (way_.empty()) return checked_[position] % 2 != 0;
  const int64_t before = contents_.positions[way_.back()].parent;
  bool same = before < 0 || checked_[static_cast<size_t>(before)] % 2 != 0;
  for (size_t i = way_.size(); i-- > 0;) {
    same = same && is_same(way_[i]);
    checked_[way_[i]] = 2 * turn_ + same;
  }
  return same;
}

void ContentsHolder::begin_reading(BlockId id) {
  Block& block = s_.pool[id];
  Reading reading{id, kNoBlock, block.fence, block.list, block.leaves_first != 0};
  if (block.list != List::kHeld && !s_.pool.at_end(block.prev)) reading.before = block.prev;
  blocks_.hit(id);
  if (reading.list == List::kLru) {
    // A step that is over, and none that a release now would write: so it is seen whether there was a
    // release.
    reading.mark = static_cast<uint32_t>(blocks_.retired_) - 1;
    block.fence = reading.mark;
  }
  readings_.push_back(reading);
  s_.pool.add_external(block);
}

// Whether a block that nobody has used stands where it stood.
bool ContentsHolder::put_back(const Reading& reading) {
  const BlockId id = reading.block, before = reading.before;
  Block& block = s_.pool[id];
  if (reading.list == List::kHeld || block.fence != reading.mark || !is_node(block.node) ||
      s_.tree.stale(s_.tree[block.node]) || (is_block(before) && s_.pool[before].list != reading.list))
    return false;
  if (reading.list == List::kFenced) {
    if (s_.pool.fence_passed(block, blocks_.retired_) || !s_.pool.put_back_fenced(id, before)) return false;
    s_.quotas.fence(id, block.pool);
  } else {
    if (block.next_copy != id && is_block(s_.tree.copies().idle(id))) return false;
    const Place place = blocks_.cached.place_of(block.node);
    if (is_block(before) && blocks_.cached.place_of(s_.pool[before].node) != place) return false;
    if (!s_.pool.put_back(id, before, place)) return false;
    if (block.next_copy != id) s_.tree.copies().make_idle(id);
    ++s_.namespaces.cached(s_.tree[block.node].ns, block.pool);
    s_.quotas.cache_held(id, block.pool);
  }
  block.leaves_first = reading.leaves_first;
  if (s_.pool.counts(block.pool).lru > s_.shape.max_cached[block.pool])
    blocks_.cached.free_evicted(blocks_.cached.victim(block.pool));
  return true;
}

size_t ContentsHolder::hold(Contents::Cached* entries, size_t count, uint8_t* held) {
  readings_.reserve(readings_.size() + count);
  way_.reserve(contents_.positions.size());
  if (manager_.log_order_ != nullptr && !log_order_.owns_lock())
    log_order_ = std::unique_lock(*manager_.log_order_);
  const Guard lock(manager_.monitor_);
  if (manager_.monitor_.changes() != changes_) ++turn_;
  changes_ = manager_.monitor_.changes() + 1;  // the change is this one
  uint64_t visited = 0, most = SlicedHold::kSlice;
  const auto is_right = [&](BlockId id, const Contents::Cached& entry) {
    if (!is_block(id) || !s_.pool.exists(raw(id))) return false;
    const Block block = s_.pool.read(id);
    return block.node == contents_.nodes[entry.position] && block.group == entry.group &&
           block.content == Content::kWritten && block.external != UINT16_MAX;
  };
  for (size_t i = 0; i < count; ++i) {
    Contents::Cached& entry = entries[i];
    find_way(entry.position);
    most = std::max<uint64_t>(most, uint64_t{contents_.positions[entry.position].depth} + 1);
    if (i != 0 && visited + way_.size() + 1 > most) {
      count = i;
      break;
    }
    visited += way_.size() + 1;
    held[i] = 0;
    if (!is_there(entry.position)) continue;
    BlockId id{entry.block};
    if (!is_right(id, entry)) id = s_.tree.block_of(contents_.nodes[entry.position], entry.group);
    if (!is_right(id, entry)) continue;
    entry.block = raw(id);
    begin_reading(id);
    held[i] = 1;
  }
  longest_ = std::max(longest_, visited);
  return count;
}

void ContentsHolder::release() {
  const std::unique_lock<std::mutex> order = std::move(log_order_);
  if (readings_.empty()) return;
  const Guard lock(manager_.monitor_);
  if (manager_.monitor_.changes() == changes_) ++changes_;  // nobody else's
  longest_ = std::max<uint64_t>(longest_, readings_.size());
  for (size_t i = readings_.size(); i-- > 0;) end_reading(readings_[i]);
  readings_.clear();
}

}  // namespace kvc
