// SPDX-License-Identifier: Apache-2.0
#ifndef KVCACHE_SCHEDULER_HPP
#define KVCACHE_SCHEDULER_HPP

/// @file kvcache/scheduler.hpp
/// The scheduler. Parameters are the structs of kvcache/scheduler.h.
///
///     kvc::Scheduler s(kvc::Scheduler::config(manager.get()));
///     uint64_t id = s.add(kvc::ScheduleJob(prompt.get(), 100));  // at any time
///     kvc_plan plan = s.plan(now_ns);                            // in the engine's loop
///     ... copy plan.copies, run the model, sample ...
///     for (const kvc_ended_request& end : s.finish(kvc::PlanResult(plan, offsets, tokens), room)) ...
///
/// Failures throw kvc::Error. Destroy a scheduler before its manager and its offload.

#include <kvcache/scheduler.h>

#include <kvcache/types.hpp>

namespace kvc {
inline namespace cpp {

/// A request to schedule (kvc_schedule_job). Refers to the prompt; set the other fields as needed.
class ScheduleJob : public kvc_schedule_job {
 public:
  /// Of a prompt, such as kvc::Prompt::get().
  ScheduleJob(const kvc_prompt* of, uint64_t new_tokens) : kvc_schedule_job(make<kvc_schedule_job>()) {
    prompt = of, max_new_tokens = new_tokens;
  }
};

/// What came out of a plan (kvc_plan_result). Refers to the arrays.
class PlanResult : public kvc_plan_result {
 public:
  /// Item i brings tokens[offsets[i]], ..., tokens[offsets[i + 1] - 1]. stopped: of each item; may be empty.
  PlanResult(const kvc_plan& plan, Span<const uint64_t> offsets, Span<const int32_t> sampled,
             Span<const uint8_t> stops = {})
      : kvc_plan_result(make<kvc_plan_result>()) {
    plan_id = plan.plan_id, num_items = offsets.size() == 0 ? plan.num_items : offsets.size() - 1;
    token_offsets = offsets.data(), tokens = sampled.data();
    stopped = stops.size() == 0 ? nullptr : stops.data();
  }
  /// One token for each item that samples, of a plan without drafts.
  explicit PlanResult(const kvc_plan& plan, Span<const int32_t> sampled = {}, Span<const uint8_t> stops = {})
      : PlanResult(plan, Span<const uint64_t>(), sampled, stops) {}
  /// The step was not computed, nor were the later plans in flight.
  static PlanResult failed(const kvc_plan& plan) {
    PlanResult result(plan);
    result.flags = KVC_RESULT_FAILED;
    return result;
  }
};

/// The scheduler of a manager; move-only. Any thread may call any function.
class Scheduler {
 public:
  /// A configuration for a manager, such as kvc::Manager::get(), with all defaults.
  static kvc_scheduler_config config(kvc_manager* manager) {
    auto config = make<kvc_scheduler_config>();
    config.manager = manager;
    return config;
  }
  /// Creates a scheduler.
  explicit Scheduler(const kvc_scheduler_config& config)
      : s_(ask<kvc_scheduler*>(kvc_scheduler_create, &config)) {}
  kvc_scheduler* get() const noexcept { return s_.get(); }  ///< For C functions.

  /// Adds a request and returns its id.
  uint64_t add(const kvc_schedule_job& job) { return ask<uint64_t>(kvc_scheduler_add, get(), &job); }
  /// Ends a request. False: it has ended.
  bool abort(uint64_t request) {
    const kvc_status status = kvc_scheduler_abort(get(), request);
    if (status == KVC_ERROR_NOT_FOUND) return false;
    cpp::check(status);
    return true;
  }
  /// Makes the next plan. Its arrays are the scheduler's.
  kvc_plan plan(uint64_t now_ns = 0) { return ask<kvc_plan>(kvc_scheduler_plan, get(), now_ns); }
  /// Takes the result of the oldest plan in flight; returns the used part of `room`, which has the requests
  /// that have ended. It is empty, which means that they are not wanted, or has num_items entries.
  Span<kvc_ended_request> finish(PlanResult result, Span<kvc_ended_request> room = {}) {
    result.ended = room.size() == 0 ? nullptr : room.data();
    cpp::check(kvc_scheduler_finish(get(), &result));
    return {room.data(), room.size() == 0 ? 0 : result.num_ended};
  }
  /// As kvc_scheduler_set_ready, kvc_scheduler_set_priority, and so on.
  ///@{
  void set_ready(uint64_t request) { cpp::check(kvc_scheduler_set_ready(get(), request)); }
  void set_priority(uint64_t request, int32_t priority) {
    cpp::check(kvc_scheduler_set_priority(get(), request, priority));
  }
  void set_weight(uint32_t tenant, double weight) {
    cpp::check(kvc_scheduler_set_weight(get(), tenant, weight));
  }
  void set_drafts(Span<const uint64_t> requests, Span<const uint32_t> num_drafts) {
    cpp::check(kvc_scheduler_set_drafts(get(), requests.data(), num_drafts.data(), requests.size()));
  }
  kvc_scheduled_info info(uint64_t request) const {
    return ask<kvc_scheduled_info>(kvc_scheduler_request_info, get(), request);
  }
  kvc_scheduler_stats stats() const { return ask<kvc_scheduler_stats>(kvc_scheduler_read_stats, get()); }
  void check() const { cpp::check(kvc_scheduler_check(get())); }
  ///@}

 private:
  Owner<kvc_scheduler, kvc_scheduler_destroy> s_;
};

}  // namespace cpp
}  // namespace kvc

#endif  // KVCACHE_SCHEDULER_HPP
