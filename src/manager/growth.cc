// SPDX-License-Identifier: Apache-2.0
// Requests that grow: slots for more tokens, tokens becoming known, tokens committed and published.
#include "manager/growth.h"

#include "manager/guard.h"

namespace kvc {

bool Manager::CopyList::reserve(Manager& manager, size_t added) {
  if (!pending) return true;  // the step has checked its room
  return manager.copies_.reserve(manager.arena_, manager.num_copies_ + added, manager.num_copies_);
}

void Manager::CopyList::add(Manager& manager, BlockId source, BlockId destination) {
  const kvc_block_copy copy{raw(source), raw(destination)};
  if (pending) {
    manager.copies_.data[manager.num_copies_++] = copy;
  } else {
    out[count++] = copy;
  }
}

// Whether writing into the partly filled block at `position` of some group needs a private copy first.
uint32_t Manager::shared_groups(const Request& request, size_t position) const {
  uint32_t groups = 0;
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    const BlockId id = request.groups[g].blocks.data[position];
    if (!is_block(id)) continue;
    const Block& block = pool_[id];
    if (is_node(block.node) || block.refs > 1 || block.external != 0 || block.pins != 0) groups |= 1u << g;
  }
  return groups;
}

kvc_status Manager::extend(Request& request, uint64_t capacity, CopyList& copies) {
  if (capacity <= request.capacity) return KVC_OK;
  if (capacity <= request.room && !request.tail_shared) {
    request.capacity = static_cast<uint32_t>(capacity);
    return KVC_OK;
  }
  return extend_blocks(request, capacity, copies);
}

kvc_status Manager::extend_blocks(Request& request, uint64_t capacity, CopyList& copies) {
  if (capacity > shape_.max_request_tokens) {
    return fail(KVC_ERROR_LIMIT, "a capacity of %llu tokens is more than max_request_tokens, %llu",
                static_cast<unsigned long long>(capacity),
                static_cast<unsigned long long>(shape_.max_request_tokens));
  }
  const size_t partial =
      request.capacity / shape_.block_size;  // position about to be written, if partly filled
  const bool has_partial = request.tail_shared && request.capacity % shape_.block_size != 0;
  const uint32_t copied = has_partial ? shared_groups(request, partial) : 0;
  const size_t positions = positions_of(capacity);
  const size_t added = positions - request.positions;
  Demand demand(shape_.num_pools);
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    demand.blocks[shape_.groups[g].pool] += added + (copied >> g & 1);
  }
  if (const kvc_status status = shortage(demand, 0, "the extension"); status != KVC_OK) {
    ++counters_.refusals;
    return status;
  }
  if (!reserve_tables(request, positions) ||
      !copies.reserve(*this, static_cast<size_t>(__builtin_popcount(copied)))) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a table of %zu blocks", positions);
  }

  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    GroupTable& table = request.groups[g];
    if ((copied >> g & 1) != 0) {
      const BlockId source = table.blocks.data[partial];  // its reference goes over to the copy
      BlockId destination;
      pop_blocks(g, 1, &destination);
      if (zeroing_.on()) zeroing_.overwrite(destination, namespaces_.id(request.ns));
      if (request.committed > partial * shape_.block_size) pool_.mark_written(pool_[destination]);
      copies.add(*this, source, destination);
      ++counters_.copies;
      table.blocks.data[partial] = destination;
      if (table.synced > partial) table.synced = static_cast<uint32_t>(partial);
    }
    if (added != 0) take_blocks(g, request.ns, added, table.blocks.data + request.positions);
  }
  if (has_partial && request.own_from > partial)
    request.own_from = static_cast<uint32_t>(partial);  // written by itself from now on
  request.tail_shared = false;
  request.set_positions(positions, shape_.block_size, shape_.max_request_tokens);
  request.capacity = static_cast<uint32_t>(capacity);
  return KVC_OK;
}

// Room for more known tokens; add_known() cannot fail after it.
kvc_status Manager::reserve_known(Request& request, size_t num_tokens) {
  if (num_tokens > shape_.max_request_tokens - request.known) {
    return fail(KVC_ERROR_LIMIT, "%u + %zu tokens are more than max_request_tokens, %llu", request.known,
                num_tokens, static_cast<unsigned long long>(shape_.max_request_tokens));
  }
  const uint64_t blocks = (request.known + num_tokens) / shape_.block_size;
  if (!request.reserve_tail(arena_, request.published * shape_.block_size, num_tokens) ||
      (!request.admitted && !request.hashes.reserve(arena_, blocks, request.num_hashes))) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu more tokens", num_tokens);
  }
  return KVC_OK;
}

// Tokens become known; for a waiting request they are hashed for its next match.
void Manager::add_known(Request& request, const int32_t* tokens, size_t num_tokens) {
  int32_t* end = request.tail.data + (request.known - request.tail_base);
  for (size_t i = 0; i < num_tokens; ++i) end[i] = tokens[i];
  request.known += static_cast<uint32_t>(num_tokens);
  if (!request.admitted) hash_known(request);
}

// Brings the keys of a waiting request up to its known tokens; the room is reserved.
void Manager::hash_known(Request& request) {
  const uint32_t blocks = request.known / shape_.block_size;
  for (; request.hashed < blocks; ++request.hashed) {
    request.chain = next_chain(request, request.hashed);
    request.hashes.data[request.hashed] = request.chain;
  }
  request.num_hashes = blocks;
}

// Chain value of `position`, the next after those hashed.
uint64_t Manager::next_chain(const Request& request, size_t position) const {
  uint64_t chain;
  const uint64_t first = position * shape_.block_size;
  hash_.blocks(request.chain, request.token(first), shape_.block_size, 1, &chain);
  if (request.num_keys == 0) return chain;
  return ExtraView(request.keys.data, request.num_keys, first, shape_.block_size).hash(hash_, chain);
}

// Makes `chain` cover `position`, the first behind what is published, if it does not yet.
void Manager::hash_next(Request& request, size_t position) {
  if (request.hashed > position) return;
  request.chain = next_chain(request, position);
  request.hashed = static_cast<uint32_t>(position + 1);
}

kvc_status Manager::append(Request& request, const int32_t* tokens, size_t num_tokens, CopyList& copies) {
  if (num_tokens <= shape_.max_request_tokens) {  // else they are not read
    KVC_TRY(check_tokens(tokens, num_tokens, shape_.vocab_size));
  }
  KVC_TRY(reserve_known(request, num_tokens));
  if (request.admitted) {
    const uint64_t capacity = capacity_for(request, request.known + num_tokens);
    KVC_TRY(extend(request, capacity, copies));
  }
  add_known(request, tokens, num_tokens);
  return KVC_OK;
}

kvc_status Manager::commit(Request& request, uint64_t num_committed) {
  if (num_committed < request.committed || num_committed > request.known ||
      num_committed > request.capacity) {
    return fail(
        KVC_ERROR_INVALID_ARGUMENT,
        "cannot commit %llu tokens: %u are committed, %u known and %u have slots; the count is absolute",
        static_cast<unsigned long long>(num_committed), request.committed, request.known, request.capacity);
  }
  const auto committed = static_cast<uint32_t>(num_committed);
  if (committed >= request.next_full) KVC_TRY(publish(request, shape_.by_block.divide(committed)));
  lane_commit(request, committed);
  for (uint32_t windows = shape_.window_groups; windows != 0; windows &= windows - 1) {
    const auto g = static_cast<uint32_t>(__builtin_ctz(windows));
    drop_window(request, g, shape_.groups[g].window_start(committed, shape_.block_size));
  }
  return KVC_OK;
}

// Publishes positions [request.published, full).
kvc_status Manager::publish(Request& request, size_t full) {
  const uint64_t epoch = request.epoch;
  const size_t begin = request.published;
  if (request.epoch != namespaces_.epoch(request.ns)) {
    request.next_full = UINT32_MAX;  // reset since its admission
    return KVC_OK;
  }
  ExtraRecords extras(arena_, request.keys.data, request.num_keys, begin, full, shape_.block_size);
  if (!extras.ok())
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the extra keys of %zu blocks", full - begin);

  constexpr size_t kAhead = 8;
  const PrefixTree::Bulk bulk(tree_, full - begin);
  const uint32_t block_size = shape_.block_size, ns = request.ns;
  NodeId cursor = request.cursor;
  size_t i = begin;
  while (i < full) {
    const size_t hashed = request.num_hashes < full ? request.num_hashes : full;
    if (i >= hashed) hash_next(request, i);
    const uint64_t* keys = i < hashed ? request.hashes.data + i : &request.chain;
    const int32_t* tokens = request.token(i * block_size);
    if (request.num_keys == 0) {
      const size_t made = tree_.publish_chain(cursor, keys, tokens, request.groups[0].blocks.data + i,
                                              i < hashed ? hashed - i : 1, ns, epoch);
      i += made;
      if (made != 0) continue;
    }
    if (i + kAhead < hashed) {
      tree_.prefetch_bucket(keys[kAhead]);
      pool_.prefetch(request.groups[0].blocks.data[i + kAhead]);
    }
    const NodeId node = tree_.publish_position(cursor, *keys, tokens, extras, i, ns, epoch);
    if (!is_node(node)) break;
    cursor = node;
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      const BlockId block = request.groups[g].blocks.data[i];
      pool_.mark_written(pool_[block]);
      tree_.attach(cursor, g, block);
    }
    ++i;
  }
  tree_.hold(cursor);
  tree_.release(request.cursor);
  request.cursor = cursor;
  request.published = static_cast<uint32_t>(i);
  if (request.marked < request.published * block_size) request.marked = request.published * block_size;
  request.next_full = (request.published + 1) * shape_.block_size;
  if (i < full) {
    counters_.unpublished_blocks += full - i;
    stop_publishing(request);
  }
  if (request.published >= request.num_hashes) request.hashes.clear(arena_), request.num_hashes = 0;
  request.shrink_tail(arena_, request.published * shape_.block_size);
  return KVC_OK;
}

void Manager::stop_publishing(Request& request) {
  request.next_full = UINT32_MAX;
  if (warned_nodes_) return;
  warned_nodes_ = true;
  warning_ = "all prefix nodes are in use: requests stop publishing; raise kvc_manager_config.max_nodes";
}

// Whether a window block that leaves the table can serve a later hit at a boundary of this request.
bool Manager::serves_boundary(const Request& request, uint32_t group, size_t position) const {
  const GroupShape& shape = shape_.groups[group];
  const uint32_t block_size = shape_.block_size;
  if (position < shape.sinks) return true;
  const auto serves = [&](uint64_t boundary) {
    return position < boundary / block_size && position >= shape.window_start(boundary, block_size);
  };
  const uint64_t prompt_end =
      request.prompt_len == 0 ? 0 : (request.prompt_len - 1) / block_size * block_size;
  if (serves(prompt_end)) return true;
  return shape.retention != 0 &&
         serves(ceil_div((position + 1) * block_size, shape.retention) * shape.retention);
}

void Manager::drop_window(Request& request, uint32_t group, size_t end) {
  GroupTable& table = request.groups[group];
  if (end <= table.dropped) return;
  const bool stale = request.epoch != namespaces_.epoch(request.ns);
  size_t j = table.dropped;
  if (j < shape_.groups[group].sinks) j = shape_.groups[group].sinks;
  for (; j < end; ++j) {
    const BlockId block = table.blocks.data[j];
    table.blocks.data[j] = kNoBlock;
    drop_ref(block, serves_boundary(request, group, j), request.ns, stale);
  }
  table.dropped = static_cast<uint32_t>(end);
}

kvc_status Manager::reserve_tokens(uint64_t id, uint64_t capacity) {
  const Guard lock(*this);
  Request* request = nullptr;
  KVC_TRY(find_request(id, true, &request));
  CopyList copies{true};
  return extend(*request, capacity, copies);
}

kvc_status Manager::append_tokens(uint64_t id, const int32_t* tokens, size_t num_tokens) {
  const Guard lock(*this);
  Request* request = requests_.find(id);
  if (request != nullptr && num_tokens == 1 && lane_takes(*request, *tokens)) {
    lane_append(*request, *tokens);
    return KVC_OK;
  }
  KVC_TRY(find_request(id, false, &request));
  CopyList copies{true};
  const kvc_status status = append(*request, tokens, num_tokens, copies);
  open_lane(*request);
  return status;
}

kvc_status Manager::commit_tokens(uint64_t id, uint64_t num_committed) {
  const Guard lock(*this);
  Request* request = requests_.find(id);
  if (request != nullptr && lane_commits(*request, num_committed)) {
    lane_commit(*request, num_committed);
    return KVC_OK;
  }
  KVC_TRY(find_request(id, true, &request));
  const kvc_status status = commit(*request, num_committed);
  open_lane(*request);
  return status;
}

}  // namespace kvc
