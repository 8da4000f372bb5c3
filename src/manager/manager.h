// SPDX-License-Identifier: Apache-2.0
// The facade: one object per kvc_manager, which owns its parts, the only lock, and the order of their calls.
// Behaviour: docs/SEMANTICS.md. The parts: docs/ARCHITECTURE.md, and the first lines of their headers.
#pragma once
#include <kvcache/sizing.h>

#include <functional>

#include "manager/external.h"
#include "manager/state_reader.h"
#include "observe/event_ring.h"

struct kvc_event_batch;
struct kvc_probe_info;
struct kvc_rebuild;

namespace kvc {

class EventWriter;
struct Contents;

// What calls that change the state may call, under the lock.
struct ManagerParts {
  Blocks& blocks;
  Requests& requests;
  Stepper& stepper;
  Pins& pins;
  Prompts& prompts;
  ExternalBlocks& external;
};

class Manager {
 public:
  static kvc_status create(const Shape& shape, const Env& env, Manager** out);
  static void destroy(Manager* manager);

  const Shape& shape() const { return shape_; }
  IdTag id_tag() const { return id_tag_; }
  // The lock. change() makes a call that changes the state: call(parts), or call(requests, request) of a
  // request; look_up() one about a prompt, which is hashed before: call(parts, scratch); read() a method or
  // another function of StateReader.
  template <typename Call>
  kvc_status change(Call&& call) {
    const Guard lock(monitor_);
    return call(parts());
  }
  template <typename Call>
  kvc_status change(uint64_t id, bool must_be_admitted, Call&& call) {
    const Guard lock(monitor_);
    Request* request = nullptr;
    KVC_TRY(requests_.find(id, must_be_admitted, &request));
    return call(requests_, *request);
  }
  template <typename Call>
  kvc_status look_up(const TokenSpan& tokens, Call&& call) {
    LookupScratch scratch(matcher_, tokens);
    KVC_TRY(scratch.status());
    const Guard lock(monitor_);
    return call(parts(), scratch);
  }
  template <typename Function, typename... Arguments>
  auto read(Function function, Arguments... arguments) {
    const std::lock_guard lock(monitor_.mutex());
    return std::invoke(function, state(), arguments...);
  }
  // A warning that waits to be delivered by the caller once the lock is free; nullptr if there is none.
  const char* take_warning();
  // From now on calls that change the state are made under this lock, in whose order they are logged.
  void log_under(std::mutex& order) { log_order_ = &order; }

  kvc_status close_namespace(uint64_t id) {
    const Guard lock(monitor_);
    KVC_TRY(blocks_.namespace_blocks.close_namespace(id));
    if (!blocks_.namespaces().is_open(id)) requests_.curves.drop(handle_index(id));
    return KVC_OK;
  }
  kvc_status reset_namespace(uint64_t namespace_id);
  kvc_status reset_all();
  kvc_status set_prefix_caching(bool on);

  kvc_status set_quota(uint64_t namespace_id, PoolIndex pool, uint64_t min, uint64_t max) {
    const Guard lock(monitor_);
    NamespaceId ns{};
    KVC_TRY(blocks_.namespace_blocks.find_share(namespace_id, &ns));
    return blocks_.shares.set_quota(ns, pool, min, max, requests_.admissions.num_admitted_of(ns));
  }
  // The miss-ratio curve of a namespace, or of all together (KVC_ALL_NAMESPACES): call(curves, ns, memory).
  template <typename Call>
  kvc_status change_curve(uint64_t namespace_id, Call&& call) {
    return change([&](const ManagerParts&) { return on_curve(namespace_id, call); });
  }
  template <typename Call>
  kvc_status read_curve(uint64_t namespace_id, Call&& call) {
    const std::lock_guard lock(monitor_.mutex());
    return on_curve(namespace_id, call);
  }

  // Creates and admits requests.
  SchedulerView scheduler_view() { return SchedulerView(monitor_, blocks_, requests_); }
  // All or none; `cached` and `statuses` may be nullptr. The status of the first that is refused.
  kvc_status admit_batch(const uint64_t* ids, size_t count, uint64_t* cached, kvc_status* statuses);
  kvc_status append_tokens(uint64_t id, const int32_t* tokens, size_t num_tokens);
  kvc_status commit_tokens(uint64_t id, uint64_t num_committed);

  kvc_status step(StepPlan& plan) { return stepper_.step(plan); }
  kvc_status fail_step(uint64_t step_id, uint64_t* ids, size_t capacity, size_t* count);
  kvc_status take_pending(kvc_pending_work* work);
  kvc_status compact(PoolIndex pool, kvc_block_copy* moves, size_t capacity, size_t* count);
  // A pool gets `size` usable blocks.
  kvc_status resize(PoolIndex pool, uint64_t size, kvc_block_copy* moves, size_t capacity, size_t* num_moves);
  // A manager that was just made takes over what another one has cached. If that fails, destroy it.
  kvc_status take_over(Manager& old, kvc_rebuild* out);

  // What it has cached (contents.h; empty at first), and if asked for the requests; the lock is taken for a
  // slice at a time.
  // read_contents.cc. ContentsHolder and Restore do the rest. `between`: a test's, called between two slices.
  kvc_status read_contents(bool requests, Contents* out, const std::function<void()>& between = {});

  kvc_status probe(const TokenSpan& tokens, kvc_probe_info* info) {
    return matcher_.probe(tokens, requests_.admissions.num_admitted(), info);
  }
  kvc_status probe_request(uint64_t id, kvc_probe_info* info);
  // A key of the first blocks of a waiting request: equal keys, equal blocks. 0 if it has no such blocks.
  uint64_t prefix_key(uint64_t id, size_t num_blocks) {
    const std::lock_guard lock(monitor_.mutex());
    const Request* request = requests_.peek(id);
    const bool has = request != nullptr && num_blocks != 0 && num_blocks <= request->num_hashes;
    return has ? request->hashes.data[num_blocks - 1] : 0;
  }
  kvc_status drop_prefix(const TokenSpan& tokens, uint64_t* num_dropped);

  // Hints, for managers that have them; the time, for all.
  kvc_status set_time(uint64_t now_ns);
  kvc_status set_prefix_priority(const TokenSpan& tokens, const HintRange& range, uint64_t* num_tokens);
  kvc_status demote_prefix(const TokenSpan& tokens, uint64_t first_token, uint64_t* num_tokens);

  // `tokens` may be anything; they are checked here.
  kvc_status allocate_from_prompt(const char* name, const int32_t* tokens, size_t num_tokens,
                                  const kvc_request_config& config, uint64_t* id, uint64_t* num_cached);

  // Of each full block of a prompt, as events tell it.
  kvc_status position_digests(const TokenSpan& tokens, Digest256* out, size_t capacity, size_t* count);
  kvc_status poll_events(uint64_t* cursor, kvc_event_batch* batch);
  kvc_status list_prefixes(uint64_t* cursor, uint64_t* event_cursor, kvc_event_batch* batch);

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
  ManagerParts parts() { return {blocks_, requests_, stepper_, pins_, prompts_, external_}; }
  friend class ContentsHolder;
  friend class OffloadView;
  friend class Rebuild;
  friend class Restore;
  uint64_t end_of_list() const { return blocks_.tree().places().size() * shape_.num_groups; }
  uint64_t list_slice(uint64_t at, EventWriter& out, Identities::Work* work);
  Manager(const Shape& shape, const Env& env) : shape_(shape), env_(env) {}
  StateReader state() const {
    return {shape_, blocks_, requests_, rows_, pins_.table(), prompts_, stepper_, counters_};
  }
  kvc_status check_quiet(kvc_status in_flight = KVC_ERROR_BUSY) const;
  kvc_status check_size(PoolIndex pool, uint64_t size) const;
  kvc_status check_idle() const;
  kvc_status check_caches() const {
    if (shape_.caches()) return KVC_OK;
    return fail(KVC_ERROR_UNSUPPORTED, "the manager was created with KVC_MANAGER_NO_PREFIX_CACHE");
  }
  kvc_status build();
  uint32_t last_generation();
  template <typename Call>
  kvc_status on_curve(uint64_t namespace_id, Call&& call) {
    NamespaceId ns = Curves::kAll;
    if (namespace_id != KVC_ALL_NAMESPACES) KVC_TRY(blocks_.namespaces().find(namespace_id, &ns));
    return call(requests_.curves, ns, memory_);
  }

  const Shape shape_;
  const Env env_;
  Memory memory_{env_};
  Arena arena_{memory_};
  std::mutex mutex_;
  Counters counters_ = {};
  IdTag id_tag_;
  EventRing events_;
  TableHash hash_;
  Blocks blocks_{shape_, arena_, events_, counters_};
  TableRows rows_{shape_};
  Matcher matcher_{shape_, blocks_, hash_, arena_, mutex_};
  Pins pins_{shape_, blocks_, matcher_, arena_};
  Prompts prompts_{shape_, blocks_, pins_, arena_};
  Requests requests_{shape_, blocks_, matcher_, prompts_, rows_, hash_, arena_, counters_};
  Monitor monitor_{mutex_, counters_, events_, blocks_, requests_, memory_, sizeof(Manager)};
  ExternalBlocks external_{shape_, blocks_, matcher_, arena_};
  Stepper stepper_{shape_, monitor_, blocks_, requests_, rows_, memory_};
  std::mutex* log_order_ = nullptr;
};

}  // namespace kvc
