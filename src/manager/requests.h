// SPDX-License-Identifier: Apache-2.0
// Operations on requests. Each checks all that can fail, takes all memory that it needs, and only then
// changes state. All but fill() are used under the manager's lock.
//
// lifecycle.cc creates requests and forks them, growth.cc extends and commits, usual.cc the same for the
// usual decode step, shrink.cc preempts, truncates and ends. They work on RequestPart (request_part.h), as
// these parts do: Admissions, Publications (what requests publish), Returns (the blocks that they give back),
// WaitingCopies, and Features, each of which has a file or two of its own.
#pragma once
#include "manager/admissions.h"
#include "manager/prompts.h"
#include "manager/publications.h"
#include "manager/returns.h"
#include "manager/table_rows.h"

namespace kvc {

class Requests : private RequestPart {
 public:
  Requests(const Shape& shape, Blocks& blocks, Matcher& matcher, Prompts& prompts, TableRows& rows,
           const TableHash& hash, Arena& arena, Counters& counters)
      : RequestPart{shape, blocks, matcher, hash, arena, counters, table_, waiting_copies},
        prompts_(prompts),
        rows_(rows) {}
  [[nodiscard]] bool create(Memory& memory, IdTag tag) {
    return table_.create(memory, shape_.max_requests, shape_.num_groups, tag.tag, tag.generation) &&
           admissions.create(memory) && features.create(memory);
  }

  // The parts, each of which says what it keeps and does.
  WaitingCopies waiting_copies{blocks_, arena_};
  Curves curves;
  Features features{*this};
  Admissions admissions{*this, features, curves};
  Publications publications{*this, features, curves};
  Returns returns{*this, features};

  const Shape& shape() const { return shape_; }
  const RequestTable& table() const { return table_; }
  RequestTable::Records records() { return table_.records(); }
  const uint64_t& count() const { return count_; }  // those that are being created included
  Request& record(size_t index) { return table_.at(index); }
  // nullptr if there is none. find() closes the request's lane, peek() leaves it alone.
  Request* peek(uint64_t id) { return table_.find(id); }
  kvc_status find(uint64_t id, bool must_be_admitted, Request** request);
  static kvc_status not_found(uint64_t id) {
    if (id == 0) return fail(KVC_ERROR_NOT_FOUND, "no request 0: the id is not set; ids are never 0");
    return fail(KVC_ERROR_NOT_FOUND, "no request %llu: it was freed, or is of another manager", ull(id));
  }
  static kvc_status already_admitted(uint64_t id) {
    return fail(KVC_ERROR_BUSY, "request %llu is already admitted", ull(id));
  }

  // A new request: begin() and fill(), which needs no lock, then publish() or discard(). `config` is
  // complete.
  kvc_status begin(const TokenSpan& prompt, const kvc_request_config& config, Request** request);
  kvc_status fill(Request& request, const TokenSpan& prompt);
  void publish(Request& request) {
    request.building = false;
    table_.publish(request);
  }
  void discard(Request& request);  // a request without blocks

  using RequestPart::capacity_for;
  using RequestPart::hit_limit_tokens;
  // Gives the request slots for `capacity` tokens. `copies` is the list of a step, or nullptr in a single
  // call.
  kvc_status extend(Request& request, uint64_t capacity, CopyList* copies) {
    return extend(request, capacity, request.known, copies);
  }
  // The same when `known` tokens will be known then.
  kvc_status extend(Request& request, uint64_t capacity, uint64_t known, CopyList* copies) {
    if (capacity <= request.capacity) return KVC_OK;
    if (capacity > request.room || request.tail_shared)
      return extend_blocks(request, capacity, known, copies);
    request.set_capacity(capacity);
    return KVC_OK;
  }
  kvc_status append(Request& request, const int32_t* tokens, size_t num_tokens, CopyList* copies);
  // Adds tokens that were computed without being appended.
  kvc_status learn(Request& request, const int32_t* tokens, size_t num_tokens) {
    KVC_TRY(reserve_known(request, num_tokens));
    add_known(request, tokens, num_tokens);
    return KVC_OK;
  }
  // Adds what says more of tokens that are not written yet, known or not.
  kvc_status add_keys(Request& request, const kvc_extra_key* keys, size_t num_keys);
  // Steps in flight compute the tokens behind `num_computed`, and read what windows have left since then.
  kvc_status commit(Request& request, uint64_t num_committed, uint64_t num_computed);
  kvc_status truncate(Request& request, uint64_t num_tokens);
  kvc_status fork(Request& parent, uint64_t* child);
  kvc_status preempt(Request& request);
  kvc_status end(Request& request);  // never fails

  // A step has given the request slots, and will write its tokens: features may publish them ahead.
  void enqueue(Request& request, uint64_t step_id) {
    if (features.any()) [[unlikely]]
      publish_enqueued(request, step_id);
  }
  // The steps from `step_id` on have failed: preempts the requests that hold what they were to write.
  kvc_status fail_step(uint64_t step_id, uint64_t* ids, size_t capacity, size_t* count);

  // The usual commit and extension of a decode step, in a plain manager; usual.cc. False, or -1: nothing has
  // changed, and commit() or append() does it. append_usual() returns the token's slot; it opens the lane,
  // and the table has got one block more at most.
  bool commit_usual(Request& request, uint64_t committed);
  int64_t append_usual(Request& request, int32_t token);

  // The lane of a request: see Request.
  void open_lane(Request& request);
  bool lane_takes(const Request& request, int32_t token) const {
    return request.lane_takes_token() && token_in_range(token, shape_.vocab_size);
  }
  void lane_commit(Request& request, uint64_t committed) {
    const bool grows = committed > request.committed;
    request.set_committed(static_cast<uint32_t>(committed));
    if (grows && request.committed > request.marked) publications.mark_committed(request);
  }
  // Fetches ahead what growing by a block touches outside the record.
  void prefetch_growth(const Request& request) const {
    if (is_node(request.cursor)) blocks_.tree().prefetch_node(request.cursor);
    __builtin_prefetch(request.token(request.published_tokens()), 1);
    __builtin_prefetch(request.groups[0].blocks.data + request.positions, 1);
  }

  // After a compaction: table entries that name a free block name where its content has gone.
  void follow_moves(PoolIndex pool);

 private:
  // ---- lifecycle.cc
  kvc_status take_record(NamespaceId ns, Request** request);
  void share_blocks(const Request& parent, Request& child, size_t positions);

  // ---- growth.cc, but for what is short
  kvc_status reserve_known(Request& request, size_t num_tokens);
  // A waiting request's tokens are hashed for its next match.
  void add_known(Request& request, const int32_t* tokens, size_t num_tokens) {
    request.learn(tokens, num_tokens);
    if (!request.admitted) publications.hash_known(request);
  }
  kvc_status check_new_keys(const Request& request, uint64_t first) const;
  // Tokens that a transfer writes, or those that are known of them.
  static uint64_t transferred(const Request& request) {
    return std::min<uint64_t>(transfer_end(request), request.known);
  }
  void open_lane(Request& request, uint32_t position, uint64_t commit_limit) const;
  kvc_status commit_known(Request& request, uint32_t committed, uint32_t computed);
  kvc_status extend_blocks(Request& request, uint64_t capacity, uint64_t known, CopyList* copies);
  uint32_t shared_groups(const Request& request, size_t position) const;
  void publish_enqueued(Request& request, uint64_t step_id);

  // ---- shrink.cc, but for what is short
  void end_admission(Request& request, bool over);
  bool reserve_preemption(Request& request) {
    return gather_tokens(request, 0) &&
           request.hashes.reserve(arena_, request.known / shape_.block_size, request.num_hashes);
  }
  // Room for the key of a cut.
  bool reserve_cut(Request& request, uint64_t tokens) {
    return tokens == request.known || !request.ends_inside_key(tokens) ||
           request.keys.reserve(arena_, request.num_keys + 1, request.num_keys);
  }
  bool gather_tokens(Request& request, size_t first_position);
  // The last of the first `published` published positions of a request.
  NodeId cursor_at(const Request& request, size_t published) const {
    NodeId cursor = request.cursor;
    for (size_t j = request.published; j > published; --j) cursor = blocks_.tree()[cursor].parent;
    return cursor;
  }

  RequestTable table_;
  Prompts& prompts_;
  TableRows& rows_;
  uint64_t count_ = 0;
};

}  // namespace kvc
