// SPDX-License-Identifier: Apache-2.0
#include "manager/matcher.h"

#include <kvcache/prefix.h>

#include <algorithm>

#include "manager/admission.h"

namespace kvc {

size_t Matcher::longest_window(GroupIndex group, size_t limit, const uint32_t* residents) const {
  const GroupShape& shape = shape_.groups[group];
  const uint32_t bit = 1u << group;
  size_t sinks = 0;
  while (sinks < shape.sinks && sinks < limit && (residents[sinks] & bit) != 0) ++sinks;
  if (sinks < shape.sinks && sinks < limit) limit = sinks;

  size_t length = limit;
  size_t run_begin = length;  // positions [run_begin, length) are resident
  while (length != 0) {
    const size_t needed = shape.window_start(length * shape_.block_size, shape_.block_size);
    if (run_begin <= needed) break;
    if ((residents[run_begin - 1] & bit) != 0) {
      --run_begin;
    } else {
      length = --run_begin;
    }
  }
  return length;
}

// Every constraint only shortens, so the first length that all accept is the longest.
size_t Matcher::longest_common(size_t limit, const uint32_t* residents, KeyList keys, uint32_t groups) const {
  const uint32_t full = groups & shape_.full_groups;
  size_t length = 0;
  while (length < limit && (residents[length] & full) == full) ++length;
  for (;;) {
    const size_t before = length;
    for (const uint32_t g : bits_of(groups & shape_.window_groups))
      length = longest_window(g, length, residents);
    length = cut(keys, length);
    if (length == before) return length;
  }
}

// What is lost against the hit of `length` positions.
LostReuse Matcher::find_lost(size_t known, size_t length, const uint32_t* residents, uint32_t groups) const {
  LostReuse lost;
  lost.most = static_cast<uint32_t>(length);
  for (const uint32_t g : bits_of(groups)) {
    lost.alone[g] = static_cast<uint32_t>(longest_common(known, residents, KeyList{}, 1u << g));
    lost.most = std::max(lost.most, lost.alone[g]);
  }
  lost.positions = lost.most - static_cast<uint32_t>(length);
  return lost;
}

size_t Matcher::match(const Prompt& prompt, size_t limit, uint32_t groups, uint32_t drop, uint64_t behind,
                      NodeId* path, uint32_t* residents, LostReuse* lost, Match* found) const {
  const KeyList keys = prompt.keys;
  const bool one_full_group = (groups & shape_.window_groups) == 0 && (groups & (groups - 1)) == 0;
  const bool looks = blocks_.pool().filling().size() != 0;  // at what is filling
  if (lost != nullptr) lost->positions = 0;
  size_t known, length;
  if (one_full_group) {
    known = length = blocks_.tree().walk(prompt, limit, groups, path);
    if (looks) [[unlikely]] {
      length = 0;
      while (length < known && (blocks_.readable(path[length], behind) & groups) != 0) ++length;
    }
    length = cut(keys, length);
  } else {
    known = blocks_.tree().walk(prompt, limit, 0, path);
    for (size_t i = 0; i < known; ++i)
      residents[i] = looks ? blocks_.readable(path[i], behind) : blocks_.tree()[path[i]].resident;
    size_t end = known;
    while (end != 0 && residents[end - 1] == 0) --end;  // nothing can be read from there on
    length = longest_common(end, residents, keys, groups);
    if (lost != nullptr) {
      *lost = find_lost(end, longest_common(end, residents, KeyList{}, groups), residents, groups);
    }
  }
  if (found != nullptr) {
    found->reached = length, found->known = known, found->junction = 0;
    if (const uint32_t states = shape_.state_groups; states != 0 && states != groups) [[unlikely]] {
      const size_t junction = longest_common(known, residents, keys, groups & ~states);
      if (junction > length) found->junction = junction;
    }
  }
  if (drop == 0) return length;
  length = length < drop ? 0 : length - drop;
  return one_full_group ? cut(keys, length) : longest_common(length, residents, keys, groups);
}

kvc_status Matcher::match(const Prompt& prompt, size_t limit, uint32_t drop, uint64_t behind, Match* found) {
  if (!path_.reserve(arena_, limit, 0) || !residents_.reserve(arena_, limit, 0))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to match %zu blocks", limit);
  found->length = match(prompt, limit, shape_.token_groups(), drop, behind, path_.data, residents_.data,
                        &found->lost, found);
  found->path = path_.data;
  return KVC_OK;
}

// Groups whose block at a position waits in LRU.
uint32_t Matcher::idle_groups(NodeId node) const {
  uint32_t idle = 0;
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    const BlockId block = blocks_.tree().block_of(node, g);
    if (is_block(block) && blocks_.pool()[block].list == List::kLru) idle |= 1u << g;
  }
  return idle;
}

// Positions that died do not count: each new one reclaims a dead one. Those without a block count.
Matcher::Head Matcher::find_head(const Prompt& prompt, NodeId parent, size_t length, uint64_t limit) const {
  constexpr int kMostChildren = 32;
  const PrefixTree& tree = blocks_.tree();
  const uint64_t first = uint64_t{length} * shape_.block_size;
  Head best;
  if (limit <= first) return best;
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(limit - first, shape_.block_size - 1));
  const int32_t* const tokens = prompt.tokens + first;
  const ExtraView keys(prompt.keys, first, shape_.block_size);
  int looked = 0;
  for (NodeId id = tree.first_child(parent); is_node(id) && looked < kMostChildren && best.tokens < most;
       id = tree[id].sibling_next) {
    const Node& node = tree[id];
    if (!tree.alive(id)) continue;
    if (node.epoch != prompt.epoch) break;  // the older ones are of older epochs
    ++looked;
    const int32_t* const row = tree.tokens(id);
    uint32_t common = 0;
    while (common < most && row[common] == tokens[common]) ++common;
    common = static_cast<uint32_t>(keys.common_head(node.extra, common));
    const uint32_t missing = shape_.token_groups() & ~blocks_.readable(id, blocks_.retired());
    if (common > best.tokens && missing == 0) best = {id, common};
  }
  return best;
}

// What a probe has seen.
struct Matcher::Probe {
  size_t known = 0;                                     // positions
  uint64_t available[kMaxPools], most[kMaxPools] = {};  // blocks that there are, and may be
  uint64_t watermark = 0;
  bool never = false;  // whether nobody could admit it
  Head head;
  uint32_t idle_head = 0;  // groups
};

// Walks in slices, so that a long prompt does not keep other calls waiting. Between two slices it holds
// nothing: a probe must not decide whether a position stays cached.
kvc_status Matcher::look_in_slices(LookupScratch& scratch, const uint64_t& num_admitted, Probe* seen) {
  constexpr size_t kSliceOfLookup = 256;
  const PrefixTree& tree = blocks_.tree();
  const uint32_t needed = shape_.num_groups == 1 ? shape_.full_groups : 0;
  const size_t num_tokens = scratch.num_tokens();
  const Least least = least_held(shape_, num_tokens, 0);
  uint64_t most_cached = 0;  // tokens
  TreeReader reader;
  uint64_t epoch = 0;
  for (bool first = true, more = true; more; first = false) {
    const std::lock_guard lock(mutex_);
    if (!first) tree.readers().leave(reader);
    Prompt prompt;
    KVC_TRY(scratch.look(&prompt));
    if (first) most_cached = blocks_.most_cached(num_tokens);
    const size_t limit = most_cached / shape_.block_size;
    if (prompt.epoch != epoch) reader.at = kNoNode;  // reset in between: what was seen is gone
    epoch = prompt.epoch;
    const size_t known = is_node(reader.at) ? tree[reader.at].depth + 1 : 0;
    const size_t end = known + kSliceOfLookup < limit ? known + kSliceOfLookup : limit;
    const NodeId parent = is_node(reader.at) ? reader.at : root_of(prompt.ns);
    const size_t reached = tree.walk(prompt, parent, known, end, needed, scratch.path());
    for (size_t i = known; i < reached; ++i) {
      const NodeId node = scratch.path()[i];
      scratch.residents()[i] = blocks_.readable(node, blocks_.retired());
      scratch.idle()[i] = idle_groups(node);
    }
    seen->known = reached;
    more = reached == end && end < limit;
    if (more) {
      reader.at = scratch.path()[reached - 1];
      tree.readers().join(reader);
    }
    for (size_t p = 0; p < shape_.num_pools; ++p) {
      seen->available[p] = blocks_.room.available(prompt.ns, p);
      if (!more) seen->most[p] = blocks_.room.most_room(prompt.ns, p);
    }
    seen->watermark = blocks_.shares.num_admitted(prompt.ns, num_admitted) != 0 ? shape_.watermark : 0;
    if (!more) seen->never = blocks_.room.pool_that_lacks(least, prompt.ns) != kMaxPools;
    if (shape_.reuses_heads() && most_cached != 0 && !more) [[unlikely]] {
      const size_t length = hit_of(scratch, &seen->known);
      seen->head = find_head(prompt, length != 0 ? scratch.path()[length - 1] : root_of(prompt.ns), length,
                             most_cached);
      if (is_node(seen->head.node)) seen->idle_head = idle_groups(seen->head.node);
    }
  }
  return KVC_OK;
}

kvc_status Matcher::probe(const TokenSpan& tokens, const uint64_t& num_admitted, kvc_probe_info* info) {
  LookupScratch scratch(*this, tokens);
  KVC_TRY(scratch.status());
  Probe seen;
  KVC_TRY(look_in_slices(scratch, num_admitted, &seen));
  const uint32_t groups = shape_.token_groups();
  size_t length = hit_of(scratch, &seen.known);
  const auto ask = [&] {
    AdmittedSlots slots;
    slots.length = length;
    slots.cached = info->num_cached = length * shape_.block_size + seen.head.tokens;
    slots.known = slots.capacity = tokens.num_tokens;
    Demand demand(shape_.num_pools);
    const auto add_hit = [&](uint32_t g, size_t j) {
      demand.blocks[shape_.groups[g].pool] += scratch.idle()[j] >> g & 1;
    };
    add_demand(shape_, slots, add_hit, &demand);
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g)
      demand.blocks[shape_.groups[g].pool] += seen.idle_head >> g & 1;
    demand.answer_probe(seen.available, shape_.num_pools, seen.watermark, info);
    return length != 0 && outgrows_state_pools(shape_, demand, [&](size_t p) { return seen.most[p]; });
  };
  if (ask()) length = seen.known = 0, ask();
  if (seen.head.tokens != 0 && info->fits == 0) seen.head = {}, seen.idle_head = 0, ask();
  info->never_fits = info->fits == 0 && seen.never;
  const size_t before_cut = longest_common(seen.known, scratch.residents(), KeyList{}, groups);
  const LostReuse lost = find_lost(seen.known, before_cut, scratch.residents(), groups);
  info->lost_reuse_tokens =
      uint64_t{lost.positions} * shape_.block_size - regained_tokens(lost, length, seen.head.tokens);
  return KVC_OK;
}

}  // namespace kvc
