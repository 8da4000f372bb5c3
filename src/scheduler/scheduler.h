// SPDX-License-Identifier: Apache-2.0
// The scheduler: decides which jobs a plan computes, and drives its manager by the calls of the C API, which
// a log records. Not thread-safe: under the handle's lock.
//
// scheduler.cc adds and ends jobs, plan.cc makes a plan of what runs, admit.cc admits what waits, finish.cc
// takes results, pressure.cc predicts what jobs will hold; waiting.h is the order of those that wait.
#pragma once
#include <kvcache/manager.h>
#include <kvcache/offload.h>
#include <kvcache/quota.h>
#include <kvcache/resize.h>
#include <kvcache/step.h>

#include "pool/quotas.h"
#include "scheduler/plan_set.h"
#include "scheduler/prefix_walk.h"
#include "scheduler/waiting.h"

struct kvc_probe_info;

namespace kvc {

// The calls that a scheduler makes.
struct SchedulerCalls {
  kvc_manager* manager;
  kvc_offload* offload;
  decltype(&kvc_manager_step) step;
  decltype(&kvc_manager_retire_step) retire_step;
  decltype(&kvc_manager_append_tokens) append_tokens;
  decltype(&kvc_manager_truncate_request) truncate_request;
  decltype(&kvc_manager_free_request) free_request;
  kvc_status (*probe_request)(kvc_manager* m, uint64_t request, kvc_probe_info* info);
  PrefixWalk::KeyOf prefix_key;
  decltype(&kvc_manager_request_info) request_info;
  decltype(&kvc_manager_pool_info) pool_info;
  decltype(&kvc_manager_read_stats) stats;
  decltype(&kvc_manager_quota_info) quota_info;
  decltype(&kvc_manager_expected_tokens) expected_tokens;
  decltype(&kvc_offload_lookup) look_up;
  decltype(&kvc_offload_query) query;
  decltype(&kvc_offload_cancel) cancel;
  decltype(&kvc_offload_store_request) store;
  decltype(&kvc_offload_read_stats) offload_stats;
};

// A configuration with its defaults, and what the scheduler must know of the manager.
struct SchedulerOptions {
  uint32_t policy, admission, flags, max_running, max_tokens, max_chunk, max_drafts, max_plans, max_adapters,
      max_tenants, adaptive_plans;
  uint64_t max_encoder_tokens, max_request_tokens, max_wait_ns;
  double high_watermark, low_watermark;
  size_t max_jobs, num_groups, num_token_groups, row_stride;
  uint32_t block_size, vocab_size;
  bool ends_at_blocks;  // chunks end there where they can
  bool has_states;      // a failed plan leaves states that nobody knows
  bool has_lengths;     // the manager knows how many tokens requests got

  // Slots behind the known tokens of a request with so many new tokens, for the token that the plan in flight
  // brings. No more than its last token takes, so that a request that fits does so with it.
  uint32_t lookahead(uint64_t max_new) const { return max_plans == 2 && !ends_at_blocks && max_new > 1; }
};

// A job to add, checked; its request waits in the manager.
struct NewJob {
  uint64_t id, namespace_id, wait_until_ns;
  uint32_t prompt;
  const kvc_schedule_job* job;
};

class Scheduler {
 public:
  Scheduler() = default;
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // false: no memory.
  [[nodiscard]] bool create(Memory& memory, const SchedulerCalls& calls, const SchedulerOptions& options);
  const SchedulerOptions& options() const { return options_; }

  kvc_status add(const NewJob& job);
  kvc_status abort(uint64_t id);
  kvc_status set_ready(uint64_t id);
  kvc_status set_priority(uint64_t id, int32_t priority);
  void set_weight(uint32_t tenant, double weight);
  kvc_status set_drafts(const uint64_t* ids, const uint32_t* num_drafts, size_t count);
  kvc_status plan(uint64_t now_ns, kvc_plan* out);
  kvc_status finish(kvc_plan_result& result);

  // Whether pressure has changed since the last call.
  bool take_pressure_change(bool* high, double* usage);
  kvc_status info(uint64_t id, kvc_scheduled_info* out) const;
  void read_stats(kvc_scheduler_stats* out) const;
  kvc_status check();

 private:
  static constexpr size_t kMostCandidates = 128;
  enum class Found { kAdmitted, kPassed, kStop };  // of an attempt to admit

  // scheduler.cc
  kvc_status find(uint64_t id, JobIndex* index) const;
  uint64_t predict() const;
  void make_ready(JobIndex index);
  void enqueue(JobIndex index);
  void forget(JobIndex index);
  void note_end(JobIndex index, uint32_t reason);
  void leave_row(Job& job);
  bool may_join_adapter(const Job& job) const;
  void join_adapter(const Job& job);
  void leave_adapter(const Job& job);
  kvc_status advance(uint64_t now_ns);

  void retire(uint64_t step_id);

  // plan.cc
  PlanSet& next_set() { return sets_[next_plan_ % options_.max_plans]; }
  PlanSet& oldest_set() { return sets_[oldest_plan_ % options_.max_plans]; }
  size_t plans_in_flight() const { return static_cast<size_t>(next_plan_ - oldest_plan_); }
  bool takes_no_more(const Job& job) const;
  void share_out();
  void give_drafts();
  uint32_t chunk(const Job& job, uint32_t first, uint32_t goal, Share* share);
  uint32_t encodable(const Job& job, uint32_t first, uint32_t num_tokens, Share* share);
  void end_jobs();
  void begin_step();
  void put_decode(JobIndex index, const Job& job);
  void put_item(const Share& share);
  bool run_step(const uint64_t* preempt, kvc_step* admission, bool fast);
  void take_results(const kvc_status* status, bool fast);
  void write_items();
  void write_slots(PlanSet& set) const;
  void fill(const PlanSet& set, kvc_plan* out) const;

  // preempt.cc
  void resolve_failures();
  JobIndex find_victim(const Share& failed, size_t* num_others) const;
  bool served_later(const Job& a, const Job& b) const;
  bool preempt(JobIndex index);
  void stop_running(JobIndex index);
  void restart_jobs();

  // admit.cc
  void poll_loads();
  bool drop_loads(const Job* of);
  void admit_waiting();
  void sort_candidates();
  struct Candidate {
    JobIndex job;
    uint64_t cached;  // tokens
    size_t order;
  };
  bool may_swap(const Candidate& a, const Candidate& b) const;
  void walk_prefixes(size_t begin);
  Found judge(JobIndex index, kvc_status status);
  Found try_admit(JobIndex index);
  Found refuse(Job& job, uint32_t reason, uint64_t& counter, Found found);
  uint32_t wait_reason(const Job& job) const;
  bool is_over_quota(const Job& job, uint64_t num_blocks) const;
  Found pass_namespace(Job& job);
  bool others_hold_blocks(const Job* of);
  Found end_waiting(JobIndex index);
  bool admit(JobIndex index, Share share, uint32_t expected, uint64_t encoder);
  void reset_inputs(Job& job, uint32_t first);

  // pressure.cc
  bool fits_peak(const Job& candidate);
  void adapt_policy();
  void watch_pressure();

  // finish.cc
  kvc_status check_plan(const PlanSet& set, const kvc_plan_result& result) const;
  kvc_status make_offsets(const PlanSet& set, kvc_plan_result* result);
  bool brings_one_each(const PlanSet& set, const kvc_plan_result& result) const;
  kvc_status check_tokens(const PlanSet& set, const kvc_plan_result& result) const;
  kvc_status tell_waiting(const PlanSet& set, const kvc_plan_result& result);
  void fail_plans();
  void take_item(Job& job, const PlanSet& set, size_t item, const kvc_plan_result& result);
  int32_t* untold_of(const Job& job) { return untold_.data() + static_cast<size_t>(job.row) * max_untold_; }

  SchedulerCalls calls_ = {};
  SchedulerOptions options_ = {};
  JobTable jobs_;
  Waiting waiting_;
  Array<JobIndex> running_;  // in the order of their admission
  size_t num_running_ = 0;   // those that end included
  size_t num_ending_ = 0;
  bool any_restarts_ = false;
  Array<JobIndex> loading_;
  size_t num_loading_ = 0;
  size_t num_not_ready_ = 0, num_draining_ = 0;  // draining: preempted, with plans in flight
  Array<int32_t> free_rows_;
  size_t num_free_rows_ = 0;
  Array<uint8_t> row_marks_;  // of check()
  Array<int32_t> tables_;
  Array<int32_t> untold_;  // [max_running][max_untold_]
  size_t max_untold_ = 0;
  struct Adapter {
    uint64_t id;
    uint32_t num_jobs;
  };
  Array<Adapter> adapters_;
  size_t num_adapters_ = 0;

  PlanSet sets_[8];
  Array<uint64_t> offsets_;  // of a result that has none; the first is 0
  StepArrays step_;
  uint64_t next_plan_ = 1, oldest_plan_ = 1;
  uint64_t last_step_ = 0, retired_step_ = 0;
  uint64_t now_ns_ = 0, sequence_ = 0, calls_of_plan_ = 0;
  // Drafts that the plan may take.
  uint32_t drafts_of(const Job& job) const {
    return options_.max_drafts != 0 && job.drafts_at == calls_of_plan_ ? job.drafts : 0;
  }

  // Of the plan that is made.
  PlanSet* set_ = nullptr;
  kvc_status failure_ = KVC_OK;
  uint32_t tokens_left_ = 0;
  uint64_t encoder_left_ = 0;
  Array<Share> decodes_, prefills_, failed_, items_;
  size_t num_decodes_ = 0, num_prefills_ = 0, num_failed_ = 0, num_items_ = 0;
  Array<Candidate> candidates_;
  size_t num_candidates_ = 0;
  PrefixWalk walk_;
  uint64_t over_quota_[Quotas::kMaxQuotas];  // namespaces that a waiting job has found over their quota
  size_t num_over_quota_ = 0;
  uint32_t tries_ = 1;               // calls of plan(), never 0
  uint32_t closed_ = KVC_WAIT_TURN;  // why the last one has not come to those that it has not tried
  struct Holding {
    uint64_t now, rest;  // tokens
  };
  Array<Holding> holdings_;

  bool pressure_ = false, told_pressure_ = false;
  double usage_ = 0;
  kvc_scheduler_stats stats_ = {};
};

}  // namespace kvc
