// SPDX-License-Identifier: Apache-2.0
// The facade: composes pools, prefix tree and requests into the operations of kvcache.h, and owns the only
// lock. Public functions lock, check everything that can fail, take all memory that is needed, and only then
// change state. Behaviour: docs/SEMANTICS.md.
//
// Reading guide: blocks.cc takes and returns blocks, match.cc finds hits, lifecycle.cc creates and admits,
// growth.cc extends and commits, shrink.cc releases, truncates and forks, step.cc batches all of these,
// step_check.cc is its validation, decode.cc its usual case,
// prefixes.cc probes, pins and drops, external.cc serves external blocks, tables.cc keeps rows and exports,
// compact.cc moves contents together, inspect.cc reports, check.cc and digest.cc walk the whole state.
#pragma once
#include <mutex>

#include "base/hash.h"
#include "base/id_tags.h"
#include "base/status.h"
#include "manager/lookup.h"
#include "manager/marks.h"
#include "manager/pin_table.h"
#include "manager/shape.h"
#include "manager/zeroing.h"
#include "observe/counters.h"
#include "observe/event_ring.h"
#include "pool/block_pool.h"
#include "prefix/prefix_tree.h"
#include "request/request.h"

namespace kvc {

// A validated step: arrays as in kvc_step; see step.h.
struct StepPlan;

class Manager {
 public:
  static kvc_status create(const Shape& shape, const Env& env, Manager** out);
  static void destroy(Manager* manager);

  const Shape& shape() const { return shape_; }
  // A warning that waits to be delivered by the caller once the lock is free; nullptr if there is none.
  const char* take_warning();

  kvc_status open_namespace(const kvc_namespace_config& config, uint64_t* id);
  kvc_status close_namespace(uint64_t id);
  kvc_status reset(uint64_t namespace_id);

  // Requests. `config` is complete; admit: whether to admit at once, if the table cannot outgrow
  // max_positions.
  kvc_status create_request(const TokenSpan& prompt, const kvc_request_config& config, bool admit,
                            uint64_t* id, uint64_t* num_cached, size_t max_positions = SIZE_MAX);
  kvc_status admit_request(uint64_t id, uint64_t* num_cached, size_t max_positions = SIZE_MAX);
  kvc_status reserve_tokens(uint64_t id, uint64_t capacity);
  kvc_status append_tokens(uint64_t id, const int32_t* tokens, size_t num_tokens);
  kvc_status commit_tokens(uint64_t id, uint64_t num_committed);
  kvc_status truncate_request(uint64_t id, uint64_t num_tokens);
  kvc_status fork_request(uint64_t id, uint64_t* child);
  kvc_status preempt_request(uint64_t id);
  kvc_status free_request(uint64_t id);
  kvc_status request_info(uint64_t id, kvc_request_info* info);
  kvc_status list_requests(uint64_t* ids, size_t capacity, size_t* count);

  kvc_status export_tables(const uint64_t* ids, size_t num_ids, uint32_t group, int32_t fill_id,
                           int32_t* tables, size_t row_stride);
  kvc_status export_slots(uint64_t id, uint32_t group, uint64_t first_token, uint64_t num_tokens, void* slots,
                          size_t element_size);
  kvc_status take_pending(kvc_pending_work* work);

  kvc_status probe(uint64_t namespace_id, const TokenSpan& tokens, kvc_probe_info* info);
  kvc_status pin_prefix(uint64_t namespace_id, const TokenSpan& tokens, uint64_t* pin, uint64_t* num_pinned);
  kvc_status unpin_prefix(uint64_t pin);
  kvc_status drop_prefix(uint64_t namespace_id, const TokenSpan& tokens, uint64_t* num_dropped);
  kvc_status evict_blocks(size_t max_blocks, size_t* num_evicted);

  kvc_status acquire_blocks(uint32_t group, int32_t* blocks, size_t num_blocks);
  kvc_status acquire_prefix(uint64_t namespace_id, uint32_t group, const TokenSpan& tokens, int32_t* blocks,
                            size_t capacity, size_t* count);
  kvc_status publish_blocks(uint64_t namespace_id, uint32_t group, const TokenSpan& tokens,
                            const int32_t* blocks, size_t num_blocks);
  kvc_status release_blocks(const int32_t* blocks, size_t num_blocks);
  kvc_status unpublish_blocks(const int32_t* blocks, size_t num_blocks, uint64_t* num_unpublished);

  kvc_status poll_events(uint64_t* cursor, void* events, size_t event_size, size_t capacity, size_t* count,
                         int32_t* tokens, size_t token_capacity);

  kvc_status step(StepPlan& plan);
  kvc_status retire_step(uint64_t step_id);

  kvc_status compact(uint32_t pool, kvc_block_copy* moves, size_t capacity, size_t* count);

  kvc_status check();
  uint64_t digest();
  Counters stats() const { return snapshot_.read(); }
  kvc_status pool_info(uint32_t pool, kvc_pool_info* info);
  kvc_status block_info(int32_t block, kvc_block_info* info);

  void* allocate_for_caller(size_t size) {
    const std::lock_guard lock(mutex_);
    return memory_.allocate(size, 64);
  }
  void release_for_caller(void* memory, size_t size) {
    const std::lock_guard lock(mutex_);
    memory_.release(memory, size, 64);
  }

 private:
  // Lock that publishes the counters when it is released.
  class Guard;
  friend class LookupScratch;
  friend class Checker;
  friend class ManagerPeer;  // tests

  Manager(const Shape& shape, const Env& env);
  kvc_status build();
  uint32_t last_generation();

  // manager.cc
  kvc_status find_namespace(uint64_t id, uint32_t* ns) const;
  void forget(uint32_t ns);
  void announce_cleared(uint64_t namespace_id);

  // blocks.cc
  static constexpr uint32_t kNoNamespace = UINT32_MAX;
  // For requests of a namespace, or, kNoNamespace, for external holds.
  void take_blocks(uint32_t group, uint32_t ns, size_t count, BlockId* out) {
    pop_blocks(group, count, out);
    if (zeroing_.on()) [[unlikely]]
      zeroing_.hand_over(out, count, ns == kNoNamespace ? Zeroing::kExternal : namespaces_.id(ns));
  }
  void pop_blocks(uint32_t group, size_t count, BlockId* out);
  void look_ahead(uint32_t pool, BlockId victim);
  void evict(BlockId victim);
  void hit(BlockId block) {  // out of LRU or FENCED, before a hold is added
    const List list = pool_[block].list;
    if (list == List::kHeld) return;
    if (list == List::kLru) --namespaces_.cached(tree_[pool_[block].node].ns, pool_[block].pool);
    pool_.remove(block);
  }
  void place(BlockId block);                           // its last hold is gone
  void place(BlockId block, uint32_t ns, bool stale);  // the same with its node's namespace known
  void settle(BlockId block);
  void settle(BlockId block, uint32_t ns, bool stale);
  void retire(uint64_t step_id);
  struct Demand {  // of an admission or extension, per pool
    explicit Demand(
        size_t num_pools) {  // the others are not read; clearing all would cost more than the rest
      for (size_t p = 0; p < num_pools; ++p) blocks[p] = fenced_hits[p] = 0;
    }
    uint64_t blocks[kMaxPools];
    uint64_t fenced_hits[kMaxPools];
  };
  kvc_status shortage(const Demand& demand, uint64_t watermark, const char* who);
  static uint64_t last_shortage();  // blocks missing at this thread's last refusal

  // match.cc
  size_t longest_window(uint32_t group, size_t limit, const uint32_t* residents) const;
  size_t longest_common(size_t limit, const uint32_t* residents, const TokenSpan& keys,
                        uint32_t groups) const;
  size_t cut(const TokenSpan& tokens, size_t positions) const;
  // Longest hit within `limit` positions in `groups`; path and residents are filled for it. lost may be null.
  size_t match(const Prompt& prompt, size_t limit, uint32_t groups, uint32_t drop, NodeId* path,
               uint32_t* residents, uint32_t* lost);
  uint32_t lost_positions(size_t known, size_t length, const uint32_t* residents, uint32_t groups) const;
  // Whether a hit of `length` positions needs the group's block at `position`.
  bool needs_position(uint32_t group, size_t position, size_t length) const {
    const GroupShape& shape = shape_.groups[group];
    return !shape.windowed() || position < shape.sinks ||
           position >= shape.window_start(length * shape_.block_size, shape_.block_size);
  }
  bool reserve_scratch(size_t positions);

  // lifecycle.cc
  kvc_status begin_request(const TokenSpan& prompt, const kvc_request_config& config, Request** out);
  kvc_status fill_request(Request& request, const TokenSpan& prompt);
  kvc_status admit(Request& request, size_t max_positions);
  void discard(Request& request);  // a request without blocks
  size_t hit_limit(const Request& request) const;
  uint64_t admitted_capacity(const Request& request, uint64_t cached, bool all) const;
  void count_admission(Request& request);
  kvc_status find_request(uint64_t id, bool must_be_admitted, Request** request);
  size_t positions_of(uint64_t tokens) const {
    return shape_.by_block.divide_up(static_cast<uint32_t>(tokens));
  }
  bool reserve_tables(Request& request, size_t positions);

  // growth.cc
  struct CopyList;
  uint32_t shared_groups(const Request& request, size_t position) const;
  kvc_status extend(Request& request, uint64_t capacity, CopyList& copies);
  kvc_status extend_blocks(Request& request, uint64_t capacity, CopyList& copies);
  kvc_status append(Request& request, const int32_t* tokens, size_t num_tokens, CopyList& copies);
  kvc_status reserve_known(Request& request, size_t num_tokens);
  void add_known(Request& request, const int32_t* tokens, size_t num_tokens);
  void hash_known(Request& request);
  // Tokens that get slots once `known` are known.
  uint64_t capacity_for(const Request& request, uint64_t known) const {
    const uint64_t capacity = known + request.lookahead;
    return capacity < shape_.max_request_tokens ? capacity : shape_.max_request_tokens;
  }
  uint64_t next_chain(const Request& request, size_t position) const;
  void hash_next(Request& request, size_t position);
  kvc_status commit(Request& request, uint64_t num_committed);
  kvc_status publish(Request& request, size_t full);
  void stop_publishing(Request& request);
  void drop_window(Request& request, uint32_t group, size_t end);
  bool serves_boundary(const Request& request, uint32_t group, size_t position) const;

  // shrink.cc
  void drop_ref(BlockId block, bool keep_published, uint32_t ns, bool stale);
  void release_blocks_of(Request& request);
  void release_windows(Request& request, size_t begin, size_t end, bool stale);
  void release_to_lru(Request& request, uint32_t group, size_t begin, size_t end);
  void release_full(Request& request, size_t begin, size_t end, bool stale);
  size_t boundary_below(const Request& request, size_t position) const;
  void end_admission(Request& request);
  void end_request(Request& request);
  bool gather_tokens(Request& request, size_t first_position);
  kvc_status preempt(Request& request);
  kvc_status truncate(Request& request, uint64_t num_tokens);
  void truncate_waiting(Request& request, uint32_t num_tokens);
  void cut_blocks(Request& request, uint64_t tokens, size_t kept, bool stale);
  bool is_alone(const Request& request, size_t position);
  void unpublish_partial(Request& request, size_t position);
  struct Restorable {
    uint64_t lower, higher;
  };
  Restorable restorable(const Request& request, uint64_t tokens) const;

  // decode.cc. What a request's open lane (request.h) allows; and what it does then.
  bool lane_takes(const Request& request, int32_t token) const {
    return request.known < request.append_limit && token_in_range(token, shape_.vocab_size);
  }
  static bool lane_commits(const Request& request, uint64_t committed) {
    return request.append_limit != 0 && committed >= request.committed && committed <= request.known &&
           committed <= request.capacity && committed <= request.commit_limit;
  }
  void lane_append(Request& request, int32_t token) {
    *request.next_token++ = token;
    const uint32_t capacity = ++request.known + request.lookahead;
    if (request.capacity < capacity) request.capacity = capacity;
  }
  void lane_commit(Request& request, uint64_t committed) {
    request.committed = static_cast<uint32_t>(committed);
    if (request.committed > request.marked) mark_committed(request);
  }
  void open_lane(Request& request);
  void mark_committed(Request& request);
  size_t decode_items(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end, kvc_status* status);
  void prefetch_items(const StepPlan& plan, size_t begin, size_t end, const kvc_status* status);

  // tables.cc
  // Whether the row shows this request, as its `synced` fields say. Rows beyond the table are always new.
  bool owns_row(const Request& request, int32_t row) const {
    return static_cast<size_t>(row) < row_owners_.size() &&
           row_owners_[static_cast<size_t>(row)] == request.id;
  }
  void forget_row(Request& request);
  int64_t slot_of(const Request& request, uint32_t group, uint32_t token) const;
  void write_slots(const StepPlan& plan, size_t i, const Request* request, uint64_t first, uint64_t count);
  void show(StepPlan& plan, size_t item, Request* request);
  void sync_row(StepPlan& plan, Request& request, uint32_t group, int32_t row, bool whole);

  // step_check.cc
  kvc_status check_step(const StepPlan& plan);
  kvc_status check_rows(const StepPlan& plan);
  void mark_requests(const StepPlan& plan);
  uint64_t extension_end(const StepPlan& plan, size_t i, const Request& request) const;
  size_t bound_changes(const StepPlan& plan);
  size_t bound_copies(const StepPlan& plan) const;

  // step.cc
  void end_step(CopyList& copies, uint64_t id);
  void close_lanes(const uint64_t* ids, size_t count);
  void find_repeated(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end, kvc_status* status);
  void commit_item(const StepPlan& plan, size_t i, kvc_status& status);
  void extend_item(StepPlan& plan, size_t i, kvc_status& status, CopyList& copies);
  kvc_status extend_request(const StepPlan& plan, size_t i, Request& request, const int32_t* tokens,
                            uint64_t first, uint64_t count, CopyList& copies);
  void admit_item(StepPlan& plan, size_t i, bool* refused);

  // external.cc
  kvc_status check_external_blocks(const int32_t* blocks, size_t num_blocks);

  // compact.cc
  void free_stale(uint32_t pool);
  void follow_moves(uint32_t pool);

  // digest.cc
  void digest_namespace(uint32_t ns, DigestHash& out) const;
  void digest_pool(size_t pool, DigestHash& out) const;
  void digest_request(const Request& request, DigestHash& out) const;

  void publish_stats();

  const Shape shape_;
  const Env env_;
  std::mutex mutex_;
  Memory memory_;
  Arena arena_;
  Counters counters_ = {};
  Snapshot snapshot_;
  IdTag id_tag_;
  EventRing events_;
  BlockPool pool_;
  NamespaceTable namespaces_;
  PrefixTree tree_;
  RequestTable requests_;
  PinTable pins_;
  Zeroing zeroing_;
  TableHash hash_;
  Buffer<NodeId> path_ = {};  // scratch of matching
  Buffer<uint32_t> residents_ = {};
  Buffer<kvc_block_copy> copies_ = {};  // of single calls, sources held
  size_t num_copies_ = 0;
  struct Coming {  // a block that will probably be evicted, as far as it is known
    BlockId block;
    NodeId node;
    uint32_t bucket;
  };
  struct LookAhead {
    static constexpr uint32_t kSize = 32;
    Coming coming[kSize];
    uint32_t count;
  };
  LookAhead ahead_[kMaxPools] = {};
  Array<uint64_t> row_owners_;     // request whose entries a row of the step tables shows
  Marks item_marks_;               // by index of the request: its item in the step that is checked
  Marks row_marks_;                // by row: the item that writes it
  uint64_t assigned_ = 0;          // steps begun
  uint64_t issued_ = 0;            // newest step that may be in flight
  uint64_t retired_ = 0;           // may be a step that a thread is still carrying out
  CopyList* executing_ = nullptr;  // steps begun and not ended
  uint64_t num_requests_ = 0;
  uint64_t live_requests_ = 0;  // admitted ones
  const char* warning_ = nullptr;
  bool warned_nodes_ = false;
};

}  // namespace kvc
