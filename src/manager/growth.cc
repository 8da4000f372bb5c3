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
  if (const kvc_status status = blocks_.room().check_room(demand, request.ns, 0, "the extension");
      status != KVC_OK) {
    Least least = least_held(shape_, capacity, 0);
    // The state before a new one stays until that is computed.
    for (uint32_t states = shape_.state_groups; states != 0 && request.positions != 0 && added != 0;
         states &= states - 1)
      ++least.blocks[shape_.groups[__builtin_ctz(states)].pool];
    add_cross(request, &least);
    return refused(request, status, least, "the extension");
  }
  if (!reserve_tables(request, positions) ||
      (copies == nullptr && !reserve_copies(static_cast<size_t>(__builtin_popcount(copied))))) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a table of %zu blocks", positions);
  }

  CopyList& list = copies == nullptr ? copies_ : *copies;
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
      list.out[list.count++] = {raw(source), raw(destination)};
      ++counters_.copies;
      table.replace(partial, destination);
    }
    if (added != 0) take_blocks(request, g, request.positions, positions, step_end, 0);
  }
  if (has_partial) request.own(partial);
  request.grow(positions, capacity);
  return KVC_OK;
}

// Room in the list of single calls; a step has checked its own.
bool Requests::reserve_copies(size_t added) {
  if (!copy_buffer_.reserve(arena_, copies_.count + added, copies_.count)) return false;
  copies_.out = copy_buffer_.data;
  return true;
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

// A waiting request's tokens are hashed for its next match.
void Requests::add_known(Request& request, const int32_t* tokens, size_t num_tokens) {
  request.learn(tokens, num_tokens);
  if (!request.admitted) hash_known(request);
}

void Requests::hash_known(Request& request) {
  while (request.hashed < request.known / shape_.block_size) request.keep_hash(next_chain(request));
}

// The chain value of the position after those that it covers.
uint64_t Requests::next_chain(const Request& request) const {
  uint64_t chain;
  const uint64_t first = uint64_t{request.hashed} * shape_.block_size;
  hash_.blocks(request.chain, request.token(first), shape_.block_size, 1, &chain);
  if (request.num_keys == 0) return chain;
  return ExtraView(request.key_list(), first, shape_.block_size).hash(hash_, chain);
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
  const NodeId cursor = request.cursor;
  request.replace_keys(arena_, all, count, first_new,
                       is_node(cursor) ? blocks_.tree()[cursor].key : matcher_.root(request.ns));
  if (!request.admitted) {
    hash_known(request);
  } else if (shape_.has_fills()) {
    Fills::Of& fill = fills_[table_.index_of(request)];
    if (fill.end > first) fill.end = static_cast<uint32_t>(first);
    follow_fill(request);
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

kvc_status Requests::learn(Request& request, const int32_t* tokens, size_t num_tokens) {
  KVC_TRY(reserve_known(request, num_tokens));
  add_known(request, tokens, num_tokens);
  return KVC_OK;
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
  if (shape_.has_fills() && num_computed != num_committed) [[unlikely]] {
    return fail(KVC_ERROR_UNSUPPORTED,
                "the manager follows fills, which a commit ahead of its step would end: publish by enqueued "
                "steps, or commit computed tokens alone");
  }
  const auto committed = static_cast<uint32_t>(num_committed);
  const auto computed = static_cast<uint32_t>(num_computed);
  if (shape_.has_cross() && request.cross_pending) [[unlikely]]
    return commit_cross(request, committed, computed);
  return commit_known(request, committed, computed);
}

// Whether all window groups hold what the token after so many reads. They do, but inside a transfer.
bool Requests::has_windows(const Request& request, uint32_t tokens) const {
  for (uint32_t windows = shape_.window_groups & ~shape_.state_groups; windows != 0; windows &= windows - 1) {
    const auto g = static_cast<uint32_t>(__builtin_ctz(windows));
    const size_t first = std::max(shape_.dropped_below(g, tokens), shape_.groups[g].sinks);
    if (first < request.groups[g].dropped && first < shape_.positions_of(tokens)) return false;
  }
  return true;
}

kvc_status Requests::commit_known(Request& request, uint32_t committed, uint32_t num_computed) {
  if (request.external_tokens != 0 && committed != request.committed) [[unlikely]] {
    if (!has_windows(request, committed)) {
      return invalid(
          "cannot commit %u tokens: that is inside a transfer, which brings only the window before its end; "
          "commit the whole transfer, %llu tokens, or preempt the request",
          committed, ull(transferred(request)));
    }
  }
  if (shape_.state_groups != 0) [[unlikely]]
    KVC_TRY(check_states(request, committed));
  if (committed >= request.next_full) {
    // What a transfer has written says nothing of the steps that write the hit.
    const bool computed =
        !shape_.has_fills() || committed > uint64_t{request.num_cached} + request.external_tokens;
    const uint32_t full = shape_.by_block.divide(committed);
    KVC_TRY(publish_full(request, full, full * shape_.block_size == committed, 0, computed));
  }
  lane_commit(request, committed);
  for (uint32_t windows = shape_.window_groups; windows != 0; windows &= windows - 1) {
    const auto g = static_cast<uint32_t>(__builtin_ctz(windows));
    drop_window(request, g, shape_.dropped_after(g, num_computed));
  }
  drop_copies();
  return KVC_OK;
}

// The first committed tokens of blocks up to the committed count. A block that is filling is written when all
// of it is committed, one of the hit not by a transfer; the others of its position are written now.
void Requests::mark_committed(Request& request) {
  const uint32_t block_size = shape_.block_size;
  size_t last = shape_.by_block.divide_up(request.committed);
  if (!shape_.has_fills()) {
    // In a lane, the first token of its block, which the last known one is in: the slots tell which it is.
    if (shape_.num_token_groups != 1 || request.append_limit == 0 ||
        uint64_t{request.marked} + block_size < request.known)
      return mark_written(request, last);
    const int64_t slot = request.slot_base + request.marked;
    blocks_.mark_written(BlockId{static_cast<int32_t>(slot / block_size)});
    request.set_marked(request.marked + block_size);
    return;
  }
  const size_t full = shape_.by_block.divide(request.committed);
  if (full != last && is_filling(request, full)) {
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      const BlockId block = request.groups[g].blocks.data[full];
      if (is_block(block) && !blocks_.pool().is_filling(block)) blocks_.mark_written(block);
    }
    last = full;
  }
  const uint32_t marked = request.marked;
  const bool computed = request.committed > uint64_t{request.num_cached} + request.external_tokens;
  const uint32_t own = request.own_from * shape_.block_size;
  if (computed || marked >= own) return mark_written(request, last);
  if (own > last * shape_.block_size) return;
  request.set_marked(own);
  mark_written(request, last);
  request.set_marked(marked);
}

void Requests::mark_written(Request& request, size_t positions) {
  const size_t first = shape_.by_block.divide(request.marked);
  for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
    const BlockId* blocks = request.groups[g].blocks.data;
    for (size_t j = first; j < positions; ++j) {
      if (is_block(blocks[j])) blocks_.mark_written(blocks[j]);
    }
  }
  request.set_marked(static_cast<uint32_t>(positions * shape_.block_size));
}

// Publishes positions [request.published, full), which are written, or which step `filled_by` will write.
// `ends_there`: the committed tokens end there, and so the state is that of the last of them.
kvc_status Requests::publish_full(Request& request, size_t full, bool ends_there, uint64_t filled_by,
                                  bool computed) {
  if (stale(request)) {  // reset since its admission
    stop_publishing(request, false);
    return KVC_OK;
  }
  ExtraRecords extras(arena_, request.key_list(), request.published, full, shape_.block_size);
  if (!extras.ok())
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the extra keys of %zu blocks",
                full - request.published);
  constexpr size_t kPiece = 64;  // positions that are hashed here, then published together
  NodeId cursor = request.cursor;
  const size_t checkpoint = ends_there ? full - 1 : SIZE_MAX;
  size_t done = request.published, end = done;
  while (done == end && end < full) {
    uint64_t chains[kPiece];
    const uint64_t* keys = chains;
    if (done < request.num_hashes) {
      keys = request.hashes.data + done;
      end = request.num_hashes < full ? request.num_hashes : full;
    } else {
      if (request.hashed > end) chains[end++ - done] = request.chain;  // hashed ahead
      for (; end < full && end - done < kPiece; ++end) {
        chains[end - done] = next_chain(request);
        request.set_chain(chains[end - done], request.hashed + 1);
      }
    }
    const size_t first = done;
    do {
      done =
          blocks_.positions().publish(shape_.has_gaps() ? &request.cursor : &cursor,
                                      {keys + (done - first), request.token(done * shape_.block_size), extras,
                                       request.groups, request.ns, request.epoch, filled_by, checkpoint},
                                      done, end);
    } while (done < end && shape_.has_hints() && blocks_.cached().evict_for_node(request.ns));
    if (keys == chains && !curves_.empty()) [[unlikely]]
      curves_.grow(request.ns, chains, done - first);
  }
  if (!shape_.has_gaps()) blocks_.positions().move_cursor(&request.cursor, cursor);
  const size_t before = request.published;
  if (filled_by == 0 && computed) {
    if (request.marked < request.published_tokens()) mark_written(request, before);
  } else if (filled_by != 0 &&
             request.marked > request.published_tokens()) {  // it has committed tokens of the first block
    request.set_marked(request.published_tokens());
  }
  request.set_published(done, filled_by == 0 && computed);
  if (shape_.has_hints()) [[unlikely]]
    apply_hints(request, before, done);
  if (done < full) {
    counters_.unpublished_blocks += full - done;
    node_tokens_ += (request.known / shape_.block_size - done) * shape_.block_size;
    stop_publishing(request, true);
  }
  if (shape_.has_fills()) [[unlikely]]
    follow_fill(request);
  request.drop_used_hashes(arena_);
  request.shrink_tail(arena_, request.published_tokens());
  return KVC_OK;
}

void Requests::stop_publishing(Request& request, bool warns) {
  request.stop_publishing();
  if (shape_.has_fills()) follow_fill(request);
  if (!warns || warned_nodes_) return;
  warned_nodes_ = true;
  warning_ = "all prefix nodes are in use: requests stop publishing; raise kvc_manager_config.max_nodes";
}

void Requests::stop_publishing_all() {
  for (size_t i = 0; i < table_.size(); ++i) {
    Request& request = table_.at(i);
    if (request.id == 0 || !request.admitted) continue;
    request.close_lane();
    stop_publishing(request, false);
  }
}

void Requests::drop_window(Request& request, uint32_t group, size_t end) {
  GroupTable& table = request.groups[group];
  if (end <= table.dropped) return;
  const bool of_old_epoch = stale(request);
  size_t j = table.dropped;
  if (j < shape_.groups[group].sinks) j = shape_.groups[group].sinks;
  for (; j < end; ++j) {
    const BlockId block = table.blocks.data[j];
    if (!is_block(block)) continue;
    table.blocks.data[j] = kNoBlock;
    blocks_.release(block, keep_of(request, group, j), request.ns, of_old_epoch);
  }
  table.dropped = static_cast<uint32_t>(end);
}

void Requests::open_lane(Request& request) {
  request.close_lane();
  if (!request.admitted || request.known == 0 || request.tail_shared || request.lookahead >= request.room)
    return;
  if (shape_.has_cross() && request.cross_pending) return;  // the next commit publishes
  if (request.external_tokens != 0 && request.committed < transferred(request)) return;
  for (uint32_t g = 0; g < shape_.num_groups && request.row >= 0; ++g) {
    if (!request.groups[g].in_sync(positions_in(shape_, request, g))) return;
  }
  const uint32_t position = shape_.by_block.divide(request.known - 1);
  if (position >= request.positions || request.marked < request.committed) return;
  if (!is_block(request.groups[0].blocks.data[position])) return;
  if (shape_.has_fills() && fills_[table_.index_of(request)].listed)
    return;  // a step may publish what it fills
  uint64_t commit_limit = request.next_full - 1;
  for (uint32_t windows = shape_.window_groups; windows != 0; windows &= windows - 1) {
    const auto g = static_cast<uint32_t>(__builtin_ctz(windows));
    // The count that would return a block.
    const uint32_t dropped = request.groups[g].dropped;
    if ((shape_.state_groups >> g & 1) != 0 && !is_block(request.groups[g].blocks.data[dropped]))
      return;  // no commit can end there
    const uint64_t dropping = shape_.commit_that_drops(g, uint64_t{dropped} + 1);
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

// A block that this step probably publishes is hashed here, so that its bucket is there in time.
void Requests::prefetch_publication(Request& request) {
  if (request.known < request.next_full || request.published < request.num_hashes) return;
  if (request.published < request.positions) {
    if (const BlockId block = request.groups[0].blocks.data[request.published]; is_block(block))
      blocks_.pool().prefetch(block);
  }
  if (request.hashed == request.published) request.set_chain(next_chain(request), request.hashed + 1);
  blocks_.tree().table().prefetch_write(request.chain);
}

}  // namespace kvc
