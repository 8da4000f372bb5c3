// SPDX-License-Identifier: Apache-2.0
// Requests that give blocks back: freed, preempted, truncated. The order of release decides the order of
// eviction: docs/SEMANTICS.md.
#include <algorithm>

#include "manager/requests.h"

namespace kvc {

// The next boundary below a position: where a later hit may end. 0 is the last.
size_t Requests::boundary_below(const Request& request, size_t position) const {
  const uint32_t block_size = shape_.block_size;
  size_t best = 0;
  const auto consider = [&](size_t boundary) {
    if (boundary < position && boundary > best) best = boundary;
  };
  consider(request.published);
  if (position > request.published) return best;  // what lies behind the published end is one segment
  if (request.prompt_len != 0) consider((request.prompt_len - 1) / block_size);
  for (size_t g = 0; g < shape_.num_token_groups; ++g) {
    const size_t step = shape_.groups[g].retention / block_size;
    if (step != 0 && position != 0) consider((position - 1) / step * step);
  }
  return best;
}

// What a window has returned near an end where hits are likely was of use until now: it stays as long as the
// full-attention blocks that such a hit needs as well.
void Requests::renew_window(const Request& request, const NearEnds& near, uint32_t group, size_t position) {
  if (position >= request.published || !near.has(position) || !serves_later(request, group, position)) return;
  const BlockId full = request.groups[__builtin_ctz(shape_.full_groups)].blocks.data[position];
  const NodeId node = blocks_.pool()[full].node;
  if (is_node(node)) blocks_.renew(node, group);
}

void Requests::release_windows(Request& request, uint32_t groups, const NearEnds* near, size_t begin,
                               size_t end, bool of_old_epoch) {
  const uint64_t published = request.published_tokens();
  for (size_t j = end; j-- > begin;) {
    for (uint32_t windows = groups; windows != 0; windows &= windows - 1) {
      const auto g = static_cast<uint32_t>(__builtin_ctz(windows));
      const BlockId block = request.groups[g].blocks.data[j];
      if (!is_block(block)) {
        renew_window(request, near[g], g, j);
        continue;
      }
      const bool serves_end =
          j < request.published && j >= shape_.groups[g].window_start(published, shape_.block_size);
      const bool serves = serves_end || serves_later(request, g, j);
      blocks_.release(block, serves ? Keep::kPublished : Keep::kNot, request.ns, of_old_epoch);
    }
  }
}

void Requests::release_full(Request& request, size_t begin, size_t end, bool of_old_epoch) {
  const uint32_t full = shape_.full_groups;
  if (!of_old_epoch && (full & (full - 1)) == 0 && full != 0) {
    const auto g = static_cast<uint32_t>(__builtin_ctz(full));
    blocks_.release_run(g, request.groups[g].blocks.data, begin, end, request.ns);
    return;
  }
  for (size_t j = end; j-- > begin;) {
    for (uint32_t groups = full; groups != 0; groups &= groups - 1) {
      blocks_.release(request.groups[__builtin_ctz(groups)].blocks.data[j], Keep::kPublished, request.ns,
                      of_old_epoch);
    }
  }
}

// Of tables of which some lose blocks. States leave last: the keys and values that a hit of one needs may be
// held by others, and a state that goes before them takes the hit away all the same.
void Requests::release_segments(Request& request, bool of_old_epoch) {
  const uint32_t states = shape_.state_groups, windows = shape_.window_groups & ~states;
  NearEnds near[kMaxGroups];
  for (uint32_t rest = shape_.window_groups; rest != 0; rest &= rest - 1) {
    const auto g = static_cast<uint32_t>(__builtin_ctz(rest));
    const bool renews = !of_old_epoch && shape_.full_groups != 0 && (windows >> g & 1) != 0;
    near[g] = renews ? near_ends(request, g) : NearEnds{SIZE_MAX, 0, 0};
  }
  for (size_t end = request.positions; end != 0;) {
    const size_t begin = windows == 0 ? 0 : boundary_below(request, end);
    release_windows(request, windows, near, begin, end, of_old_epoch);
    release_full(request, begin, end, of_old_epoch);
    end = begin;
  }
  release_windows(request, states, near, 0, request.positions, of_old_epoch);
}

void Requests::release_blocks_of(Request& request) {
  const bool of_old_epoch = stale(request);
  if (shape_.window_groups == 0) {
    release_full(request, 0, request.positions, of_old_epoch);
  } else {
    release_segments(request, of_old_epoch);
  }
  if (shape_.has_cross()) [[unlikely]]
    release_cross(request, of_old_epoch);
}

void Requests::end_admission(Request& request, bool ends) {
  prompts_.keep(table_.index_of(request));
  release_blocks_of(request);
  drop_copies();
  if (ends && shape_.has_hints()) [[unlikely]]
    demote_tail(request);
  blocks_.move_cursor(&request.cursor, kNoNode);
  request.end_admission();
  if (shape_.has_fills()) [[unlikely]]
    fills_.unlist(table_.index_of(request));
  rows_.forget(request);
  --num_admitted_;
  blocks_.count_admitted(request.ns, uint64_t{0} - 1);
}

kvc_status Requests::end(Request& request) {
  if (shape_.has_headroom()) [[unlikely]]
    note_length(request);
  if (request.admitted) {
    end_admission(request, true);
  } else if (shape_.has_hints()) [[unlikely]] {
    demote_tail(request);
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

bool Requests::reserve_preemption(Request& request) {
  return gather_tokens(request, 0) &&
         request.hashes.reserve(arena_, request.known / shape_.block_size, request.num_hashes);
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
  hash_known(request);
  ++counters_.preemptions;
  return KVC_OK;
}

// What a group has returned lies between its sinks and its window: a possible length ends in the sinks, its
// window begins behind what is gone, or a chunk begins there. There is always a higher one, the committed
// length. The lower one may be 0.
Requests::Restorable Requests::restorable(const Request& request, uint64_t tokens) const {
  Restorable near{tokens, tokens};
  for (bool again = true; again;) {
    again = false;
    for (uint32_t windows = shape_.window_groups; windows != 0; windows &= windows - 1) {
      const auto g = static_cast<uint32_t>(__builtin_ctz(windows));
      if ((shape_.state_groups >> g & 1) != 0) {  // there is only the present state
        if (near.lower != 0 && near.lower < request.committed) near.lower = 0, again = true;
        if (near.higher != 0 && near.higher < request.committed)
          near.higher = request.committed, again = true;
        continue;
      }
      const GroupShape& shape = shape_.groups[g];
      const uint64_t dropped = request.groups[g].dropped;
      if (dropped <= shape.sinks) continue;
      const uint64_t sinks_end = uint64_t{shape.sinks} * shape_.block_size;
      const uint64_t window_begin = shape.window_passes(dropped, shape_.block_size);
      const auto is_gone = [&](uint64_t n) {
        return n > sinks_end && n < window_begin && n % shape.restarts != 0;
      };
      if (is_gone(near.lower))
        near.lower = std::max(sinks_end, near.lower / shape.restarts * shape.restarts), again = true;
      if (is_gone(near.higher))
        near.higher = std::min(window_begin, ceil_div(near.higher, shape.restarts) * shape.restarts),
        again = true;
    }
  }
  return near;
}

// Room for the key of a cut.
bool Requests::reserve_cut(Request& request, uint64_t tokens) {
  return tokens == request.known || !request.ends_inside_key(tokens) ||
         request.keys.reserve(arena_, request.num_keys + 1, request.num_keys);
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
  if (const auto [lower, higher] = restorable(request, tokens); lower != tokens) {
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "cannot keep %u tokens: a window, a chunk or a state has left the blocks that they need; the next "
        "lower length that can be kept is %llu, the next higher one %llu",
        tokens, ull(lower), ull(higher));
  }
  const uint32_t slots = slots_left(request, tokens);
  const size_t full = tokens / block_size, needed = shape_.positions_of(slots);
  const size_t published = full < request.published ? full : request.published;
  const size_t kept = needed < request.positions ? needed : request.positions;
  if (!reserve_cut(request, tokens) || !gather_tokens(request, published)) return no_memory_to_cut();
  const NodeId cursor = cursor_at(request, published);  // the chain goes on from the last position kept
  blocks_.move_cursor(&request.cursor, cursor);
  cut_blocks(request, tokens, kept);
  // A published block that is cut becomes private again if nobody else can reach it.
  if (tokens < request.published_tokens() && tokens % block_size != 0 &&
      blocks_.is_alone(request.groups, published)) {
    blocks_.make_private(request.groups, published);
  }
  request.cut(tokens, slots, kept, published,
              is_node(cursor) ? blocks_.tree()[cursor].key : matcher_.root(request.ns));
  if (shape_.has_fills()) [[unlikely]] {
    Fills::Of& fill = fills_[table_.index_of(request)];
    if (fill.end > tokens) fill.end = tokens;
    if (fill.enqueued > tokens) fill.enqueued = tokens;
    follow_fill(request);
  }
  return KVC_OK;
}

// The last of the first `published` published positions of a request.
NodeId Requests::cursor_at(const Request& request, size_t published) const {
  NodeId cursor = request.cursor;
  for (size_t j = request.published; j > published; --j) cursor = blocks_.tree()[cursor].parent;
  return cursor;
}

// Releases the positions from `kept` on. What only this request has published and can reach is dropped.
void Requests::cut_blocks(Request& request, uint64_t tokens, size_t kept) {
  const bool of_old_epoch = stale(request);
  for (size_t j = request.positions; j-- > kept;) {
    const bool others = j < request.own_from || !blocks_.is_alone(request.groups, j);
    const Keep keep = others ? Keep::kPublished : Keep::kNot;
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      const BlockId block = request.groups[g].blocks.data[j];
      if (is_block(block)) blocks_.release(block, keep, request.ns, of_old_epoch);
    }
  }
  drop_copies();
  const auto positions = static_cast<uint32_t>(kept);  // fewer than the tokens have, if a state is not there
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    request.groups[g].cut(positions, std::min(positions, shape_.dropped_below(g, tokens)));
  }
}

void Requests::take_copies(kvc_block_copy* copies) {
  for (size_t i = 0; i < copies_.count; ++i) copies[i] = copies_.out[i];
  release_sources(copies_);
  copies_.count = 0;
}

// The last one first: its source may be the destination of an earlier one.
void Requests::drop_copies_to_released() {
  for (size_t i = copies_.count; i-- > 0;) {
    const auto [source, destination] = copies_.out[i];
    if (blocks_.pool()[BlockId{destination}].held()) continue;
    blocks_.cancel_copy(BlockId{source}, BlockId{destination});
    --copies_.count;
    std::copy(copies_.out + i + 1, copies_.out + copies_.count + 1, copies_.out + i);
  }
}

void Requests::release_sources(const CopyList& copies) {
  for (size_t i = 0; i < copies.count; ++i) blocks_.release_source(BlockId{copies.out[i].source});
}

void Requests::follow_moves(uint32_t pool) {
  for (size_t i = 0; i < table_.size(); ++i) {
    Request& request = table_.at(i);
    if (request.id == 0 || !request.admitted) continue;
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
  }
}

}  // namespace kvc
