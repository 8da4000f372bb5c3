// SPDX-License-Identifier: Apache-2.0
// Creating requests and admitting them: match and hold in every group, then take blocks, atomically.
#include "manager/guard.h"

namespace kvc {

kvc_status Manager::find_request(uint64_t id, bool must_be_admitted, Request** out) {
  Request* request = requests_.find(id);
  if (request == nullptr) [[unlikely]] {
    return fail(KVC_ERROR_NOT_FOUND, "no request %#llx: freed, or of another manager",
                static_cast<unsigned long long>(id));
  }
  if (must_be_admitted && !request->admitted) {
    return fail(KVC_ERROR_BUSY, "request %#llx is waiting; admit it first",
                static_cast<unsigned long long>(id));
  }
  request->close_lane();
  *out = request;
  return KVC_OK;
}

bool Manager::reserve_tables(Request& request, size_t positions) {
  for (size_t g = 0; g < shape_.num_groups; ++g) {
    if (!request.groups[g].blocks.reserve(arena_, positions, request.positions)) return false;
  }
  return true;
}

kvc_status Manager::create_request(const TokenSpan& prompt, const kvc_request_config& config, bool admit_now,
                                   uint64_t* id, uint64_t* num_cached, size_t max_positions) {
  Request* request = nullptr;
  KVC_TRY(begin_request(prompt, config, &request));
  kvc_status status = fill_request(*request, prompt);  // long, without the lock

  const Guard lock(*this);
  if (status == KVC_OK && admit_now) status = admit(*request, max_positions);
  if (status != KVC_OK) {
    discard(*request);
    return status;
  }
  request->building = false;
  requests_.publish(*request);
  *id = request->id;
  if (num_cached != nullptr) *num_cached = request->num_cached;
  return KVC_OK;
}

// Takes an entry and all memory that the tokens need.
kvc_status Manager::begin_request(const TokenSpan& prompt, const kvc_request_config& config, Request** out) {
  if (prompt.num_tokens > shape_.max_request_tokens) {
    return fail(KVC_ERROR_LIMIT, "%zu tokens are more than max_request_tokens, %llu", prompt.num_tokens,
                static_cast<unsigned long long>(shape_.max_request_tokens));
  }
  KVC_TRY(check_keys(prompt));
  const std::lock_guard lock(mutex_);
  uint32_t ns = 0;
  KVC_TRY(find_namespace(prompt.namespace_id, &ns));
  Request* request = requests_.take();
  if (request == nullptr) {
    return fail(KVC_ERROR_LIMIT, "all %llu requests are in use; free some or raise max_requests",
                static_cast<unsigned long long>(shape_.max_requests));
  }
  ++num_requests_;
  request->ns = ns;
  request->building = true;
  ++namespaces_[ns].users;
  request->chain = hash_.root(ns, namespaces_[ns].generation);
  const size_t blocks = prompt.num_tokens / shape_.block_size;
  if (!request->tail.reserve(arena_, prompt.num_tokens, 0) || !request->hashes.reserve(arena_, blocks, 0) ||
      !request->keys.reserve(arena_, prompt.num_keys, 0)) {
    discard(*request);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the %zu tokens of a request", prompt.num_tokens);
  }
  request->flags = config.flags;
  request->user_data = config.user_data;
  request->max_cached_tokens = config.max_cached_tokens;
  request->external_tokens = config.external_tokens;
  request->slots = config.slots;
  request->lookahead = static_cast<uint32_t>(config.lookahead);
  request->drop_tail_blocks = config.drop_tail_blocks;
  *out = request;
  return KVC_OK;
}

// Copies, checks and hashes in pieces that stay in the first-level cache.
kvc_status Manager::fill_request(Request& request, const TokenSpan& prompt) {
  const uint32_t block_size = shape_.block_size;
  const size_t piece = block_size * (block_size >= 1024 ? 1 : 1024 / block_size);
  if (prompt.num_keys != 0)
    std::memcpy(request.keys.data, prompt.keys, prompt.num_keys * sizeof(kvc_extra_key));
  request.num_keys = static_cast<uint32_t>(prompt.num_keys);
  for (size_t done = 0; done < prompt.num_tokens; done += piece) {
    const size_t count = prompt.num_tokens - done < piece ? prompt.num_tokens - done : piece;
    int32_t* tokens = request.tail.data + done;
    std::memcpy(tokens, prompt.tokens + done, count * sizeof(int32_t));
    KVC_TRY(check_tokens(tokens, count, shape_.vocab_size, done));
    if (prompt.num_keys == 0) {
      request.chain = hash_.blocks(request.chain, tokens, block_size, count / block_size,
                                   request.hashes.data + done / block_size);
    }
  }
  if (prompt.num_keys != 0) {
    request.chain = hash_span(hash_, request.chain,
                              {request.tail.data, prompt.num_tokens, request.keys.data, prompt.num_keys},
                              block_size, request.hashes.data);
  }
  request.known = request.prompt_len = static_cast<uint32_t>(prompt.num_tokens);
  request.num_hashes = request.hashed = request.known / block_size;
  return KVC_OK;
}

void Manager::discard(Request& request) {
  request.building = false;
  request.free_buffers(arena_, shape_.num_groups);
  --namespaces_[request.ns].users;
  --num_requests_;
  requests_.give_back(request);
}

kvc_status Manager::admit_request(uint64_t id, uint64_t* num_cached, size_t max_positions) {
  const Guard lock(*this);
  Request* request = nullptr;
  KVC_TRY(find_request(id, false, &request));
  if (request->admitted) {
    return fail(KVC_ERROR_BUSY, "request %#llx is admitted already", static_cast<unsigned long long>(id));
  }
  KVC_TRY(admit(*request, max_positions));
  if (num_cached != nullptr) *num_cached = request->num_cached;
  return KVC_OK;
}

size_t Manager::hit_limit(const Request& request) const {
  if (!shape_.caches() || (request.flags & KVC_REQUEST_NO_READ) != 0 || request.known == 0) return 0;
  uint64_t tokens = request.known - 1;
  if (request.max_cached_tokens != 0 && request.max_cached_tokens < tokens)
    tokens = request.max_cached_tokens;
  return tokens / shape_.block_size;
}

// Tokens that get slots at admission after a hit of `cached` tokens.
uint64_t Manager::admitted_capacity(const Request& request, uint64_t cached, bool all) const {
  if (request.slots != 0 && !all) {
    const uint64_t first = cached + request.external_tokens + request.slots;
    if (first < request.known) return first;
  }
  return capacity_for(request, request.known);
}

kvc_status Manager::admit(Request& request, size_t max_positions) {
  if (const size_t longest = positions_of(admitted_capacity(request, 0, true)); longest > max_positions) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the request may need %zu blocks, row_stride is %zu", longest,
                max_positions);
  }
  const uint32_t groups = shape_.full_groups | shape_.window_groups;
  const size_t limit = hit_limit(request);
  if (!reserve_scratch(limit)) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to match %zu blocks", limit);
  const uint64_t epoch = namespaces_.epoch(request.ns);
  const Prompt prompt{request.tail.data, request.hashes.data, request.keys.data,
                      request.num_keys,  request.ns,          epoch};
  const NodeId* path = path_.data;
  uint32_t lost = 0;
  const size_t length =
      match(prompt, limit, groups, request.drop_tail_blocks, path_.data, residents_.data, &lost);

  // What it takes out of each pool: new blocks, and hits that nobody holds yet.
  const uint64_t cached = length * shape_.block_size;
  const uint64_t capacity = admitted_capacity(request, cached, false);
  const size_t positions = positions_of(capacity);
  const bool must_fit = (request.flags & KVC_REQUEST_FULL_MUST_FIT) != 0;
  const size_t counted = must_fit ? positions_of(admitted_capacity(request, cached, true)) : positions;
  Demand demand(shape_.num_pools);
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    const uint32_t pool = shape_.groups[g].pool;
    demand.blocks[pool] += counted - length;
    for (size_t j = 0; j < length; ++j) {
      if (!needs_position(g, j, length)) continue;
      const Block& block = pool_[tree_.block_of(path[j], g)];
      demand.blocks[pool] += block.list == List::kLru;
      demand.fenced_hits[pool] += block.list == List::kFenced;
    }
  }
  const uint64_t watermark = live_requests_ != 0 ? shape_.watermark : 0;
  if (const kvc_status status = shortage(demand, watermark, "the admission"); status != KVC_OK) {
    ++counters_.refusals;
    return status;
  }
  if (!reserve_tables(request, positions)) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a table of %zu blocks", positions);
  }

  // Nothing can fail from here on. The cursor and the hits of all groups are held before any block is taken.
  request.cursor = length != 0 ? path[length - 1] : root_of(request.ns);
  tree_.hold(request.cursor);
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    GroupTable& table = request.groups[g];
    for (size_t j = 0; j < length; ++j) {
      table.blocks.data[j] = kNoBlock;
      if (!needs_position(g, j, length)) continue;
      const BlockId block = tree_.block_of(path[j], g);
      hit(block);
      pool_.add_ref(pool_[block]);
      table.blocks.data[j] = block;
    }
    table.dropped = shape_.groups[g].windowed()
                        ? static_cast<uint32_t>(shape_.groups[g].window_start(cached, shape_.block_size))
                        : 0;
    table.synced = table.synced_dropped = table.shown = 0;
  }
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    take_blocks(g, request.ns, positions - length, request.groups[g].blocks.data + length);
  }
  request.set_positions(positions, shape_.block_size, shape_.max_request_tokens);
  request.capacity = static_cast<uint32_t>(capacity);
  request.committed = request.marked = request.num_cached = static_cast<uint32_t>(cached);
  request.published = request.own_from = static_cast<uint32_t>(length);
  request.epoch = epoch;
  const bool publishes = shape_.caches() && (request.flags & KVC_REQUEST_NO_WRITE) == 0;
  request.next_full = publishes ? request.committed + shape_.block_size : UINT32_MAX;
  request.tail_shared = false;
  request.lost = lost * shape_.block_size;
  request.admitted = true;
  ++live_requests_;
  count_admission(request);
  return KVC_OK;
}

void Manager::count_admission(Request& request) {
  if (request.readmission || (request.flags & KVC_REQUEST_RESUMED) != 0) {
    ++counters_.readmissions;
  } else {
    ++counters_.admissions;
    counters_.prompt_tokens += request.known;
    counters_.cached_tokens += request.num_cached;
    counters_.block_queries += request.known == 0 ? 0 : (request.known - 1) / shape_.block_size;
    counters_.block_hits += request.published;
    counters_.lost_reuse_tokens += request.lost;
  }
  request.readmission = true;
}

}  // namespace kvc
