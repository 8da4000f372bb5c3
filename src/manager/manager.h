// SPDX-License-Identifier: Apache-2.0
// The facade: one object per kvc_manager, which owns the parts below, the only lock, and the order of their
// calls. Behaviour: docs/SEMANTICS.md. Reading guide:
//   Blocks         blocks.h          the only part that moves blocks
//   Matcher        matcher.h         finds how much of a prompt is cached
//   Requests       requests.h        creates, extends, commits, truncates, forks, preempts, frees
//   Admissions, Publications, Returns, Features   parts of Requests, a header each
//   TableRows      table_rows.h      the rows of block tables that steps keep up to date
//   SchedulerView  scheduler_view.h  creates and admits requests, and takes the lock for it
//   Stepper, Batch stepper.h         carry out many of these
//   Pins, ExternalBlocks             what is held without a request
//   Prompts          prompts.h       prompts by name, with their pins
//   StateReader    state_reader.h    reports, check and digest
//   Curves         curves.h          miss-ratio curves; Requests feeds them
//   Monitor        monitor.h         the lock and the counters that readers see
#pragma once
#include <functional>

#include "manager/external.h"
#include "manager/offload_view.h"
#include "manager/state_reader.h"
#include "observe/event_ring.h"

struct kvc_curve_config;
struct kvc_curve_info;
struct kvc_event_batch;
struct kvc_probe_info;
struct kvc_rebuild;

namespace kvc {

class EventWriter;
struct Contents;

class Manager {
 public:
  static kvc_status create(const Shape& shape, const Env& env, Manager** out);
  static void destroy(Manager* manager);

  const Shape& shape() const { return shape_; }
  IdTag id_tag() const { return id_tag_; }
  // A warning that waits to be delivered by the caller once the lock is free; nullptr if there is none.
  const char* take_warning();
  // From now on calls that change the state are made under this lock, in whose order they are logged.
  void log_under(std::mutex& order) { log_order_ = &order; }

  kvc_status open_namespace(const kvc_namespace_config& config, uint64_t* id) {
    return change([&] { return blocks_.open_namespace(config, id); });
  }
  kvc_status close_namespace(uint64_t id);
  kvc_status reset_namespace(uint64_t namespace_id);
  kvc_status reset_all();
  kvc_status set_prefix_caching(bool on);

  kvc_status set_quota(uint64_t namespace_id, uint32_t pool, uint64_t min, uint64_t max);
  // Miss-ratio curves: sizing.cc. Of a namespace; 0 = all together.
  kvc_status open_curve(uint64_t namespace_id, const kvc_curve_config& config);
  kvc_status close_curve(uint64_t namespace_id);
  kvc_status read_curve(uint64_t namespace_id, const uint64_t* sizes, size_t num_sizes, double* rates);
  kvc_status curve_info(uint64_t namespace_id, kvc_curve_info* info);

  // Requests. `config` is complete; admit: whether to admit at once, if the table cannot outgrow
  // max_positions.
  kvc_status create_request(const TokenSpan& prompt, const kvc_request_config& config, bool admit,
                            uint64_t* id, uint64_t* num_cached, size_t max_positions = SIZE_MAX) {
    return view().create(prompt, config, admit, id, num_cached, max_positions);
  }
  kvc_status admit_request(uint64_t id, uint64_t* num_cached, size_t max_positions = SIZE_MAX) {
    return view().admit(id, num_cached, max_positions);
  }
  // All or none; `cached` and `statuses` may be nullptr. The status of the first that is refused.
  kvc_status admit_batch(const uint64_t* ids, size_t count, uint64_t* cached, kvc_status* statuses);
  kvc_status append_tokens(uint64_t id, const int32_t* tokens, size_t num_tokens);
  kvc_status add_keys(uint64_t id, const kvc_extra_key* keys, size_t num_keys) {
    return change(id, false, [&](Request& request) { return requests_.add_keys(request, keys, num_keys); });
  }
  kvc_status commit_tokens(uint64_t id, uint64_t num_committed);
  kvc_status commit_ahead(uint64_t id, uint64_t num_committed, uint64_t num_computed) {
    return change(id, true, [&](Request& request) {
      const kvc_status status = requests_.commit(request, num_committed, num_computed);
      requests_.open_lane(request);
      return status;
    });
  }
  kvc_status reserve_tokens(uint64_t id, uint64_t capacity) {
    return change(id, true, [&](Request& request) { return requests_.extend(request, capacity, nullptr); });
  }
  kvc_status truncate_request(uint64_t id, uint64_t num_tokens) {
    return change(id, false, [&](Request& request) { return requests_.truncate(request, num_tokens); });
  }
  kvc_status fork_request(uint64_t id, uint64_t* child) {
    return change(id, true, [&](Request& request) { return requests_.fork(request, child); });
  }
  kvc_status preempt_request(uint64_t id) {
    return change(id, false, [&](Request& request) { return requests_.preempt(request); });
  }
  kvc_status free_request(uint64_t id) {
    return change(id, false, [&](Request& request) { return requests_.end(request); });
  }

  uint64_t expected_tokens(uint32_t headroom, uint64_t generated) {
    const std::lock_guard lock(monitor_.mutex());
    return requests_.features().get<Headroom>().expected_tokens(headroom, generated);
  }

  kvc_status step(StepPlan& plan) { return stepper_.step(plan); }
  kvc_status retire_step(uint64_t step_id) {
    return change([&] { return stepper_.retire(step_id); });
  }
  kvc_status fail_step(uint64_t step_id, uint64_t* ids, size_t capacity, size_t* count);
  kvc_status take_pending(kvc_pending_work* work);
  kvc_status compact(uint32_t pool, kvc_block_copy* moves, size_t capacity, size_t* count);
  // A pool gets `size` usable blocks.
  kvc_status resize(uint32_t pool, uint64_t size, kvc_block_copy* moves, size_t capacity, size_t* num_moves);
  // A manager that was just made takes over what another one has cached. If that fails, destroy it.
  kvc_status take_over(Manager& old, kvc_rebuild* out);

  // What it has cached (contents.h), and if asked for the requests; the lock is taken for a slice at a time.
  // read_contents.cc. ContentsHolder and Restore do the rest. `between`: a test's, called between two slices.
  kvc_status read_contents(bool requests, Contents* out, const std::function<void()>& between = {});
  uint64_t longest_admission() {
    const std::lock_guard lock(monitor_.mutex());
    return requests_.admissions().longest();
  }

  kvc_status probe(const TokenSpan& tokens, kvc_probe_info* info) {
    return matcher_.probe(tokens, requests_.admissions().num_admitted(), info);
  }
  kvc_status probe_request(uint64_t id, kvc_probe_info* info);
  // A key of the first blocks of a waiting request: equal keys, equal blocks. 0 if it has no such blocks.
  uint64_t prefix_key(uint64_t id, size_t num_blocks);
  kvc_status pin_prefix(const TokenSpan& tokens, uint64_t* pin, uint64_t* num_pinned) {
    return look_up(tokens, [&](auto& prefix) { return pins_.pin(prefix, pin, num_pinned); });
  }
  kvc_status unpin_prefix(uint64_t pin) {
    return change([&] { return pins_.unpin(pin); });
  }
  kvc_status drop_prefix(const TokenSpan& tokens, uint64_t* num_dropped);
  // Of the pools [first, end).
  kvc_status evict_blocks(size_t first, size_t end, uint64_t max_blocks, uint64_t* num_evicted) {
    return change([&] { return *num_evicted = blocks_.evict_oldest(first, end, max_blocks), KVC_OK; });
  }

  // Hints (retention.cc), for managers that have them; the time, for all.
  kvc_status set_time(uint64_t now_ns);
  kvc_status set_priority(uint64_t id, const HintRange& range) {
    return change(id, false, [&](Request& request) { return hints().set_priority(request, range); });
  }
  kvc_status end_session(uint64_t id, uint64_t shared_tokens) {
    return change(id, false, [&](Request& request) { return hints().end_session(request, shared_tokens); });
  }
  kvc_status set_prefix_priority(const TokenSpan& tokens, const HintRange& range, uint64_t* num_tokens);
  kvc_status demote_prefix(const TokenSpan& tokens, uint64_t first_token, uint64_t* num_tokens);

  // Prompts by name: 1 to Prompts::kLongestName bytes.
  kvc_status register_prompt(const char* name, const TokenSpan& prompt, uint64_t* num_pinned) {
    return look_up(prompt, [&](auto& scratch) { return prompts_.add(name, prompt, scratch, num_pinned); });
  }
  // `tokens` may be anything; they are checked here.
  kvc_status allocate_from_prompt(const char* name, const int32_t* tokens, size_t num_tokens,
                                  const kvc_request_config& config, uint64_t* id, uint64_t* num_cached);
  kvc_status unregister_prompt(const char* name) {
    return change([&] { return prompts_.remove(name); });
  }

  kvc_status acquire_blocks(uint32_t group, int32_t* blocks, size_t num_blocks) {
    return change([&] { return external_.acquire(group, blocks, num_blocks); });
  }
  kvc_status acquire_prefix(const TokenSpan& tokens, uint32_t group, int32_t* blocks, size_t capacity,
                            size_t* count) {
    return look_up(tokens, [&](auto& prefix) {
      return external_.acquire_prefix(prefix, group, blocks, capacity, count);
    });
  }
  kvc_status publish_blocks(const TokenSpan& tokens, uint32_t group, const int32_t* blocks,
                            size_t num_blocks);
  kvc_status release_blocks(const int32_t* blocks, size_t num_blocks) {
    return change([&] { return external_.release(blocks, num_blocks); });
  }
  kvc_status unpublish_blocks(const int32_t* blocks, size_t num_blocks, uint64_t* num_unpublished) {
    return change([&] { return external_.unpublish(blocks, num_blocks, num_unpublished); });
  }

  // Of each full block of a prompt, as events tell it.
  kvc_status position_digests(const TokenSpan& tokens, Digest256* out, size_t capacity, size_t* count);
  kvc_status poll_events(uint64_t* cursor, kvc_event_batch* batch);
  kvc_status list_prefixes(uint64_t* cursor, uint64_t* event_cursor, kvc_event_batch* batch);
  OffloadView offload_view() {
    return OffloadView(monitor_.mutex(), shape_, blocks_, matcher_, requests_, events_);
  }

  // Calls a method or another function of StateReader under the lock.
  template <typename Function, typename... Arguments>
  auto read(Function function, Arguments... arguments) {
    const std::lock_guard lock(monitor_.mutex());
    const StateReader state{shape_, blocks_, requests_, rows_, pins_.table(), prompts_, stepper_, counters_};
    return std::invoke(function, state, arguments...);
  }
  kvc_status check() { return read(&StateReader::check, env_); }
  uint64_t digest() { return read(&StateReader::digest); }
  Counters stats() const { return monitor_.read(); }

  void* allocate_for_caller(size_t size) {
    const std::lock_guard lock(monitor_.mutex());
    return memory_.allocate(size, 64);
  }
  void release_for_caller(void* memory, size_t size) {
    const std::lock_guard lock(monitor_.mutex());
    memory_.release(memory, size, 64);
  }

 private:
  friend class ContentsHolder;
  friend class Restore;
  uint64_t end_of_list() const { return blocks_.tree().max_places() * shape_.num_groups; }
  uint64_t list_slice(uint64_t at, EventWriter& out, Identities::Work* work);
  Manager(const Shape& shape, const Env& env);
  kvc_status check_quiet(kvc_status in_flight = KVC_ERROR_BUSY) const;
  kvc_status check_size(uint32_t pool, uint64_t size) const;
  kvc_status check_idle() const;
  kvc_status build();
  uint32_t last_generation();
  kvc_status find_curve(uint64_t namespace_id, uint32_t* ns) const;
  // A call that changes state; one that changes a request; one about a prompt, hashed before it takes the
  // lock.
  template <typename Call>
  kvc_status change(Call&& call) {
    const Guard lock(monitor_);
    return call();
  }
  template <typename Call>
  kvc_status change(uint64_t id, bool must_be_admitted, Call&& call) {
    const Guard lock(monitor_);
    Request* request = nullptr;
    KVC_TRY(requests_.find(id, must_be_admitted, &request));
    return call(*request);
  }
  template <typename Call>
  kvc_status look_up(const TokenSpan& tokens, Call&& call) {
    LookupScratch scratch(matcher_, tokens);
    KVC_TRY(scratch.status());
    const Guard lock(monitor_);
    return call(scratch);
  }
  Hints& hints() { return requests_.features().get<Hints>(); }
  SchedulerView view() { return SchedulerView(monitor_, blocks_, requests_); }

  const Shape shape_;
  const Env env_;
  Memory memory_;
  Arena arena_;
  std::mutex mutex_;
  Counters counters_ = {};
  IdTag id_tag_;
  EventRing events_;
  TableHash hash_;
  Blocks blocks_;
  TableRows rows_;
  Matcher matcher_;
  Pins pins_;
  Prompts prompts_;
  Requests requests_;
  Monitor monitor_;
  ExternalBlocks external_;
  Stepper stepper_;
  std::mutex* log_order_ = nullptr;
};

}  // namespace kvc
