// SPDX-License-Identifier: Apache-2.0
// What Requests and its parts work on, and what more than one of them asks of a request or does to it.
#pragma once
#include "manager/copies.h"
#include "manager/matcher.h"
#include "request/request_table.h"

namespace kvc {

class RequestPart {
 public:
  const Shape& shape_;
  Blocks& blocks_;
  Matcher& matcher_;
  const TableHash& hash_;
  Arena& arena_;
  Counters& counters_;
  RequestTable& requests_;
  WaitingCopies& copies_;

 protected:
  uint32_t index_of(const Request& request) const { return requests_.index_of(request); }
  // Whether its namespace was reset after its admission.
  bool stale(const Request& request) const { return request.epoch != blocks_.namespaces().epoch(request.ns); }
  // Whether it may use what others have published, if prefixes are cached; whether it does so now, and
  // publishes now.
  static bool may_read(const Request& request) { return allows(request, KVC_REQUEST_NO_READ); }
  bool reads(const Request& request) const { return takes_part(request, KVC_REQUEST_NO_READ); }
  bool publishes(const Request& request) const { return takes_part(request, KVC_REQUEST_NO_WRITE); }
  // Tokens that may be hits.
  uint64_t hit_limit_tokens(const Request& request) const {
    const uint64_t tokens = may_read(request) ? blocks_.most_cached(request.known) : 0;
    return request.max_cached_tokens == 0 ? tokens : std::min<uint64_t>(tokens, request.max_cached_tokens);
  }
  size_t hit_limit(const Request& request) const {
    return static_cast<size_t>(hit_limit_tokens(request) / shape_.block_size);
  }
  // Tokens that get slots once `known` are known.
  uint64_t capacity_for(const Request& request, uint64_t known) const {
    const uint64_t capacity = known + request.lookahead;
    return capacity < shape_.max_request_tokens ? capacity : shape_.max_request_tokens;
  }
  // Tokens that get slots at admission after a hit of `cached` tokens; in the end, if `all`.
  uint64_t admitted_capacity(const Request& request, uint64_t cached, bool all) const {
    if (request.slots != 0 && !all) {
      const uint64_t first = cached + request.external_tokens + request.slots;
      if (first < request.known) return first;
    }
    return capacity_for(request, request.known);
  }
  // Tokens up to which a transfer writes.
  static uint64_t transfer_end(const Request& request) {
    return uint64_t{request.num_cached} + request.external_tokens;
  }
  bool reserve_tables(Request& request, size_t positions) {
    for (size_t g = 0; g < shape_.num_token_groups; ++g) {
      if (!request.groups[g].blocks.reserve(arena_, positions, request.positions)) return false;
    }
    return true;
  }
  // Takes the blocks that positions [begin, end) of a table get.
  void take_blocks(Request& request, GroupIndex group, size_t begin, size_t end, uint64_t step_end,
                   uint64_t transfer_end) {
    BlockId* const blocks = request.groups[group].blocks.data;
    const Shape::Taken taken = shape_.taken(group, begin, end, step_end, transfer_end);
    for (size_t j = begin; j < taken.first; ++j) blocks[j] = kNoBlock;
    if (taken.few_begin != taken.few_end) [[unlikely]]
      blocks_.take(group, request.ns, taken.few_end - taken.few_begin, blocks + taken.few_begin);
    blocks_.take(group, request.ns, end - taken.first, blocks + taken.first);
  }
  // The blocks of positions up to `positions` are written.
  void mark_written(Request& request, size_t positions) {
    const size_t first = shape_.by_block.divide(request.marked);
    for (uint32_t g = 0; g < shape_.num_token_groups; ++g) {
      const BlockId* blocks = request.groups[g].blocks.data;
      for (size_t j = first; j < positions; ++j) {
        if (is_block(blocks[j])) blocks_.mark_written(blocks[j]);
      }
    }
    request.set_marked(static_cast<uint32_t>(positions * shape_.block_size));
  }
  static kvc_status no_memory_for_keys(size_t positions) {
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the extra keys of %zu blocks", positions);
  }

 private:
  static bool allows(const Request& request, uint32_t flag) {
    return (request.flags & flag) == 0 && !request.cross_private();
  }
  bool takes_part(const Request& request, uint32_t flag) const {
    return blocks_.caches() && allows(request, flag);
  }
};

}  // namespace kvc
