// SPDX-License-Identifier: Apache-2.0
#include "prefix/places.h"

#include <algorithm>

namespace kvc {

bool Places::create(Memory& memory, Node* nodes, size_t size) {
  nodes_ = nodes;
  size_ = size;
  if (const size_t touched = memory.touched_first() / sizeof(Node); touched != 0) add(touched);
  return !events_.enabled() || dead_.create(memory, size);
}

void Places::refill() {
  const bool waits = num_dead_ == 0 || nodes_[raw(dead_[first_dead_])].key > events_.oldest();
  if (waits && used_ < size_) {
    add(kAddedAtOnce);
  } else {
    reuse_dead();
  }
}

// Takes places into use that were not before.
void Places::add(size_t at_most) {
  const size_t first = used_;
  used_ = first + std::min(at_most, size_ - first);
  for (size_t i = used_; i-- > first;) {
    nodes_[i].hash_next = free_;
    free_ = NodeId{static_cast<int32_t>(i)};
  }
}

// Some of the dead become free nodes. There are no others.
void Places::reuse_dead() {
  constexpr size_t kAtOnce = 64, kAhead = 8;
  events_.drop_before(
      nodes_[raw(dead_[first_dead_])].key);  // changes something only if positions told no event
  NodeId* link = &free_;
  for (size_t i = 0; i < kAtOnce && num_dead_ != 0; ++i) {
    const NodeId id = dead_[first_dead_],
                 later = dead_[first_dead_ + kAhead < dead_.size() ? first_dead_ + kAhead : 0];
    __builtin_prefetch(&nodes_[raw(later)], 1);
    identities_.prefetch(later);
    Node& node = nodes_[raw(id)];
    if (node.key > events_.oldest()) break;
    release_extra(node);
    node.key = static_cast<uint64_t>(raw(later));  // a hint, as give_back() leaves it
    *link = id;
    link = &node.hash_next;
    if (++first_dead_ == dead_.size()) first_dead_ = 0;
    --num_dead_;
  }
  *link = kNoNode;
}

bool Places::intact(size_t nodes_used) const {
  size_t count = nodes_used + num_dead_;
  for (NodeId id = free_; is_node(id); id = nodes_[raw(id)].hash_next)
    if (nodes_[raw(id)].listed != 0 || ++count > used_) return false;
  uint64_t before = 0;
  for (size_t i = 0; i < num_dead_; ++i) {
    const size_t at = first_dead_ + i;
    const Node& node = nodes_[raw(dead_[at < dead_.size() ? at : at - dead_.size()])];
    if (node.listed != 0 || node.key < before || node.key > events_.next_sequence()) return false;
    before = node.key;
  }
  return count == used_;
}

}  // namespace kvc
