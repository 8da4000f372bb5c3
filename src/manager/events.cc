// SPDX-License-Identifier: Apache-2.0
// What readers outside the process see of the prefixes. Digests are worked out here, without the lock.
#include "manager/manager.h"

namespace kvc {
namespace {

kvc_status no_events() {
  return fail(KVC_ERROR_UNSUPPORTED, "this manager keeps no events; create it with event_capacity > 0");
}

void* element(const kvc_event_batch& batch, size_t i) {
  return reinterpret_cast<char*>(batch.events) + i * batch.event_size;
}

}  // namespace

kvc_status Manager::poll_events(uint64_t* cursor, kvc_event_batch* batch) {
  if (!events_.enabled()) return no_events();
  Identities& identities = blocks_.identities();
  Identities::Work work;
  size_t tokens_used = 0;
  batch->count = 0;
  for (bool again = false;; again = true) {
    {
      const std::lock_guard lock(monitor_.mutex());
      if (*cursor > events_.next_sequence()) {
        return invalid("cursor %llu is in the future; the next event is %llu", ull(*cursor),
                       ull(events_.next_sequence()));
      }
      identities.learn(&work);
      if (*cursor < events_.oldest()) {
        if (batch->count != 0) return KVC_OK;  // the next call sees the gap
        const uint64_t oldest = events_.oldest();
        if (again && events_.waits(oldest)) identities.identify(NodeId{events_.owner(oldest)});  // to come on
      }
      batch->count +=
          events_.read(cursor, element(*batch, batch->count), batch->event_size,
                       batch->capacity - batch->count, batch->tokens, batch->token_capacity, &tokens_used);
      if (batch->count == batch->capacity || !events_.holds(*cursor) || !events_.waits(*cursor))
        return KVC_OK;
      identities.gather_events(*cursor, &work);
    }
    work.compute();
  }
}

// Writes entries from `at` on, which counts pairs of a node's place and a group, up to the first whose digest
// must be worked out, and gathers that one and those behind it. Returns where to go on.
uint64_t Manager::list_slice(uint64_t at, size_t room, kvc_event_batch* batch, Identities::Work* work) {
  constexpr uint64_t kNodes = 4096;  // looked at while others wait
  const PrefixTree& tree = blocks_.tree();
  Identities& identities = blocks_.identities();
  const uint64_t first = at / shape_.num_groups, size = tree.opened_nodes();
  const uint64_t stop = first + kNodes < size ? first + kNodes : size;
  const auto listed = [&](uint64_t i) {
    const NodeId id{static_cast<int32_t>(i)};
    return tree.alive(id) && tree[id].resident != 0 && !tree.stale(tree[id]);
  };
  for (; at < stop * shape_.num_groups && batch->count < room; ++at) {
    const uint64_t place = at / shape_.num_groups;
    const NodeId id{static_cast<int32_t>(place)};
    const size_t group = at % shape_.num_groups;
    if (!listed(place) || (tree[id].resident >> group & 1) == 0) continue;
    if (!identities.known(id)) {
      for (uint64_t i = place; i < stop; ++i) {
        if (listed(i) && !identities.gather(NodeId{static_cast<int32_t>(i)}, work)) break;
      }
      return at;
    }
    kvc_event event = {};
    identities.describe(KVC_EVENT_STORED, id, group, tree.block_of(id, group), &event);
    identities.write_digests(id, &event);
    event.sequence = events_.next_sequence();
    write_event(event, element(*batch, batch->count), batch->event_size);
    if (batch->tokens != nullptr) {
      std::memcpy(batch->tokens + batch->count * shape_.block_size, tree.tokens(id),
                  shape_.block_size * sizeof(int32_t));
    }
    ++batch->count;
  }
  return at;
}

kvc_status Manager::list_prefixes(uint64_t* cursor, uint64_t* event_cursor, kvc_event_batch* batch) {
  if (!events_.enabled()) return no_events();
  const uint64_t end = shape_.max_nodes * shape_.num_groups;
  if (*cursor >= end) {
    return invalid("cursor %llu is not one of this list, which ends at %llu; begin with 0", ull(*cursor),
                   ull(end));
  }
  const size_t fit = batch->tokens == nullptr ? batch->capacity : batch->token_capacity / shape_.block_size;
  const size_t room = fit < batch->capacity ? fit : batch->capacity;
  if (room == 0) {
    return invalid("a batch for %zu positions and %zu tokens has no room for a position of %u tokens",
                   batch->capacity, batch->token_capacity, shape_.block_size);
  }
  Identities::Work work;
  batch->count = 0;
  for (uint64_t at = *cursor;; work.compute()) {
    const std::lock_guard lock(monitor_.mutex());
    if (*cursor == 0 && at == 0 && batch->count == 0) *event_cursor = events_.next_sequence();
    blocks_.identities().learn(&work);
    at = list_slice(at, room, batch, &work);
    const bool done = at >= blocks_.tree().opened_nodes() * shape_.num_groups;
    if (!done && batch->count != room) continue;
    *cursor = done ? 0 : at;
    return KVC_OK;
  }
}

}  // namespace kvc
