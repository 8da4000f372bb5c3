// SPDX-License-Identifier: Apache-2.0
// Creating requests, new ones and forks, which share their parent's blocks; and their ids.
#include <algorithm>

#include "manager/requests.h"

namespace kvc {

kvc_status Requests::find(uint64_t id, bool must_be_admitted, Request** out) {
  Request* request = table_.find(id);
  if (request == nullptr) [[unlikely]]
    return not_found(id);
  if (must_be_admitted && !request->admitted) {
    return fail(KVC_ERROR_BUSY, "request %llu is waiting; admit it first", ull(id));
  }
  request->close_lane();
  *out = request;
  return KVC_OK;
}

// An unused record, which counts as a user of its namespace until discard().
kvc_status Requests::take_record(NamespaceId ns, Request** out) {
  Request* request = table_.take();
  if (request == nullptr) {
    return fail(KVC_ERROR_LIMIT, "all %llu requests are in use; free some or raise max_requests",
                ull(shape_.max_requests));
  }
  ++count_;
  blocks_.namespace_blocks.add_user(ns);
  request->begin(ns, shape_.block_size, shape_.max_request_tokens);
  prompts_.unbind(table_.index_of(*request));
  features.each([&](auto& feature) { feature.created(*request); });
  *out = request;
  return KVC_OK;
}

kvc_status Requests::begin(const TokenSpan& prompt, const kvc_request_config& config, Request** out) {
  NamespaceId ns{};
  KVC_TRY(blocks_.namespaces().find(prompt.namespace_id, &ns));
  kvc_extra_key key;
  const size_t own_keys = config.cross_tokens != 0 && cross_key(config, &key);
  if (own_keys != 0) KVC_TRY(check_cross_key(prompt, key));
  KVC_TRY(take_record(ns, out));
  Request& request = **out;
  request.building = true;
  request.configure(config, matcher_.root(ns));
  features.each([&](auto& feature) { feature.configured(request, config); });
  const size_t blocks = prompt.num_tokens / shape_.block_size;
  if (!request.tail.reserve(arena_, prompt.num_tokens, 0) || !request.hashes.reserve(arena_, blocks, 0) ||
      !request.keys.reserve(arena_, prompt.num_keys + own_keys, 0) ||
      (own_keys != 0 && !features.get<Cross>().reserve_hashes(request))) {
    discard(request);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the %zu tokens of a request", prompt.num_tokens);
  }
  if (own_keys != 0) features.get<Cross>().bind(request, config, key);
  return KVC_OK;
}

// Copies, checks and hashes in pieces that stay in the first-level cache.
kvc_status Requests::fill(Request& request, const TokenSpan& prompt) {
  const uint32_t block_size = shape_.block_size;
  uint64_t chain = request.chain;
  const size_t piece = block_size * (block_size >= 1024 ? 1 : 1024 / block_size);
  size_t num_keys = prompt.num_keys;
  if (request.cross_shared) [[unlikely]]
    num_keys = features.get<Cross>().fill(request, prompt);
  else if (num_keys != 0)
    num_keys = order_keys(prompt.keys, num_keys, request.keys.data);
  if (num_keys != 0) KVC_TRY(check_links(link_keys(request.keys.data, 0, num_keys)));
  for (size_t done = 0; done < prompt.num_tokens; done += piece) {
    const size_t count = prompt.num_tokens - done < piece ? prompt.num_tokens - done : piece;
    int32_t* tokens = request.tail.data + done;
    std::memcpy(tokens, prompt.tokens + done, count * sizeof(int32_t));
    KVC_TRY(check_tokens(tokens, count, shape_.vocab_size, done));
    if (num_keys == 0) {
      chain = hash_.blocks(chain, tokens, block_size, count / block_size,
                           request.hashes.data + done / block_size);
    }
  }
  if (num_keys != 0) {
    chain = hash_span(hash_, chain, request.tail.data, prompt.num_tokens, {request.keys.data, num_keys},
                      block_size, request.hashes.data);
  }
  request.set_prompt(prompt.num_tokens, num_keys, chain);
  return KVC_OK;
}

void Requests::discard(Request& request) {
  request.building = false;
  request.free_buffers(arena_, shape_.num_groups);
  features.each([&](auto& feature) { feature.discarded(request); });
  blocks_.namespace_blocks.drop_user(request.ns);
  --count_;
  table_.give_back(request);
}

void Requests::share_blocks(const Request& parent, Request& child, size_t positions) {
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    child.groups[g].dropped = std::min(parent.groups[g].dropped, shape_.dropped_below(g, parent.committed));
    for (size_t j = 0; j < positions; ++j) {
      const BlockId block = parent.groups[g].blocks.data[j];
      child.groups[g].blocks.data[j] = block;
      if (is_block(block)) blocks_.share(block);
    }
  }
}

kvc_status Requests::fork(Request& parent, uint64_t* child_id) {
  KVC_TRY(features.try_each([&](const auto& feature) { return feature.check_fork(parent); }));
  if (!returns.has_windows(parent, parent.committed)) {
    return fail(KVC_ERROR_BUSY,
                "the transfer of the request is not committed: a fork would lack the window before token %u; "
                "commit %llu tokens first",
                parent.committed, ull(transferred(parent)));
  }
  Request* taken = nullptr;
  KVC_TRY(take_record(parent.ns, &taken));
  Request& child = *taken;
  const size_t full = shape_.by_block.divide(parent.committed);
  const size_t published = full < parent.published ? full : parent.published;  // more may be filling
  const auto first = static_cast<uint32_t>(published * shape_.block_size);
  const uint32_t unpublished = parent.committed - first;
  const size_t positions = shape_.positions_of(parent.committed);
  const uint32_t num_keys = parent.keys_within(parent.committed);
  if (!child.tail.reserve(arena_, unpublished + 2 * shape_.block_size, 0) ||
      !reserve_tables(child, positions) ||
      !child.keys.reserve(arena_, num_keys + parent.ends_inside_key(parent.committed), 0) ||
      !gather_tokens(parent, published)) {
    discard(child);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a fork of %u tokens", parent.committed);
  }
  if (const kvc_status status =
          features.try_each([&](auto& feature) { return feature.reserve_fork(parent, child); });
      status != KVC_OK) {
    discard(child);
    return status;
  }

  if (unpublished != 0) std::memcpy(child.tail.data, parent.token(first), unpublished * sizeof(int32_t));
  if (num_keys != 0) std::memcpy(child.keys.data, parent.keys.data, num_keys * sizeof(ExtraKey));
  child.fork_from(parent, positions, published, num_keys);
  child.cut_keys(child.known);
  blocks_.positions.move_cursor(&child.cursor, cursor_at(parent, published));
  child.set_chain(matcher_.chain(child.cursor, child.ns), child.published);
  share_blocks(parent, child, positions);
  features.each([&](auto& feature) { feature.forked(parent, child); });
  admissions.count(child, true);
  table_.publish(child);
  *child_id = child.id;
  return KVC_OK;
}

}  // namespace kvc
