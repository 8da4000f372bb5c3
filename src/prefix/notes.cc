// SPDX-License-Identifier: Apache-2.0
#include "prefix/notes.h"

#include "base/hash.h"

namespace kvc {

void Notes::begin_chain(const BlockPool& pool, const BlockId* blocks, size_t count) {
  constexpr size_t kBucketAhead = 12, kEntryAhead = 6;
  const auto key = [&](size_t i) { return key_of(nodes_[raw(pool[blocks[i]].node)]); };
  for (size_t j = 0; j < count; ++j) {
    if (j + kBucketAhead < count) uses_.prefetch(key(j + kBucketAhead));
    if (j + kEntryAhead < count) uses_.prefetch_entry(key(j + kEntryAhead));
    uses_.begin(pool[blocks[j]].node, key(j));
    use(pool[blocks[j]].node);
  }
}

void Notes::use(NodeId id) {
  const Node& node = nodes_[raw(id)];
  if (node.resident == 0) return;
  const bool nested = is_node(node.parent) && nodes_[raw(node.parent)].resident != 0;
  uses_.add(id, nested ? uses_.of(node.parent) : Uses::kMost);
}

bool Notes::use_noted(const NodeId* path, size_t length) {
  bool demoted = false;
  for (size_t j = 0; j < length; ++j) {
    if (uses_.on()) use(path[j]);
    demoted = demoted || (retention_.on() && retention_.level(path[j]) == kDemoted);
  }
  return demoted;
}

void Notes::carry(NodeId id, uint32_t uses, uint32_t level, uint64_t until) {
  if (retention_.on()) retention_.set(id, level, until);
  for (uint32_t i = 0; uses_.on() && i < uses && uses_.of(id) < uses; ++i) use(id);
}

void Notes::end(NodeId id, bool stale) {
  if (retention_.on()) retention_.end(id);
  if (!uses_.on()) return;
  const Node& node = nodes_[raw(id)];
  if (stale) return uses_.end_stale(id);  // what is stale never comes back
  DigestHash tag;                         // where the position was; its tokens would cost a cache miss
  tag.add(node.depth);
  tag.add(node.ns);
  uses_.end(id, key_of(node), static_cast<uint32_t>(tag.value()));
}

}  // namespace kvc
