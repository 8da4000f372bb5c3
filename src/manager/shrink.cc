// SPDX-License-Identifier: Apache-2.0
// Requests that give blocks back: freed, preempted, truncated; and forks, which share them. The order of
// release decides the order of eviction: docs/SEMANTICS.md.
#include "manager/growth.h"
#include "manager/guard.h"

namespace kvc {

void Manager::drop_ref(BlockId id, bool keep_published, uint32_t ns, bool stale) {
  Block& block = pool_[id];
  if (!pool_.drop_ref(block)) return;
  if (!keep_published && is_node(block.node)) tree_.detach(id);
  place(id, ns, stale);
}

// The next boundary below a position: where a later hit may end. 0 is the last.
size_t Manager::boundary_below(const Request& request, size_t position) const {
  const uint32_t block_size = shape_.block_size;
  size_t best = 0;
  const auto consider = [&](size_t boundary) {
    if (boundary < position && boundary > best) best = boundary;
  };
  consider(request.published);
  if (position > request.published) return best;  // what lies behind the published end is one segment
  if (request.prompt_len != 0) consider((request.prompt_len - 1) / block_size);
  for (size_t g = 0; g < shape_.num_groups; ++g) {
    const size_t step = shape_.groups[g].retention / block_size;
    if (step != 0 && position != 0) consider((position - 1) / step * step);
  }
  return best;
}

void Manager::release_windows(Request& request, size_t begin, size_t end, bool stale) {
  const uint64_t published = uint64_t{request.published} * shape_.block_size;
  for (size_t j = end; j-- > begin;) {
    for (uint32_t windows = shape_.window_groups; windows != 0; windows &= windows - 1) {
      const auto g = static_cast<uint32_t>(__builtin_ctz(windows));
      const BlockId block = request.groups[g].blocks.data[j];
      if (!is_block(block)) continue;
      const bool serves_end =
          j < request.published && j >= shape_.groups[g].window_start(published, shape_.block_size);
      drop_ref(block, serves_end || serves_boundary(request, g, j), request.ns, stale);
    }
  }
}

void Manager::release_full(Request& request, size_t begin, size_t end, bool stale) {
  const uint32_t full = shape_.full_groups;
  if (!stale && issued_ <= retired_ && (full & (full - 1)) == 0 && full != 0) {
    release_to_lru(request, static_cast<uint32_t>(__builtin_ctz(full)), begin, end);
    return;
  }
  for (size_t j = end; j-- > begin;) {
    for (uint32_t groups = full; groups != 0; groups &= groups - 1) {
      drop_ref(request.groups[__builtin_ctz(groups)].blocks.data[j], true, request.ns, stale);
    }
  }
}

// The usual release: one full group, no step in flight, epoch not over. Published sole copies go to LRU in
// one sweep.
void Manager::release_to_lru(Request& request, uint32_t group, size_t begin, size_t end) {
  constexpr size_t kAhead = 8;
  const uint32_t pool = shape_.groups[group].pool;
  const BlockId* const blocks = request.groups[group].blocks.data;
  for (size_t j = end; j != begin;) {
    {
      BlockPool::LruAppender lru(pool_, pool);
      for (; j != begin; --j) {
        const BlockId id = blocks[j - 1];
        if (j > kAhead) pool_.prefetch(blocks[j - 1 - kAhead]);
        Block& block = pool_[id];
        if (!is_node(block.node) || block.next_copy != id) break;
        if (pool_.drop_ref(block)) lru.append(id, block);
      }
      namespaces_.cached(request.ns, pool) += lru.count();
    }
    if (j != begin) drop_ref(blocks[--j], true, request.ns, false);
  }
}

void Manager::release_blocks_of(Request& request) {
  const bool stale = request.epoch != namespaces_.epoch(request.ns);
  if (shape_.window_groups == 0) {
    release_full(request, 0, request.positions, stale);
    return;
  }
  for (size_t end = request.positions; end != 0;) {
    const size_t begin = boundary_below(request, end);
    release_windows(request, begin, end, stale);
    release_full(request, begin, end, stale);
    end = begin;
  }
}

// From admitted to waiting; the caller sees to the tokens.
void Manager::end_admission(Request& request) {
  release_blocks_of(request);
  tree_.release(request.cursor);
  request.cursor = kNoNode;
  request.admitted = false;
  request.positions = request.room = request.capacity = request.committed = request.marked =
      request.published = 0;
  request.next_full = UINT32_MAX;
  forget_row(request);
  --live_requests_;
}

void Manager::end_request(Request& request) {
  if (request.admitted) end_admission(request);
  discard(request);
}

kvc_status Manager::free_request(uint64_t id) {
  const Guard lock(*this);
  Request* request = nullptr;
  KVC_TRY(find_request(id, false, &request));
  end_request(*request);
  return KVC_OK;
}

// Makes the tail begin at `first_position`, taking what was published since from the nodes. False: no memory,
// nothing changed.
bool Manager::gather_tokens(Request& request, size_t first_position) {
  const uint32_t block_size = shape_.block_size;
  const auto first = static_cast<uint32_t>(first_position * block_size);
  if (request.tail_base <= first) return true;
  Buffer<int32_t> whole = {};
  if (!whole.reserve(arena_, request.known - first, 0)) return false;
  NodeId node = request.cursor;
  for (size_t j = request.published; j-- > first_position; node = tree_[node].parent) {
    std::memcpy(whole.data + (j - first_position) * block_size, tree_.tokens(node),
                block_size * sizeof(int32_t));
  }
  const uint32_t published = request.published * block_size;
  if (request.known > published) {
    std::memcpy(whole.data + (published - first), request.token(published),
                (request.known - published) * sizeof(int32_t));
  }
  request.tail.clear(arena_);
  request.tail = whole;
  request.tail_base = first;
  return true;
}

kvc_status Manager::preempt(Request& request) {
  if (!gather_tokens(request, 0) ||
      !request.hashes.reserve(arena_, request.known / shape_.block_size, request.num_hashes)) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the %u tokens of a waiting request", request.known);
  }
  end_admission(request);
  request.hashed = request.num_hashes = 0;
  request.chain = hash_.root(request.ns, namespaces_[request.ns].generation);
  hash_known(request);
  ++counters_.preemptions;
  return KVC_OK;
}

kvc_status Manager::preempt_request(uint64_t id) {
  const Guard lock(*this);
  Request* request = nullptr;
  KVC_TRY(find_request(id, true, &request));
  return preempt(*request);
}

// The nearest lengths at or below and at or above `tokens` whose windows are all still held. What a group has
// returned lies between its sinks and its window: a possible length ends in the sinks, or its window begins
// behind what is gone. There is always a higher one, the committed length. The lower one may be 0.
Manager::Restorable Manager::restorable(const Request& request, uint64_t tokens) const {
  Restorable near{tokens, tokens};
  for (bool again = true; again;) {
    again = false;
    for (uint32_t windows = shape_.window_groups; windows != 0; windows &= windows - 1) {
      const auto g = static_cast<uint32_t>(__builtin_ctz(windows));
      const GroupShape& shape = shape_.groups[g];
      const uint64_t dropped = request.groups[g].dropped;
      if (dropped <= shape.sinks) continue;
      const uint64_t sinks_end = uint64_t{shape.sinks} * shape_.block_size;
      const uint64_t window_begin = dropped * shape_.block_size + shape.window - 1;
      const auto is_gone = [&](uint64_t n) { return n > sinks_end && n < window_begin; };
      if (is_gone(near.lower)) near.lower = sinks_end, again = true;
      if (is_gone(near.higher)) near.higher = window_begin, again = true;
    }
  }
  return near;
}

kvc_status Manager::truncate_request(uint64_t id, uint64_t num_tokens) {
  const Guard lock(*this);
  Request* request = nullptr;
  KVC_TRY(find_request(id, false, &request));
  return truncate(*request, num_tokens);
}

void Manager::truncate_waiting(Request& request, uint32_t num_tokens) {
  request.known = num_tokens;
  if (request.prompt_len > num_tokens) request.prompt_len = num_tokens;
  while (request.num_keys != 0 && request.keys.data[request.num_keys - 1].first_token >= num_tokens)
    --request.num_keys;
  const uint32_t blocks = num_tokens / shape_.block_size;
  if (request.hashed > blocks) {
    request.hashed = request.num_hashes = blocks;
    request.chain = blocks != 0 ? request.hashes.data[blocks - 1]
                                : hash_.root(request.ns, namespaces_[request.ns].generation);
  }
}

kvc_status Manager::truncate(Request& request, uint64_t num_tokens) {
  if (num_tokens > request.known) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "cannot keep %llu tokens of %u; the count is absolute",
                static_cast<unsigned long long>(num_tokens), request.known);
  }
  const auto tokens = static_cast<uint32_t>(num_tokens);
  if (!request.admitted) {
    truncate_waiting(request, tokens);
    return KVC_OK;
  }
  if (const auto [lower, higher] = restorable(request, tokens); lower != tokens) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "cannot keep %u tokens: a sliding window has returned blocks that they need; the next lower "
                "length that can be kept is %llu, the next higher one %llu",
                tokens, static_cast<unsigned long long>(lower), static_cast<unsigned long long>(higher));
  }
  const uint32_t block_size = shape_.block_size;
  const size_t published = tokens / block_size < request.published ? tokens / block_size : request.published;
  const size_t kept = positions_of(tokens) < request.positions ? positions_of(tokens) : request.positions;
  const bool cuts_published = tokens < request.published * block_size;
  if (!gather_tokens(request, published)) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the tokens of a truncated request");
  }

  if (published < request.published) {  // the chain goes on from the last position kept
    NodeId cursor = request.cursor;
    for (size_t j = request.published; j > published; --j) cursor = tree_[cursor].parent;
    tree_.hold(cursor);
    tree_.release(request.cursor);
    request.cursor = cursor;
  }
  const bool stale = request.epoch != namespaces_.epoch(request.ns);
  cut_blocks(request, tokens, kept, stale);
  if (cuts_published && tokens % block_size != 0) unpublish_partial(request, published);

  request.published = static_cast<uint32_t>(published);
  if (request.own_from > kept) request.own_from = static_cast<uint32_t>(kept);
  if (request.next_full != UINT32_MAX) request.next_full = (request.published + 1) * block_size;
  if (request.num_hashes > tokens / block_size) request.num_hashes = tokens / block_size;
  if (request.hashed > tokens / block_size || cuts_published) {
    const bool from_keys = request.num_hashes > published;
    request.hashed = from_keys ? request.num_hashes : request.published;
    request.chain = from_keys                 ? request.hashes.data[request.num_hashes - 1]
                    : is_node(request.cursor) ? tree_[request.cursor].key
                                              : hash_.root(request.ns, namespaces_[request.ns].generation);
  }
  while (request.num_keys != 0 && request.keys.data[request.num_keys - 1].first_token >= tokens)
    --request.num_keys;
  request.known = tokens;
  if (request.prompt_len > tokens) request.prompt_len = tokens;
  if (request.committed > tokens) request.committed = tokens;
  if (request.marked > request.room) request.marked = request.room;
  if (request.capacity > tokens) request.capacity = tokens;
  request.tail_shared = true;  // to be looked at before the next write
  return KVC_OK;
}

// Whether nobody but the request can reach what is published at its position: it alone holds the only copy in
// each group, and no longer prefix is known.
bool Manager::is_alone(const Request& request, size_t position) {
  NodeId node = kNoNode;
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    const BlockId id = request.groups[g].blocks.data[position];
    if (is_block(id) && is_node(pool_[id].node)) node = pool_[id].node;
  }
  if (!is_node(node)) return true;  // nothing is published
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    const BlockId id = tree_.block_of(node, g);
    if (!is_block(id)) continue;
    const Block& block = pool_[id];
    if (id != request.groups[g].blocks.data[position] || block.refs > 1 || block.external != 0 ||
        block.pins != 0 || block.next_copy != id)
      return false;
  }
  return !tree_.has_children(node);
}

// Releases the positions from `kept` on. What only this request has published and can reach is dropped.
void Manager::cut_blocks(Request& request, uint64_t tokens, size_t kept, bool stale) {
  for (size_t j = request.positions; j-- > kept;) {
    const bool keep_published = j < request.own_from || !is_alone(request, j);
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      const BlockId block = request.groups[g].blocks.data[j];
      if (is_block(block)) drop_ref(block, keep_published, request.ns, stale);
    }
  }
  request.set_positions(kept, shape_.block_size, shape_.max_request_tokens);
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    GroupTable& table = request.groups[g];
    if (table.synced > kept) table.synced = static_cast<uint32_t>(kept);
    if (!shape_.groups[g].windowed()) continue;
    const auto start = static_cast<uint32_t>(shape_.groups[g].window_start(tokens, shape_.block_size));
    if (table.dropped > start) table.dropped = start;
    if (table.synced_dropped > start) table.synced_dropped = start;
  }
}

// The published blocks that a truncation cuts become private again if nobody else can reach them.
void Manager::unpublish_partial(Request& request, size_t position) {
  if (!is_alone(request, position)) return;
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    const BlockId id = request.groups[g].blocks.data[position];
    if (is_block(id) && is_node(pool_[id].node)) tree_.detach(id);
  }
}

kvc_status Manager::fork_request(uint64_t id, uint64_t* child_id) {
  const Guard lock(*this);
  Request* parent = nullptr;
  KVC_TRY(find_request(id, true, &parent));
  Request* child = requests_.take();
  if (child == nullptr) {
    return fail(KVC_ERROR_LIMIT, "all %llu requests are in use; free some or raise max_requests",
                static_cast<unsigned long long>(shape_.max_requests));
  }
  ++num_requests_;
  child->ns = parent->ns;
  ++namespaces_[child->ns].users;
  const uint32_t first = parent->published * shape_.block_size;
  const size_t positions = positions_of(parent->committed);
  uint32_t num_keys = parent->num_keys;
  while (num_keys != 0 && parent->keys.data[num_keys - 1].first_token >= parent->committed) --num_keys;
  if (!child->tail.reserve(arena_, parent->committed - first + 2 * shape_.block_size, 0) ||
      !reserve_tables(*child, positions) || !child->keys.reserve(arena_, num_keys, 0)) {
    discard(*child);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a fork of %u tokens", parent->committed);
  }

  if (parent->committed > first) {
    std::memcpy(child->tail.data, parent->token(first), (parent->committed - first) * sizeof(int32_t));
  }
  if (num_keys != 0) std::memcpy(child->keys.data, parent->keys.data, num_keys * sizeof(kvc_extra_key));
  child->num_keys = num_keys;
  child->tail_base = first;
  child->known = child->committed = child->capacity = child->prompt_len = child->num_cached =
      parent->committed;
  child->set_positions(positions, shape_.block_size, shape_.max_request_tokens);
  child->own_from = child->positions;
  child->marked = child->room;
  child->published = child->hashed = parent->published;
  child->next_full = parent->next_full;
  child->cursor = parent->cursor;
  tree_.hold(child->cursor);
  child->chain = is_node(child->cursor) ? tree_[child->cursor].key
                                        : hash_.root(child->ns, namespaces_[child->ns].generation);
  child->epoch = parent->epoch;
  child->lookahead = parent->lookahead;
  child->flags = parent->flags;
  child->user_data = parent->user_data;
  child->max_cached_tokens = parent->max_cached_tokens;
  child->drop_tail_blocks = parent->drop_tail_blocks;
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    child->groups[g].dropped = parent->groups[g].dropped;
    for (size_t j = 0; j < positions; ++j) {
      const BlockId block = parent->groups[g].blocks.data[j];
      child->groups[g].blocks.data[j] = block;
      if (is_block(block)) pool_.add_ref(pool_[block]);
    }
  }
  child->admitted = child->readmission = true;
  child->tail_shared = parent->tail_shared = true;
  ++live_requests_;
  requests_.publish(*child);
  *child_id = child->id;
  return KVC_OK;
}

}  // namespace kvc
