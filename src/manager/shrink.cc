// SPDX-License-Identifier: Apache-2.0
// Requests that give blocks back: freed, preempted, truncated.
#include <algorithm>

#include "manager/requests.h"

namespace kvc {

void Requests::end_admission(Request& request, bool over) {
  prompts_.keep(table_.index_of(request));
  returns.release(request);
  features.each([&](auto& feature) { feature.released(request, stale(request)); });
  copies_.drop_released();
  features.each([&](auto& feature) { feature.ended(request, over); });
  blocks_.positions.move_cursor(&request.cursor, kNoNode);
  request.end_admission();
  rows_.forget(request);
  admissions.count(request, false);
}

kvc_status Requests::end(Request& request) {
  if (request.admitted) {
    end_admission(request, true);
  } else {
    features.each([&](auto& feature) { feature.ended(request, true); });
  }
  discard(request);
  return KVC_OK;
}

// Makes the tail begin at `first_position` with the tokens of published positions, which are in the nodes.
// False if there is no memory; then nothing has changed.
bool Requests::gather_tokens(Request& request, size_t first_position) {
  const uint32_t block_size = shape_.block_size;
  const auto first = static_cast<uint32_t>(first_position * block_size);
  if (request.tail_base <= first) return true;
  Buffer<int32_t> whole = {};
  if (!whole.reserve(arena_, request.known - first, 0)) return false;
  const PrefixTree& tree = blocks_.tree();
  NodeId node = request.cursor;
  for (size_t j = request.published; j-- > first_position; node = tree[node].parent) {
    std::memcpy(whole.data + (j - first_position) * block_size, tree.tokens(node),
                block_size * sizeof(int32_t));
  }
  const uint32_t published = request.published_tokens();
  if (request.known > published) {
    std::memcpy(whole.data + (published - first), request.token(published),
                (request.known - published) * sizeof(int32_t));
  }
  request.replace_tail(arena_, whole, first);
  return true;
}

kvc_status Requests::preempt(Request& request) {
  if (!request.admitted) {
    return fail(KVC_ERROR_BUSY, "request %llu waits already and holds no blocks; free it, or leave it",
                ull(request.id));
  }
  if (!reserve_preemption(request)) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the %u tokens of a waiting request", request.known);
  }
  end_admission(request, false);
  request.set_chain(matcher_.root(request.ns), 0);
  publications.hash_known(request);
  ++counters_.preemptions;
  return KVC_OK;
}

kvc_status Requests::fail_step(uint64_t step_id, uint64_t* ids, size_t capacity, size_t* count) {
  const Fills& fills = features.get<Fills>();
  size_t affected = 0;
  bool has_memory = true;
  const auto each = [&](auto&& visit) {
    table_.each_admitted([&](Request& request) {
      if (fills.holds_filling(request, step_id)) visit(request);
    });
  };
  each([&](Request& request) {
    if (affected < capacity) ids[affected] = request.id;
    ++affected;
  });
  *count = affected;
  if (affected > capacity) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "%zu requests are preempted, the array has room for %zu",
                affected, capacity);
  }
  each([&](Request& request) { has_memory = has_memory && reserve_preemption(request); });
  if (!has_memory) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the tokens of %zu requests", affected);
  blocks_.fail_fills(step_id);
  std::sort(ids, ids + affected,
            [&](uint64_t a, uint64_t b) { return fills.came_before(handle_index(a), handle_index(b)); });
  for (size_t i = 0; i < affected; ++i) {
    Request& request = *table_.find(ids[i]);
    request.close_lane();
    static_cast<void>(preempt(request));
  }
  return KVC_OK;
}

static kvc_status no_memory_to_cut() {
  return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the tokens of a truncated request");
}

kvc_status Requests::truncate(Request& request, uint64_t num_tokens) {
  if (num_tokens > request.known) {
    return invalid("cannot keep %llu tokens of %u; the count is absolute", ull(num_tokens), request.known);
  }
  const auto tokens = static_cast<uint32_t>(num_tokens);
  const uint32_t block_size = shape_.block_size;
  if (!request.admitted) {
    if (!reserve_cut(request, tokens)) return no_memory_to_cut();
    request.cut_waiting(tokens, matcher_.root(request.ns));
    return KVC_OK;
  }
  if (const auto [lower, higher] = returns.restorable(request, tokens); lower != tokens) {
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "cannot keep %u tokens: a window, a chunk or a state has left the blocks that they need; the next "
        "lower length that can be kept is %llu, the next higher one %llu",
        tokens, ull(lower), ull(higher));
  }
  uint32_t slots = tokens;
  features.each([&](const auto& feature) { feature.keep_slots(request, tokens, &slots); });
  const size_t full = tokens / block_size, needed = shape_.positions_of(slots);
  const size_t published = full < request.published ? full : request.published;
  const size_t kept = needed < request.positions ? needed : request.positions;
  if (!reserve_cut(request, tokens) || !gather_tokens(request, published)) return no_memory_to_cut();
  const NodeId cursor = cursor_at(request, published);  // the chain goes on from the last position kept
  blocks_.positions.move_cursor(&request.cursor, cursor);
  returns.cut(request, tokens, kept);
  // A published block that is cut becomes private again if nobody else can reach it.
  if (tokens < request.published_tokens() && tokens % block_size != 0 &&
      blocks_.positions.is_alone(request.groups, published)) {
    blocks_.positions.make_private(request.groups, published);
  }
  request.cut(tokens, slots, kept, published, matcher_.chain(cursor, request.ns));
  features.each([&](auto& feature) { feature.truncated(request, tokens); });
  return KVC_OK;
}

void Requests::follow_moves(PoolIndex pool) {
  table_.each_admitted([&](Request& request) {
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      if (shape_.groups[g].pool != pool) continue;
      GroupTable& table = request.groups[g];
      for (uint32_t j = positions_in(shape_, request, g); j-- > 0;) {
        const BlockId entry = table.blocks.data[j];
        if (!is_block(entry) || blocks_.pool()[entry].list != List::kFree) continue;
        table.replace(j, blocks_.pool().moved_to(entry));
        request.close_lane();
      }
    }
  });
}

}  // namespace kvc
