// SPDX-License-Identifier: Apache-2.0
// Which places of nodes are free. With events, a dead node keeps its place, parent and content until the
// events before its death have left the ring: they are told from there. The dead wait in line, children
// before their parents. There are as many more places as the ring holds events, so that max_nodes can live:
// whoever lived when the first in line died is one of max_nodes, and who was born since told an event. Should
// positions without a block use up the places, the oldest events are dropped. Not thread-safe.
#pragma once
#include "base/arena.h"
#include "observe/event_ring.h"
#include "prefix/identities.h"
#include "prefix/node.h"

namespace kvc {

class Places {
 public:
  Places(Arena& arena, EventRing& events, const Identities& identities)
      : arena_(arena), events_(events), identities_(identities) {}
  [[nodiscard]] bool create(Memory& memory, Node* nodes, size_t size);

  size_t size() const { return size_; }
  // Places that are free, or were in use: ids are below. It grows; the rest is not touched.
  size_t used() const { return used_; }
  // The next free place, whose node names the one behind it by hash_next; kNoNode: refill().
  NodeId next() const { return free_; }
  void set_next(NodeId id) { free_ = id; }
  // Nobody needs a dead node any more.
  void give_back(NodeId id, Node& node) {
    release_extra(node);
    node.hash_next = free_;
    free_ = id;
    NodeId& earlier =
        recently_freed_[num_freed_++ % kRecent];  // will be taken kRecent calls after this one: a hint
    node.key = static_cast<uint64_t>(raw(earlier));
    earlier = id;
  }
  // A dead node waits until its events have left the ring.
  void wait(NodeId id, Node& node) {
    node.key = events_.next_sequence();
    const size_t end = first_dead_ + num_dead_++;
    dead_[end < dead_.size() ? end : end - dead_.size()] = id;
  }
  // Makes places free; there is none, and fewer than max_nodes live.
  void refill();
  // Whether each place has a position in use, a dead one that waits in its order, or none.
  bool intact(size_t nodes_used) const;

 private:
  static constexpr size_t kAddedAtOnce = 256;
  void add(size_t at_most);
  void reuse_dead();
  void release_extra(Node& node) {
    if (node.extra != nullptr) [[unlikely]] {
      arena_.release(node.extra, ExtraRecord::bytes(node.extra->count));
      node.extra = nullptr;
    }
  }

  Arena& arena_;
  EventRing& events_;
  const Identities& identities_;
  Node* nodes_ = nullptr;
  size_t size_ = 0, used_ = 0;
  NodeId free_ = kNoNode;
  static constexpr uint32_t kRecent = 8;
  NodeId recently_freed_[kRecent] = {};
  uint32_t num_freed_ = 0;
  Array<NodeId> dead_;  // the dead that wait: num_dead_ from first_dead_ on, in a ring
  size_t first_dead_ = 0, num_dead_ = 0;
};

}  // namespace kvc
