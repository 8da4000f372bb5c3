// SPDX-License-Identifier: Apache-2.0
#include "prefix/identities.h"

#include <kvcache/events.h>

#include "base/position_digest.h"
#include "prefix/prefix_tree.h"

namespace kvc {
namespace {

static_assert(kEventStored == KVC_EVENT_STORED && kEventRemoved == KVC_EVENT_REMOVED);

void copy_digest(const Digest256& digest, uint8_t* out) {
  std::memcpy(out, digest.bytes, sizeof digest.bytes);
}

}  // namespace

bool Identities::create(Memory& memory, size_t num_places, uint32_t block_size) {
  block_size_ = block_size;
  return identities_.create(memory, num_places);
}

void Identities::describe(const EventRecord& record, kvc_event* event) const {
  *event = {};
  event->time_ns = record.time_ns;
  event->epoch = record.epoch;
  event->kind = record.kind;
  event->group = record.group;
  event->block = raw(record.block);
  const NodeId id = record.position;
  if (!is_node(id)) {
    event->namespace_id =
        id == kNoNode ? KVC_ALL_NAMESPACES : namespaces_.id(~static_cast<uint32_t>(raw(id)));
    return;
  }
  const Node& node = tree_[id];
  event->namespace_id = namespaces_.id(node.ns);
  event->node = of(id).serial;
  event->parent_node = is_node(node.parent) ? of(node.parent).serial : 0;
  event->token_offset = uint64_t{node.depth} * block_size_;
  event->num_tokens = block_size_;
  copy_digest(of(id).digest, event->digest);
  copy_digest(parent_digest(id), event->parent_digest);
  copy_digest(extra_digest(id), event->extra_digest);
}

void Identities::begin_waypoint(NodeId id, size_t group) {
  of(id).waypoint = static_cast<uint8_t>(group + 1);
  events_.add(kEventStored, tree_[id].epoch, id, group, kNoBlock);
}

void Identities::end_waypoint(NodeId id) {
  const Node& node = tree_[id];
  if (!tree_.stale(node)) events_.add(kEventRemoved, node.epoch, id, waypoint_group(id), kNoBlock);
  of(id).waypoint = 0;
}

void Identities::tell_way(NodeId id, size_t group) {
  if (is_waypoint(id)) end_waypoint(id);
  NodeId at = id;
  for (NodeId parent = tree_[at].parent; !tree_.is_told(parent); parent = tree_[at].parent) {
    of(parent).down = at;
    at = parent;
  }
  for (; at != id; at = of(at).down) begin_waypoint(at, group);
}

const Digest256& Identities::parent_digest(NodeId id) const {
  const Node& node = tree_[id];
  return is_node(node.parent) ? of(node.parent).digest : namespaces_[node.ns].digest;
}

Digest256 Identities::extra_digest(NodeId id) const { return digest_of(tree_[id].extra); }

// Goes down from where the last call stopped to a position that is not known: another reader may have learned
// some. False if that takes another call.
bool Identities::go_on(NodeId end, Work* work) const {
  Work::Way& way = work->way;
  if (way.end != end || way.serial != of(end).serial) way = {of(end).serial, end, end};
  for (size_t steps = 0; known(way.at); ++steps) {
    if (steps == kSteps) return false;
    const NodeId down = of(way.at).down;
    way.at = is_node(down) && tree_[down].parent == way.at ? down : end;  // else it has led elsewhere
  }
  return true;
}

bool Identities::gather(NodeId id, Work* work) {
  if (known(id) || work->find(id) >= 0) return true;
  const size_t room = work->room(block_size_);
  if (room == 0) return false;
  const bool alone = work->count == 0;
  if (alone && !go_on(id, work)) return false;
  NodeId at = alone ? work->way.at : id;
  const size_t most = alone ? kSteps : room - 1;
  for (size_t steps = 0;; ++steps) {
    const NodeId parent = tree_[at].parent;
    if (!is_node(parent) || known(parent) || work->find(parent) >= 0) break;
    if (steps == most) {
      if (alone) work->way.at = at;
      return false;
    }
    of(parent).down = at;
    at = parent;
  }
  for (add(at, work); at != id; add(at, work)) {
    const NodeId down = of(at).down;
    const bool leads = is_node(down) && tree_[down].parent == at && !known(down);
    if (!leads || work->room(block_size_) == 0) {
      work->way.at = leads ? down : id;  // another reader may have gone another way
      return false;
    }
    at = down;
  }
  return true;
}

void Identities::add(NodeId id, Work* work) const {
  Work::Position& position = work->positions[work->count];
  position.id = id;
  position.serial = of(id).serial;
  position.extra = extra_digest(id);
  position.parent = work->find(tree_[id].parent);
  if (position.parent < 0) position.parent_digest = parent_digest(id);
  std::memcpy(work->tokens + work->count * block_size_, tree_.tokens(id), block_size_ * sizeof(int32_t));
  work->block_size = block_size_;
  ++work->count;
}

void Identities::gather_events(uint64_t sequence, Work* work) {
  for (const uint64_t end = sequence + kSteps; sequence != end && events_.holds(sequence); ++sequence) {
    const NodeId id = events_[sequence].position;
    if (is_node(id) && !gather(id, work)) return;
  }
}

void Identities::learn(Work* work) {
  for (size_t i = 0; i < work->count; ++i) {
    const Work::Position& position = work->positions[i];
    Identity& identity = of(position.id);
    if (identity.serial != position.serial) continue;  // its place is another's now
    identity.digest = position.digest;
    identity.known = true;
  }
  work->count = 0;
}

void Identities::Work::compute() {
  PositionDigests digests(block_size, tokens);
  for (size_t i = 0; i < count; ++i) {
    Position& position = positions[i];
    const Digest256& before =
        position.parent < 0 ? position.parent_digest : positions[position.parent].digest;
    position.digest =
        digests.next(before, position.extra, i + 1 == count ? nullptr : tokens + (i + 1) * block_size);
  }
}

}  // namespace kvc
