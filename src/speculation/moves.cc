// SPDX-License-Identifier: Apache-2.0
#include "speculation/moves.h"

#include "base/ids.h"

namespace kvc {
namespace {

struct TokenPlace {
  int32_t block;
  uint32_t offset;
};

kvc_status find(const kvc_draft_tables& tables, size_t request, uint64_t position, TokenPlace* out) {
  const uint64_t entry = position / tables.block_size;
  if (entry >= tables.table_stride) {
    return invalid("request %zu: position %llu is past the %zu blocks of its table", request, ull(position),
                   tables.table_stride);
  }
  out->block = tables.block_tables[request * tables.table_stride + entry];
  out->offset = static_cast<uint32_t>(position % tables.block_size);
  if (out->block >= 0) return KVC_OK;
  return invalid(
      "request %zu: its table has no block for position %llu; give it lookahead slots for all nodes", request,
      ull(position));
}

// One move more, or a longer last one: tokens that stay together inside their blocks move together.
class Moves {
 public:
  Moves(GroupIndex group, kvc_token_copy* to, size_t capacity)
      : group_(group), to_(to), capacity_(capacity) {}
  void add(TokenPlace from, TokenPlace to) {
    if (count_ != begin_ && last_.source == from.block && last_.destination == to.block &&
        last_.offset + last_.num_tokens == from.offset && last_.new_offset + last_.num_tokens == to.offset) {
      ++last_.num_tokens;
    } else {
      last_ = {group_, from.block, to.block, from.offset, to.offset, 1};
      ++count_;
    }
    if (count_ <= capacity_) to_[count_ - 1] = last_;
  }
  void next_request() { begin_ = count_; }
  size_t count() const { return count_; }

 private:
  const uint32_t group_;
  kvc_token_copy* const to_;
  const size_t capacity_;
  size_t count_ = 0, begin_ = 0;  // begin_: moves of earlier requests
  kvc_token_copy last_ = {};
};

}  // namespace

kvc_status list_moves(const kvc_drafts& drafts, const kvc_verdict& verdict, const kvc_draft_tables& tables,
                      kvc_token_copy* to, size_t capacity, size_t* count) {
  Moves moves(tables.group, to, capacity);
  for (size_t r = 0; r < drafts.num_requests; ++r) {
    const int32_t* path = verdict.path + drafts.offsets[r];
    moves.next_request();
    for (size_t i = 0; i < verdict.num_accepted[r]; ++i) {
      const auto node = static_cast<uint64_t>(path[i]);
      if (node == i) continue;
      TokenPlace from = {}, into = {};
      KVC_TRY(find(tables, r, tables.starts[r] + node, &from));
      KVC_TRY(find(tables, r, tables.starts[r] + i, &into));
      moves.add(from, into);
    }
  }
  *count = moves.count();
  return KVC_OK;
}

kvc_status list_states(const kvc_drafts& drafts, const kvc_verdict& verdict, const kvc_draft_tables& tables,
                       const int32_t* states, kvc_block_copy* copies) {
  for (size_t r = 0; r < drafts.num_requests; ++r) {
    const Draft draft = draft_of(drafts, r);
    const uint64_t accepted = verdict.num_accepted[r];
    const int64_t last = accepted != 0 ? verdict.path[draft.first + accepted - 1] : -1;
    const size_t row = draft.first_row + static_cast<size_t>(last + 1);
    if (states[row] < 0)
      return invalid("states[%zu] is %d; give the block with the state after node %lld of request %zu", row,
                     states[row], static_cast<long long>(last), r);
    TokenPlace to = {};
    KVC_TRY(find(tables, r, tables.starts[r] + accepted - 1, &to));
    if (copies != nullptr) copies[r] = {states[row], to.block};
  }
  return KVC_OK;
}

}  // namespace kvc
