// SPDX-License-Identifier: Apache-2.0
// Requests that grow: slots for more tokens, tokens becoming known, tokens committed and published.
#include <algorithm>

#include "manager/requests.h"

namespace kvc {

// Groups whose partly filled block at `position` must be copied before it is written.
uint32_t Requests::shared_groups(const Request& request, size_t position) const {
  uint32_t groups = 0;
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    const BlockId id = request.groups[g].blocks.data[position];
    if (!is_block(id)) continue;
    const Block& block = blocks_.pool()[id];
    if (is_node(block.node) || block.shared()) groups |= 1u << g;
  }
  return groups;
}

kvc_status Requests::extend_blocks(Request& request, uint64_t capacity, uint64_t known, CopyList* copies) {
  if (capacity > shape_.max_request_tokens) {
    return fail(KVC_ERROR_LIMIT, "a capacity of %llu tokens is more than max_request_tokens, %llu",
                ull(capacity), ull(shape_.max_request_tokens));
  }
  const uint32_t partial = shape_.by_block.divide(request.capacity);  // written next, if partly filled
  const bool has_partial = request.tail_shared && request.capacity % shape_.block_size != 0;
  const uint32_t copied = has_partial ? shared_groups(request, partial) : 0;
  const size_t positions = shape_.positions_of(capacity);
  const size_t added = positions - request.positions;
  const uint64_t step_end = known < capacity ? known : capacity;
  Demand demand(shape_.num_pools);
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    demand.blocks[shape_.groups[g].pool] +=
        shape_.taken(g, request.positions, positions, step_end, 0).count() + (copied >> g & 1);
  }
  if (const kvc_status status = blocks_.room.check_room(demand, request.ns, 0, "the extension");
      status != KVC_OK) {
    Least least = least_held(shape_, capacity, 0);
    features.each([&](const auto& feature) { feature.add_least(request, added != 0, &least); });
    return blocks_.room.refused(status, least, request.ns, "the extension");
  }
  if (!reserve_tables(request, positions) ||
      (copies == nullptr && !copies_.reserve(static_cast<size_t>(__builtin_popcount(copied))))) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a table of %zu blocks", positions);
  }

  CopyList& list = copies == nullptr ? copies_.list() : *copies;
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    GroupTable& table = request.groups[g];
    if ((copied >> g & 1) != 0) {
      const BlockId source = table.blocks.data[partial];  // its reference goes over to the copy
      const BlockId destination =
          blocks_.take_copy(g, request.ns, request.committed > partial * shape_.block_size);
      if (blocks_.pool().is_filling(source)) [[unlikely]] {  // what is copied is not there yet
        blocks_.fill_like(destination, source);
        if (request.marked > partial * shape_.block_size) request.set_marked(partial * shape_.block_size);
      }
      list.add(source, destination);
      ++counters_.copies;
      table.replace(partial, destination);
    }
    if (added != 0) take_blocks(request, g, request.positions, positions, step_end, 0);
  }
  if (has_partial) request.own(partial);
  request.grow(positions, capacity);
  return KVC_OK;
}

// Room for more known tokens; add_known() cannot fail after it.
kvc_status Requests::reserve_known(Request& request, size_t num_tokens) {
  if (num_tokens > shape_.max_request_tokens - request.known) {
    return fail(KVC_ERROR_LIMIT, "%u + %zu tokens are more than max_request_tokens, %llu", request.known,
                num_tokens, ull(shape_.max_request_tokens));
  }
  const uint64_t blocks = (request.known + num_tokens) / shape_.block_size;
  if (!request.reserve_tail(arena_, request.published_tokens(), num_tokens) ||
      (!request.admitted && !request.hashes.reserve(arena_, blocks, request.num_hashes))) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu more tokens", num_tokens);
  }
  return KVC_OK;
}

kvc_status Requests::append(Request& request, const int32_t* tokens, size_t num_tokens, CopyList* copies) {
  if (num_tokens <= shape_.max_request_tokens) {  // else they are not read
    KVC_TRY(check_tokens(tokens, num_tokens, shape_.vocab_size));
  }
  KVC_TRY(reserve_known(request, num_tokens));
  const uint64_t known = request.known + num_tokens;
  if (request.admitted) KVC_TRY(extend(request, capacity_for(request, known), known, copies));
  add_known(request, tokens, num_tokens);
  return KVC_OK;
}

kvc_status Requests::add_keys(Request& request, const kvc_extra_key* keys, size_t num_keys) {
  KVC_TRY(check_keys(keys, num_keys, shape_.max_request_tokens));
  const size_t before = request.num_keys;
  Buffer<ExtraKey> all = {};
  if (num_keys == 0) return KVC_OK;
  if (!all.reserve(arena_, before + num_keys, 0))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu extra keys", before + num_keys);
  if (before != 0) std::memcpy(all.data, request.keys.data, before * sizeof(ExtraKey));
  size_t first_new = 0;
  const size_t count = order_keys(keys, num_keys, all.data, before, &first_new);
  const uint64_t first = count == before ? UINT64_MAX : all.data[first_new].first_token;
  const kvc_status status = check_new_keys(request, first);
  const uint64_t full = link_keys(all.data, first_new, count);
  if (count == before || status != KVC_OK || full != kNoToken) {
    all.clear(arena_);
    return status != KVC_OK ? status : check_links(full);
  }
  request.replace_keys(arena_, all, count, first_new, matcher_.chain(request.cursor, request.ns));
  if (!request.admitted) {
    publications.hash_known(request);
  } else {
    features.each([&](auto& feature) { feature.rekeyed(request, first); });
  }
  return KVC_OK;
}

// What is written, published for a step that writes it, transferred, or shared with others by what it is
// called now, is identified already.
kvc_status Requests::check_new_keys(const Request& request, uint64_t first) const {
  if (first == 0 && request.cross_shared) {
    return fail(
        KVC_ERROR_UNSUPPORTED,
        "an extra key covers token 0, to which cross_digest binds the prefix; let the keys begin behind it");
  }
  if (!request.admitted) return KVC_OK;
  uint64_t fixed = std::max(request.committed, request.published_tokens());
  if (request.external_tokens != 0) fixed = std::max(fixed, transferred(request));
  // A truncation may have left a part of a block that a step fills, and that others have found.
  if (request.tail_shared && shape_.by_block.remainder(request.capacity) != 0 &&
      shared_groups(request, shape_.by_block.divide(request.capacity)) != 0)
    fixed = std::max<uint64_t>(fixed, std::min(request.known, request.capacity));
  if (first >= fixed) return KVC_OK;
  return invalid(
      "an extra key begins at token %llu; it must begin at token %llu or later: the tokens before are "
      "committed, published, transferred or in a shared block",
      ull(first), ull(fixed));
}

kvc_status Requests::commit(Request& request, uint64_t num_committed, uint64_t num_computed) {
  if (num_committed < request.committed || num_committed > request.known ||
      num_committed > request.capacity) {
    return fail(
        KVC_ERROR_INVALID_ARGUMENT,
        "cannot commit %llu tokens: %u are committed, %u known and %u have slots; the count is absolute",
        ull(num_committed), request.committed, request.known, request.capacity);
  }
  if (num_computed > num_committed) [[unlikely]] {
    return invalid("%llu tokens are computed and only %llu are committed; commit all that are computed",
                   ull(num_computed), ull(num_committed));
  }
  if (num_computed != num_committed) [[unlikely]]
    KVC_TRY(features.try_each([&](const auto& feature) { return feature.check_ahead(); }));
  const auto committed = static_cast<uint32_t>(num_committed);
  const auto computed = static_cast<uint32_t>(num_computed);
  if (!features.any()) [[likely]]
    return commit_known(request, committed, computed);
  return features.get<Cross>().commit(request, committed, [this, &request, committed, computed] {
    return commit_known(request, committed, computed);
  });
}

kvc_status Requests::commit_known(Request& request, uint32_t committed, uint32_t num_computed) {
  if (request.external_tokens != 0 && committed != request.committed) [[unlikely]] {
    if (!returns.has_windows(request, committed)) {
      return invalid(
          "cannot commit %u tokens: that is inside a transfer, which brings only the window before its end; "
          "commit the whole transfer, %llu tokens, or preempt the request",
          committed, ull(transferred(request)));
    }
  }
  KVC_TRY(features.try_each([&](const auto& feature) { return feature.check_commit(request, committed); }));
  if (committed >= request.next_full) {
    const bool computed =
        features.all([&](const auto& feature) { return feature.is_computed(request, committed); });
    const uint32_t full = shape_.by_block.divide(committed);
    KVC_TRY(publications.publish_full(request, full, full * shape_.block_size == committed, 0, computed));
  }
  lane_commit(request, committed);
  if (shape_.window_groups != 0) returns.drop_windows(request, num_computed);
  copies_.drop_released();
  return KVC_OK;
}

void Requests::publish_enqueued(Request& request, uint64_t step_id) {
  uint64_t tokens = 0;
  features.each([&](const auto& feature) { feature.enqueued(request, step_id, &tokens); });
  if (tokens == 0) return;
  const uint32_t full = shape_.by_block.divide(static_cast<uint32_t>(tokens));
  // Without memory for it the commit publishes.
  static_cast<void>(publications.publish_full(request, full, false, step_id, true));
}

void Requests::open_lane(Request& request) {
  request.close_lane();
  if (!request.admitted || request.known == 0 || request.tail_shared || request.lookahead >= request.room)
    return;
  if (request.external_tokens != 0 && request.committed < transferred(request)) return;
  for (uint32_t g = 0; g < shape_.num_groups && request.row >= 0; ++g) {
    if (!request.groups[g].in_sync(positions_in(shape_, request, g))) return;
  }
  const uint32_t position = shape_.by_block.divide(request.known - 1);
  if (position >= request.positions || request.marked < request.committed) return;
  if (!is_block(request.groups[0].blocks.data[position])) return;
  if (!features.all([&](const auto& feature) { return feature.opens_lane(request); })) return;
  uint64_t commit_limit = request.next_full - 1;
  for (const uint32_t g : bits_of(shape_.window_groups)) {
    // The count that would return a block.
    const uint64_t dropping = shape_.commit_that_drops(g, uint64_t{request.groups[g].dropped} + 1);
    if (commit_limit >= dropping) commit_limit = dropping - 1;
  }
  if (commit_limit < request.committed) return;  // the next commit returns what was kept for steps in flight
  open_lane(request, position, commit_limit);
}

// The last known token is in `position`, where the lane may append.
void Requests::open_lane(Request& request, uint32_t position, uint64_t commit_limit) const {
  uint64_t append_limit = uint64_t{position + 1} * shape_.block_size;
  if (append_limit > request.room - request.lookahead) append_limit = request.room - request.lookahead;
  if (append_limit > uint64_t{request.tail_base} + request.tail.capacity)
    append_limit = uint64_t{request.tail_base} + request.tail.capacity;
  request.open_lane(append_limit, commit_limit,
                    (int64_t{raw(request.groups[0].blocks.data[position])} - position) * shape_.block_size);
}

}  // namespace kvc
