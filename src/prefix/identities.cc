// SPDX-License-Identifier: Apache-2.0
#include "prefix/identities.h"

#include "prefix/prefix_tree.h"

namespace kvc {
namespace {

// The digest chain is defined in kvcache.h at kvc_event.
Digest256 chain(const Digest256& parent, const Digest256& extra, uint32_t block_size, const int32_t* tokens) {
  Sha256 sha;
  sha.update(parent.bytes, sizeof parent.bytes);
  sha.update(extra.bytes, sizeof extra.bytes);
  sha.update(&block_size, sizeof block_size);
  sha.update(tokens, block_size * sizeof(int32_t));
  return sha.finish();
}

// A position whose digest is not known has room in it for another one's id.
NodeId link(const Digest256& digest) {
  NodeId id;
  std::memcpy(&id, digest.bytes, sizeof id);
  return id;
}
void set_link(Digest256* digest, NodeId id) { std::memcpy(digest->bytes, &id, sizeof id); }

}  // namespace

bool Identities::create(Memory& memory, size_t max_nodes, uint32_t block_size) {
  block_size_ = block_size;
  return identities_.create(memory, max_nodes);
}

void Identities::describe(uint32_t kind, NodeId id, size_t group, BlockId block, kvc_event* event) const {
  const Node& node = tree_[id];
  event->epoch = namespaces_.epoch(node.ns);
  event->namespace_id = namespaces_.id(node.ns);
  event->node = of(id).serial;
  event->parent_node = is_node(node.parent) ? of(node.parent).serial : 0;
  event->token_offset = uint64_t{node.depth} * block_size_;
  event->kind = kind;
  event->group = static_cast<uint32_t>(group);
  event->num_tokens = block_size_;
  event->block = raw(block);
}

void Identities::tell(uint32_t kind, NodeId id, size_t group, BlockId block) {
  kvc_event& event = events_.add(tree_.tokens(id), block_size_);
  describe(kind, id, group, block, &event);
  Identity& identity = of(id);
  if (identity.waiting == kKnown) {
    write_digests(id, &event);
  } else {
    events_.wait(raw(id), identity.waiting);
    identity.waiting = event.sequence + 1;
  }
}

const Digest256& Identities::parent_digest(NodeId id) const {
  const Node& node = tree_[id];
  return is_node(node.parent) ? of(node.parent).digest : namespaces_[node.ns].digest;
}

Digest256 Identities::extra_digest(NodeId id) const {
  const ExtraRecord* extra = tree_[id].extra;
  if (extra == nullptr) return {};
  Sha256 sha;
  sha.update(extra->spans(), extra->count * sizeof(ExtraSpan));
  return sha.finish();
}

void Identities::write_digests(NodeId id, kvc_event* event) const {
  const Digest256 extra = extra_digest(id);
  std::memcpy(event->digest, of(id).digest.bytes, sizeof event->digest);
  std::memcpy(event->parent_digest, parent_digest(id).bytes, sizeof event->parent_digest);
  std::memcpy(event->extra_digest, extra.bytes, sizeof event->extra_digest);
}

// The parent's digest is known.
void Identities::set(NodeId id, const Digest256& digest) {
  Identity& identity = of(id);
  identity.digest = digest;
  uint64_t waiting = std::exchange(identity.waiting, kKnown);
  while (waiting != 0 && events_.holds(waiting - 1)) {
    const uint64_t sequence = waiting - 1;
    waiting = events_.end_wait(sequence);
    write_digests(id, &events_[sequence]);
  }
}

// Links a position and its unknown ancestors, the highest first, and returns the highest. It stops at those
// of `work`, if given, and after `most`; *count: how many.
NodeId Identities::unknown_from(NodeId id, size_t most, const Work* work, size_t* count) {
  const auto in_work = [&](NodeId of_work) {
    for (size_t i = work == nullptr ? 0 : work->count; i-- > 0;) {
      if (work->positions[i].id == of_work) return true;
    }
    return false;
  };
  NodeId top = kNoNode;
  *count = 0;
  for (; is_node(id) && !known(id) && *count < most && !in_work(id); id = tree_[id].parent) {
    set_link(&of(id).digest, top);
    top = id;
    ++*count;
  }
  return top;
}

void Identities::identify(NodeId id, size_t most) {
  size_t count;
  NodeId at = unknown_from(id, SIZE_MAX, nullptr, &count);
  for (; is_node(at) && most != 0; --most) {
    const NodeId next = link(of(at).digest);
    set(at, chain(parent_digest(at), extra_digest(at), block_size_, tree_.tokens(at)));
    at = next;
  }
}

bool Identities::gather(NodeId id, Work* work) {
  constexpr size_t kAtOnce = 1024;  // of a long chain, under the lock: walking it again would take longer
  const size_t room = work->room(block_size_);
  size_t count;
  NodeId at = unknown_from(id, work->count == 0 ? SIZE_MAX : room + 1, work, &count);
  if (count > room) {
    if (work->count == 0) identify(id, kAtOnce);
    return false;
  }
  work->block_size = block_size_;
  for (; is_node(at); at = link(of(at).digest)) {
    Work::Position& position = work->positions[work->count];
    const NodeId parent = tree_[at].parent;
    position.id = at;
    position.serial = of(at).serial;
    position.extra = extra_digest(at);
    position.parent = static_cast<int32_t>(work->count);
    while (--position.parent >= 0 && work->positions[position.parent].id != parent) continue;
    if (position.parent < 0) position.parent_digest = parent_digest(at);
    std::memcpy(work->tokens + work->count * block_size_, tree_.tokens(at), block_size_ * sizeof(int32_t));
    ++work->count;
  }
  return true;
}

void Identities::gather_events(uint64_t sequence, Work* work) {
  for (; events_.holds(sequence); ++sequence) {
    if (events_.waits(sequence) && !gather(NodeId{events_.owner(sequence)}, work)) return;
  }
}

void Identities::learn(Work* work) {
  for (size_t i = 0; i < work->count; ++i) {
    const Work::Position& position = work->positions[i];
    const Identity& identity = of(position.id);  // has it died meanwhile, or was it worked out otherwise?
    if (identity.serial == position.serial && identity.waiting != kKnown) set(position.id, position.digest);
  }
  work->count = 0;
}

void Identities::Work::compute() {
  for (size_t i = 0; i < count; ++i) {
    Position& position = positions[i];
    const Digest256& before =
        position.parent < 0 ? position.parent_digest : positions[position.parent].digest;
    position.digest = chain(before, position.extra, block_size, tokens + i * block_size);
  }
}

}  // namespace kvc
