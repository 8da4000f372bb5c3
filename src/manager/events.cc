// SPDX-License-Identifier: Apache-2.0
// What readers outside the process see of the prefixes. Digests are worked out here, without the lock.
#include "base/position_digest.h"
#include "manager/event_writer.h"
#include "manager/manager.h"

namespace kvc {
namespace {

kvc_status no_events() {
  return fail(KVC_ERROR_UNSUPPORTED, "this manager keeps no events; create it with event_capacity > 0");
}

}  // namespace

kvc_status Manager::poll_events(uint64_t* cursor, kvc_event_batch* batch) {
  if (!events_.enabled()) return no_events();
  Identities& identities = blocks_.identities();
  EventWriter out(*batch, identities, blocks_.tree(), shape_.block_size);
  KVC_TRY(out.check_room());
  Identities::Work work;
  uint64_t at = *cursor;
  for (bool again = false;; again = true, work.compute()) {
    const std::lock_guard lock(monitor_.mutex());
    if (at > events_.next_sequence()) {
      return invalid("cursor %llu is in the future; the next event is %llu", ull(at),
                     ull(events_.next_sequence()));
    }
    identities.learn(&work);
    if (at < events_.oldest()) {
      if (!out.empty()) return KVC_OK;  // the next call sees the gap
      at = events_.oldest();
      if (again) {  // events are lost while this call hashes: it hashes a few without letting others in
        identities.gather_events(at, &work);
        work.compute();
        identities.learn(&work);
      }
    }
    for (out.begin_slice(); events_.holds(at) && !out.slice_ended();) {
      const EventRecord& record = events_[at];
      if (!out.takes(record)) return KVC_OK;
      if (!out.ready(record)) break;
      out.write(record, at);
      *cursor = ++at;
      events_.note_read(at);
    }
    if (!events_.holds(at)) {
      *cursor = at;  // without an event it has moved if those before it are lost: so the reader sees the gap
      return KVC_OK;
    }
    identities.gather_events(at, &work);
  }
}

// Writes entries from `at` on, which counts pairs of a node's place and a group, up to the first whose digest
// must be worked out, and gathers that one and those behind it. Returns where to go on.
uint64_t Manager::list_slice(uint64_t at, EventWriter& out, Identities::Work* work) {
  constexpr uint64_t kNodes = 4096;  // looked at while others wait
  const PrefixTree& tree = blocks_.tree();
  const uint64_t first = at / shape_.num_groups, size = tree.places().used();
  const uint64_t stop = first + kNodes < size ? first + kNodes : size;
  const auto listed = [&](uint64_t i) {
    const NodeId id{static_cast<int32_t>(i)};
    return tree.alive(id) && tree.is_told(id) && !tree.stale(tree[id]);
  };
  for (out.begin_slice(); at < stop * shape_.num_groups && !out.full() && !out.slice_ended(); ++at) {
    const uint64_t place = at / shape_.num_groups;
    const NodeId id{static_cast<int32_t>(place)};
    const auto group = static_cast<uint32_t>(at % shape_.num_groups);
    const auto stands_in = [&] {
      return (tree[id].resident >> group & 1) != 0 || tree.waypoint_group(id) == static_cast<int32_t>(group);
    };
    if (!listed(place) || !stands_in()) continue;
    const EventRecord record{0, tree[id].epoch, id, tree.block_of(id, group), KVC_EVENT_STORED, group};
    if (!out.ready(record)) {
      for (uint64_t i = place; i < stop; ++i) {
        if (listed(i) && !blocks_.identities().gather(NodeId{static_cast<int32_t>(i)}, work)) break;
      }
      return at;
    }
    out.write(record, events_.next_sequence());
  }
  return at < size * shape_.num_groups ? at : end_of_list();  // events tell of places that come into use
}

kvc_status Manager::list_prefixes(uint64_t* cursor, uint64_t* event_cursor, kvc_event_batch* batch) {
  if (!events_.enabled()) return no_events();
  const uint64_t end = end_of_list();
  if (*cursor >= end) {
    return invalid("cursor %llu is not one of this list, which ends at %llu; begin with 0", ull(*cursor),
                   ull(end));
  }
  EventWriter out(*batch, blocks_.identities(), blocks_.tree(), shape_.block_size);
  KVC_TRY(out.check_room());
  Identities::Work work;
  for (uint64_t at = *cursor;; work.compute()) {
    const std::lock_guard lock(monitor_.mutex());
    if (*cursor == 0 && at == 0 && out.empty()) *event_cursor = events_.next_sequence();
    blocks_.identities().learn(&work);
    at = list_slice(at, out, &work);
    if (at != end && !out.full()) continue;
    *cursor = at == end ? 0 : at;
    return KVC_OK;
  }
}

kvc_status Manager::position_digests(const TokenSpan& tokens, Digest256* out, size_t capacity,
                                     size_t* count) {
  KVC_TRY(check_span(tokens, shape_));
  KVC_TRY(check_tokens(tokens.tokens, tokens.num_tokens, shape_.vocab_size));
  Digest256 before;
  {
    const std::lock_guard lock(monitor_.mutex());
    NamespaceId ns{};
    KVC_TRY(blocks_.namespaces().find(tokens.namespace_id, &ns));
    before = blocks_.namespaces()[ns].digest;
  }
  OrderedKeys keys(monitor_.mutex(), arena_);
  KVC_TRY(keys.order(tokens));
  const uint32_t block_size = shape_.block_size;
  const size_t num_blocks = tokens.num_tokens / block_size;
  *count = num_blocks;
  if (num_blocks > capacity)
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the prompt has %zu full blocks, the array room for %zu",
                num_blocks, capacity);
  if (num_blocks == 0) return KVC_OK;
  PositionDigests digests(block_size, tokens.tokens);
  for (size_t i = 0; i < num_blocks; ++i) {
    const ExtraView extra(keys.list(), i * block_size, block_size);
    const int32_t* next = i + 1 == num_blocks ? nullptr : tokens.tokens + (i + 1) * block_size;
    before = out[i] = digests.next(before, extra.digest(), next);
  }
  return KVC_OK;
}

}  // namespace kvc
