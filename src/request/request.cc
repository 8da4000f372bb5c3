// SPDX-License-Identifier: Apache-2.0
#include "request/request.h"

#include <algorithm>

namespace kvc {

void Request::configure(const kvc_request_config& config, uint64_t root) {
  chain = root;
  flags = config.flags;
  user_data = config.user_data;
  max_cached_tokens = static_cast<uint32_t>(std::min<uint64_t>(config.max_cached_tokens, UINT32_MAX));
  external_tokens = static_cast<uint32_t>(config.external_tokens);
  slots = static_cast<uint32_t>(config.slots);
  cross_tokens = static_cast<uint32_t>(config.cross_tokens);
  lookahead = static_cast<uint32_t>(config.lookahead);
  drop_tail_blocks = config.drop_tail_blocks;
}

void Request::set_prompt(size_t num_tokens, size_t num_extra_keys, uint64_t chain_value) {
  known = prompt_len = static_cast<uint32_t>(num_tokens);
  num_keys = static_cast<uint32_t>(num_extra_keys);
  set_chain(chain_value, known / block_size);
  num_hashes = hashed;
}

void Request::begin_admission(const Admission& admission) {
  grow(admission.positions, admission.capacity);
  published = own_from = static_cast<uint32_t>(admission.num_hits);
  committed = num_cached = published_tokens() + admission.head;
  marked = published_tokens() + (admission.head != 0 ? block_size : 0);
  next_full = admission.publishes ? published_tokens() + block_size : UINT32_MAX;
  epoch = admission.epoch;
  lost = admission.lost;
  lost_group = admission.lost_group;
  lost_reason = admission.lost_reason;
  junction = admission.junction;
  admitted = true;
}

void Request::end_admission() {
  admitted = cross_pending = false;
  cross_positions = 0;
  positions = room = capacity = committed = marked = published = hashed = num_hashes = junction = 0;
  next_full = UINT32_MAX;
}

void Request::fork_from(Request& parent, size_t shared_positions, size_t num_published,
                        uint32_t num_extra_keys) {
  known = committed = capacity = prompt_len = num_cached = parent.committed;
  junction = parent.junction <= committed ? parent.junction : 0;
  set_positions(shared_positions);
  own_from = positions;
  marked = parent.marked < room ? parent.marked : room;
  published = static_cast<uint32_t>(num_published);
  tail_base = published_tokens();
  num_keys = num_extra_keys;
  next_full = parent.next_full == UINT32_MAX ? UINT32_MAX : published_tokens() + block_size;
  slots = parent.slots;  // of an admission after a preemption
  cross_tokens = parent.cross_tokens;
  cross_shared = parent.cross_shared;
  cross_positions = parent.cross_positions;
  cross_pending = false;
  cross_cached = true;
  epoch = parent.epoch;
  lookahead = parent.lookahead;
  flags = parent.flags;
  user_data = parent.user_data;
  max_cached_tokens = parent.max_cached_tokens;
  drop_tail_blocks = parent.drop_tail_blocks;
  headroom = parent.headroom;
  admitted = readmission = true;
  tail_shared = parent.tail_shared = true;
}

void Request::set_published(size_t count, bool written) {
  published = static_cast<uint32_t>(count);
  if (written && marked < published_tokens()) marked = published_tokens();
  next_full = (published + 1) * block_size;
}

void Request::cut(uint32_t tokens, uint32_t most_slots, size_t kept, size_t num_published,
                  uint64_t cursor_chain) {
  set_positions(kept);
  published = static_cast<uint32_t>(num_published);
  own(positions);
  if (next_full != UINT32_MAX) next_full = (published + 1) * block_size;
  go_back(tokens / block_size, cursor_chain);
  if (tokens != known) cut_keys(tokens);
  known = tokens;
  if (prompt_len > tokens) prompt_len = tokens;
  if (committed > tokens) committed = tokens;
  if (junction > tokens) junction = 0;
  if (marked > room) marked = room;
  if (capacity > most_slots) capacity = most_slots;
  tail_shared = true;  // the next write looks whether it is
}

void Request::cut_waiting(uint32_t tokens, uint64_t root) {
  if (tokens != known) cut_keys(tokens);
  known = tokens;
  if (prompt_len > tokens) prompt_len = tokens;
  go_back(tokens / block_size, root);
}

// The chain covers at most so many blocks.
void Request::go_back(uint32_t blocks, uint64_t cursor_chain) {
  if (num_hashes > blocks) num_hashes = blocks;
  if (hashed <= blocks) return;
  const bool from_hashes = num_hashes > published;
  set_chain(from_hashes ? hashes.data[num_hashes - 1] : cursor_chain, from_hashes ? num_hashes : published);
}

void Request::cut_keys(uint32_t tokens) {
  num_keys = keys_within(tokens);
  if (!ends_inside_key(tokens)) return;
  const kvc_extra_key cut = key_of_cut(tokens);
  const size_t count = order_keys(&cut, 1, keys.data, num_keys);
  link_keys(keys.data, num_keys, count);
  num_keys = static_cast<uint32_t>(count);
}

void Request::replace_keys(Arena& arena, const Buffer<ExtraKey>& all, size_t count, size_t first_new,
                           uint64_t cursor_chain) {
  keys.clear(arena);
  keys = all;
  num_keys = static_cast<uint32_t>(count);
  go_back(static_cast<uint32_t>(keys.data[first_new].first_token / block_size), cursor_chain);
}

void Request::drop_used_hashes(Arena& arena) {
  if (published < num_hashes) return;
  hashes.clear(arena);
  num_hashes = 0;
}

bool Request::reserve_tail(Arena& arena, uint32_t first_needed, uint64_t extra) {
  const uint64_t used = known - tail_base;
  if (used + extra <= tail.capacity) return true;
  const uint32_t dead = first_needed - tail_base;
  const uint64_t live = used - dead;
  if (live + extra <= tail.capacity && dead >= live) {  // moving less than was appended since the last move
    std::memmove(tail.data, tail.data + dead, live * sizeof(int32_t));
    tail_base = first_needed;
    return true;
  }
  if (!Buffer<int32_t>::fits(live + extra)) return false;
  Buffer<int32_t> larger = {};
  if (!larger.reserve(arena, live + extra, 0)) return false;
  if (live != 0) std::memcpy(larger.data, tail.data + dead, live * sizeof(int32_t));
  tail.clear(arena);
  tail = larger;
  tail_base = first_needed;
  return true;
}

void Request::shrink_tail(Arena& arena, uint32_t first_needed) {
  constexpr uint32_t kSmall = 256;
  const uint32_t live = known - first_needed;
  if (tail.capacity <= kSmall || live >= tail.capacity / 8) return;
  Buffer<int32_t> smaller = {};
  if (!smaller.reserve(arena, live + kSmall / 2, 0)) return;  // the large one serves as well
  if (live != 0) std::memcpy(smaller.data, token(first_needed), live * sizeof(int32_t));
  tail.clear(arena);
  tail = smaller;
  tail_base = first_needed;
}

void Request::free_buffers(Arena& arena, size_t num_groups) {
  tail.clear(arena);
  hashes.clear(arena);
  keys.clear(arena);
  for (size_t g = 0; g < num_groups; ++g) groups[g].blocks.clear(arena);
}

}  // namespace kvc
