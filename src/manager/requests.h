// SPDX-License-Identifier: Apache-2.0
// Operations on requests. Each checks all that can fail, takes all memory that it needs, and only then
// changes state. All but fill() are used under the manager's lock.
//
// lifecycle.cc creates and admits, headroom.cc says what admissions take ahead, growth.cc extends and
// commits, usual.cc the same for the usual decode step, shrink.cc releases and truncates, fork.cc forks,
// states.cc places recurrent states, cross.cc keeps the blocks of encoders, fills.cc follows who computes
// what, hints.cc keeps what the engine says of their future.
#pragma once
#include "manager/admission.h"
#include "manager/blocks.h"
#include "manager/cross.h"
#include "manager/curves.h"
#include "manager/fills.h"
#include "manager/matcher.h"
#include "manager/prompts.h"
#include "manager/table_rows.h"
#include "request/hints.h"
#include "request/lengths.h"

struct kvc_probe_info;

namespace kvc {

// Copies of blocks, on a write or of the head of a block: those of a step, in the caller's array, or those of
// single calls, until they are taken or their destination has no holder. The source of each is held until the
// step ends, or the pair is taken or dropped.
struct CopyList {
  kvc_block_copy* out = nullptr;
  size_t count = 0;
  CopyList* next = nullptr;  // of another step that a thread is carrying out
};

class Requests {
 public:
  Requests(const Shape& shape, Blocks& blocks, Matcher& matcher, Prompts& prompts, TableRows& rows,
           const TableHash& hash, Arena& arena, Counters& counters)
      : shape_(shape),
        blocks_(blocks),
        matcher_(matcher),
        prompts_(prompts),
        rows_(rows),
        hash_(hash),
        arena_(arena),
        counters_(counters) {}
  [[nodiscard]] bool create(Memory& memory, IdTag tag) {
    return table_.create(memory, shape_.max_requests, shape_.num_groups, tag.tag, tag.generation) &&
           lost_.create(memory, shape_.num_groups) &&
           (!shape_.has_hints() || hints_.create(memory, shape_.max_requests)) &&
           (!shape_.has_fills() || fills_.create(memory, shape_.max_requests)) &&
           (!shape_.has_cross() || cross_.create(memory, shape_.max_requests));
  }

  const Shape& shape() const { return shape_; }
  const RequestTable& table() const { return table_; }
  RequestTable::Records records() { return table_.records(); }
  const uint64_t& count() const { return count_; }  // those that are being created included
  const uint64_t& num_admitted() const { return num_admitted_; }
  // Blocks of each pool that an admission leaves available now.
  uint64_t admission_watermark(uint32_t ns) const {
    return blocks_.num_admitted(ns, num_admitted_) != 0 ? shape_.watermark : 0;
  }
  uint64_t num_admitted_of(uint32_t ns) const;
  const CopyList& waiting_copies() const { return copies_; }
  Curves& curves() { return curves_; }
  const Lengths& lengths() const { return lengths_; }
  // Positions and blocks that one admission visited at most.
  uint64_t longest_admission() const { return longest_admission_; }
  const LostCounters& lost(size_t group) const { return lost_[group]; }
  // Tokens in full blocks that requests knew and did not publish, as all nodes were in use.
  uint64_t node_tokens() const { return node_tokens_; }
  // Tokens that a request with so many after its prompt will probably still get, as KVC_HEADROOM_* says.
  uint64_t expected_tokens(uint32_t headroom, uint64_t generated) const;
  // A warning that the caller delivers once the lock is free; nullptr if there is none.
  const char* take_warning() { return std::exchange(warning_, nullptr); }

  Request& record(size_t index) { return table_.at(index); }
  // nullptr if there is none. find() closes the request's lane, peek() leaves it alone.
  Request* peek(uint64_t id) { return table_.find(id); }
  kvc_status find(uint64_t id, bool must_be_admitted, Request** request);
  static kvc_status not_found(uint64_t id);
  static kvc_status already_admitted(uint64_t id);

  // A new request: begin() and fill(), which needs no lock, then publish() or discard(). `config` is
  // complete.
  kvc_status begin(const TokenSpan& prompt, const kvc_request_config& config, Request** request);
  kvc_status fill(Request& request, const TokenSpan& prompt);
  void publish(Request& request);
  void discard(Request& request);  // a request without blocks
  // BUFFER_TOO_SMALL if the table could outgrow max_positions. `step_id`: the step that admits, 0 = none
  // does; `copies` is its list, or nullptr.
  kvc_status admit(Request& request, size_t max_positions, uint64_t step_id, CopyList* copies);
  // Tokens of a request that may be hits.
  uint64_t most_cached(const Request& request) const { return hit_limit_tokens(request); }
  // What an admission of a waiting request would find and take.
  kvc_status probe(const Request& request, kvc_probe_info* info);

  // Tokens that get slots once `known` are known.
  uint64_t capacity_for(const Request& request, uint64_t known) const {
    const uint64_t capacity = known + request.lookahead;
    return capacity < shape_.max_request_tokens ? capacity : shape_.max_request_tokens;
  }
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
  kvc_status learn(Request& request, const int32_t* tokens, size_t num_tokens);
  // Adds what says more of tokens that are not written yet, known or not.
  kvc_status add_keys(Request& request, const kvc_extra_key* keys, size_t num_keys);
  kvc_status commit(Request& request, uint64_t num_committed) {
    return commit(request, num_committed, num_committed);
  }
  // Steps in flight compute the tokens behind `num_computed`, and read what windows have left since then.
  kvc_status commit(Request& request, uint64_t num_committed, uint64_t num_computed);
  kvc_status truncate(Request& request, uint64_t num_tokens);
  kvc_status fork(Request& parent, uint64_t* child);
  kvc_status preempt(Request& request);
  kvc_status end(Request& request);  // never fails

  // Fills, if the manager follows them. The step has given the request slots, whose tokens it will write:
  // others that share find them from now on. `capacity_before`: of an extension.
  void enqueue(Request& request, uint64_t step_id);
  void enqueue_extension(Request& request, uint32_t capacity_before, uint64_t step_id);
  // The steps from `step_id` on have failed: preempts the requests that hold what they were to write.
  kvc_status fail_step(uint64_t step_id, uint64_t* ids, size_t capacity, size_t* count);
  // Admitted requests publish nothing more until their next admission.
  void stop_publishing_all();
  const Cross& cross(size_t index) const { return cross_[index]; }
  const Fills::Of& fill(size_t index) const { return fills_[static_cast<uint32_t>(index)]; }

  // Hints, if the manager has them.
  kvc_status check_hint(uint32_t priority, uint64_t until) const;
  kvc_status set_priority(Request& request, const HintRange& range);
  kvc_status end_session(Request& request, uint64_t shared_tokens);
  const RequestHints& hints(size_t index) const { return hints_[index]; }

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
    if (grows && request.committed > request.marked) mark_committed(request);
  }
  // Fetch ahead what growing by a block touches outside the record, and then what publishing a block touches.
  void prefetch_growth(const Request& request) const {
    if (is_node(request.cursor)) blocks_.tree().prefetch_node(request.cursor);
    __builtin_prefetch(request.token(request.published_tokens()), 1);
    __builtin_prefetch(request.groups[0].blocks.data + request.positions, 1);
  }
  void prefetch_publication(Request& request);

  // The nearest lengths at or below and at or above `tokens` whose windows are all still held.
  struct Restorable {
    uint64_t lower, higher;
  };
  Restorable restorable(const Request& request, uint64_t tokens) const;
  // The next number of tokens whose state is worth keeping; 0 = none.
  uint64_t next_checkpoint(const Request& request) const;

  size_t num_copies() const { return copies_.count; }
  // Hands out the pending copies and forgets them.
  void take_copies(kvc_block_copy* copies);
  void release_sources(const CopyList& copies);
  // After a compaction: table entries that name a free block name where its content has gone.
  void follow_moves(uint32_t pool);

 private:
  friend class Batch;

  // lifecycle.cc
  struct AdmissionPlan {
    explicit AdmissionPlan(size_t num_pools) : demand(num_pools) {}
    Matcher::Match hit;  // positions
    Matcher::Head head;  // with which the hit goes on
    AdmittedSlots slots;
    uint64_t epoch;
    bool cross_cached;          // if it has an encoder
    bool whole_blocks = false;  // no head is looked for
    Demand demand;
  };
  kvc_status plan(const Request& request, size_t max_positions, uint64_t step_id, AdmissionPlan* admission);
  kvc_status prepare(Request& request, size_t max_positions, uint64_t step_id, bool single,
                     AdmissionPlan* admission);
  void carry_out(Request& request, const AdmissionPlan& admission, uint64_t step_id, CopyList& copies);
  AdmittedSlots plan_slots(const Request& request, const AdmissionPlan& admission) const;
  void plan_demand(const Request& request, const AdmittedSlots& slots, AdmissionPlan* admission) const;
  void plan_headroom(const Request& request, size_t max_positions, AdmissionPlan* admission) const;
  void note_length(const Request& request);
  kvc_status take_record(uint32_t ns, Request** request);
  bool reserve_tables(Request& request, size_t positions);
  // Whether it may use what others have published.
  bool reads(const Request& request) const { return blocks_.caches() && may_read(request); }
  // The same while prefix caching is on.
  bool may_read(const Request& request) const {
    return shape_.caches() && (request.flags & KVC_REQUEST_NO_READ) == 0 && !request.cross_private();
  }
  bool publishes(const Request& request) const {
    return blocks_.caches() && (request.flags & KVC_REQUEST_NO_WRITE) == 0 && !request.cross_private();
  }
  uint64_t hit_limit_tokens(const Request& request) const;
  size_t hit_limit(const Request& request) const {
    return static_cast<size_t>(hit_limit_tokens(request) / shape_.block_size);
  }
  uint64_t lost_tokens(const AdmissionPlan& admission) const {
    const LostReuse& lost = admission.hit.lost;
    return uint64_t{lost.positions} * shape_.block_size -
           regained_tokens(lost, admission.hit.length, admission.head.tokens);
  }
  uint64_t admitted_capacity(const Request& request, uint64_t cached, bool all) const;
  void count_admission(Request& request, const AdmissionPlan& admission);
  Least least(const Request& request, const AdmissionPlan& admission) const;
  void add_cross(const Request& request, Least* least) const;
  // Counts a refusal and returns it, or NEVER_FITS.
  kvc_status refused(const Request& request, kvc_status status, const Least& least, const char* who);

  // growth.cc
  kvc_status reserve_known(Request& request, size_t num_tokens);
  void add_known(Request& request, const int32_t* tokens, size_t num_tokens);
  kvc_status check_new_keys(const Request& request, uint64_t first) const;
  bool reserve_cut(Request& request, uint64_t tokens);
  bool reserve_copies(size_t added);
  uint64_t transferred(const Request& request) const {
    return std::min<uint64_t>(uint64_t{request.num_cached} + request.external_tokens, request.known);
  }
  bool has_windows(const Request& request, uint32_t tokens) const;
  void open_lane(Request& request, uint32_t position, uint64_t commit_limit) const;
  kvc_status commit_known(Request& request, uint32_t committed, uint32_t computed);
  kvc_status extend_blocks(Request& request, uint64_t capacity, uint64_t known, CopyList* copies);
  uint32_t shared_groups(const Request& request, size_t position) const;
  uint64_t next_chain(const Request& request) const;
  void hash_known(Request& request);
  kvc_status publish_full(Request& request, size_t full, bool ends_there, uint64_t filled_by, bool computed);
  void stop_publishing(Request& request, bool warns);
  void drop_window(Request& request, uint32_t group, size_t end);
  void mark_committed(Request& request);
  void mark_written(Request& request, size_t positions);

  // states.cc
  void take_blocks(Request& request, uint32_t group, size_t begin, size_t end, uint64_t step_end,
                   uint64_t transfer_end);
  kvc_status check_states(const Request& request, uint32_t committed) const;
  bool serves_later(const Request& request, uint32_t group, size_t position) const;
  Keep keep_of(const Request& request, uint32_t group, size_t position) const;
  // Positions of a window group that hits near likely ends need: of the prompt, and of the request's own hit.
  struct NearEnds {
    size_t prompt, hit, hit_end;
    bool has(size_t position) const { return position >= prompt || (position >= hit && position < hit_end); }
  };
  NearEnds near_ends(const Request& request, uint32_t group) const;
  static uint64_t own_hit(const Request& request) { return uint64_t{request.num_cached} + request.lost; }
  // First position of a window that a hit needs which ends near `end` or behind it.
  size_t first_near(uint32_t group, uint64_t end) const {
    return shape_.groups[group].window_start(end < shape_.near_tokens ? 0 : end - shape_.near_tokens,
                                             shape_.block_size);
  }
  uint64_t shortened_prompt(const Request& request) const;
  // The next checkpoint of a request that has committed so many tokens.
  uint64_t checkpoint_after(const Request& request, uint64_t committed, uint64_t junction) const;
  uint32_t slots_left(const Request& request, uint32_t tokens) const;
  uint32_t states_inside(const Request& request) const;
  kvc_status check_fork_states(const Request& parent);
  void copy_state(const Request& parent, Request& child, uint32_t group);

  // shrink.cc
  bool stale(const Request& request) const { return request.epoch != blocks_.namespaces().epoch(request.ns); }
  void release_blocks_of(Request& request);
  void release_segments(Request& request, bool stale);
  void renew_window(const Request& request, const NearEnds& near, uint32_t group, size_t position);
  void release_windows(Request& request, uint32_t groups, const NearEnds* near, size_t begin, size_t end,
                       bool stale);
  void release_full(Request& request, size_t begin, size_t end, bool stale);
  NodeId cursor_at(const Request& request, size_t published) const;
  size_t boundary_below(const Request& request, size_t position) const;
  void end_admission(Request& request, bool ends);
  bool reserve_preemption(Request& request);
  bool gather_tokens(Request& request, size_t first_position);
  void cut_blocks(Request& request, uint64_t tokens, size_t kept);
  // After a request has released blocks: pending copies whose destination nobody holds any more are dropped,
  // before somebody else gets it.
  void drop_copies() {
    if (copies_.count != 0) [[unlikely]]
      drop_copies_to_released();
  }
  void drop_copies_to_released();

  // fork.cc
  void share_blocks(Request& parent, Request& child, size_t positions);

  // cross.cc, for managers that have cross groups
  bool reserve_cross_hashes(Request& request);
  void begin_cross(Request& request, const kvc_request_config& config, const kvc_extra_key& key);
  size_t fill_cross(Request& request, const TokenSpan& prompt);
  kvc_status plan_cross(const Request& request, AdmissionPlan* admission);
  void add_cross_demand(const Request& request, AdmissionPlan* admission) const;
  bool find_cross(const Request& request, uint64_t epoch);
  bool reserve_cross_tables(Request& request);
  void hold_cross(Request& request);
  void begin_cross_tables(Request& request, bool cached);
  kvc_status commit_cross(Request& request, uint32_t committed, uint32_t computed);
  void release_cross(Request& request, bool of_old_epoch);
  bool reserve_cross_fork(const Request& parent, Request& child);
  void fork_cross(const Request& parent, Request& child);

  // fills.cc
  uint64_t fills_behind(const Request& request, uint64_t step_id) const;
  void begin_fill(Request& request, size_t num_hits, uint64_t step_id);
  void follow_fill(const Request& request);
  bool find_fill(const Request& request, const Matcher::Match& hit, uint64_t behind, uint64_t* filler) const;
  kvc_status wait_for_fill(const Request& request, const Matcher::Match& hit, uint64_t step_id);
  bool is_filling(const Request& request, size_t position) const;
  bool holds_filling(const Request& request, uint64_t step_id) const;

  // hints.cc
  void apply_hints(const Request& request, size_t begin, size_t end);
  void demote_tail(const Request& request);

  const Shape& shape_;
  Blocks& blocks_;
  Matcher& matcher_;
  Prompts& prompts_;
  TableRows& rows_;
  const TableHash& hash_;
  Arena& arena_;
  Counters& counters_;
  Curves curves_;
  Lengths lengths_;  // with KVC_MANAGER_HEADROOM
  RequestTable table_;
  Array<LostCounters> lost_;  // by group
  uint64_t node_tokens_ = 0;
  Array<RequestHints> hints_;       // by index of the request; empty without hints
  Fills fills_;                     // empty without fills
  Array<Cross> cross_;              // likewise; empty without cross groups
  Buffer<NodeId> cross_path_ = {};  // of the last plan
  CopyList copies_;                 // of single calls
  Buffer<kvc_block_copy> copy_buffer_ = {};
  uint64_t count_ = 0;
  uint64_t num_admitted_ = 0;
  uint64_t admissions_ = 0;  // and forks, with fills
  uint64_t longest_admission_ = 0;
  const char* warning_ = nullptr;
  bool warned_nodes_ = false;
};

}  // namespace kvc
