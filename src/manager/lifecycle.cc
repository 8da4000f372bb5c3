// SPDX-License-Identifier: Apache-2.0
// Creating requests, and their ids.
#include "manager/requests.h"

namespace kvc {

kvc_status Requests::not_found(uint64_t id) {
  if (id == 0) return fail(KVC_ERROR_NOT_FOUND, "no request 0: the id is not set; ids are never 0");
  return fail(KVC_ERROR_NOT_FOUND, "no request %llu: it was freed, or is of another manager", ull(id));
}

kvc_status Requests::already_admitted(uint64_t id) {
  return fail(KVC_ERROR_BUSY, "request %llu is already admitted", ull(id));
}

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
  blocks_.namespace_blocks().add_user(ns);
  request->begin(ns, shape_.block_size, shape_.max_request_tokens);
  prompts_.unbind(table_.index_of(*request));
  features_.each([&](auto& feature) { feature.created(*request); });
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
  features_.each([&](auto& feature) { feature.configured(request, config); });
  const size_t blocks = prompt.num_tokens / shape_.block_size;
  if (!request.tail.reserve(arena_, prompt.num_tokens, 0) || !request.hashes.reserve(arena_, blocks, 0) ||
      !request.keys.reserve(arena_, prompt.num_keys + own_keys, 0) ||
      (own_keys != 0 && !features_.get<Cross>().reserve_hashes(request))) {
    discard(request);
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the %zu tokens of a request", prompt.num_tokens);
  }
  if (own_keys != 0) features_.get<Cross>().bind(request, config, key);
  return KVC_OK;
}

// Copies, checks and hashes in pieces that stay in the first-level cache.
kvc_status Requests::fill(Request& request, const TokenSpan& prompt) {
  const uint32_t block_size = shape_.block_size;
  uint64_t chain = request.chain;
  const size_t piece = block_size * (block_size >= 1024 ? 1 : 1024 / block_size);
  size_t num_keys = prompt.num_keys;
  if (request.cross_shared) [[unlikely]]
    num_keys = features_.get<Cross>().fill(request, prompt);
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

void Requests::publish(Request& request) {
  request.building = false;
  table_.publish(request);
}

void Requests::discard(Request& request) {
  request.building = false;
  request.free_buffers(arena_, shape_.num_groups);
  features_.each([&](auto& feature) { feature.discarded(request); });
  blocks_.namespace_blocks().drop_user(request.ns);
  --count_;
  table_.give_back(request);
}

}  // namespace kvc
