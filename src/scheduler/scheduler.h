// SPDX-License-Identifier: Apache-2.0
// The scheduler: decides which jobs a plan computes, and drives its manager by the calls of the C API, which
// a log records. Not thread-safe: under the handle's lock.
//
// scheduler.cc adds and ends jobs, plan.cc makes a plan of what runs, admit.cc admits what waits, finish.cc
// takes results. Its parts: waiting.h is the order of those that wait, candidates.h those that a plan tries
// to admit, loads.h those that the offload loads; budget.h is what a plan may still compute, plan_set.h its
// arrays, results.h checks what it brings; adapters.h, pressure.h.
#pragma once
#include "pool/quotas.h"
#include "scheduler/adapters.h"
#include "scheduler/budget.h"
#include "scheduler/candidates.h"
#include "scheduler/loads.h"
#include "scheduler/plan_set.h"
#include "scheduler/pressure.h"
#include "scheduler/results.h"

namespace kvc {

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

  Pressure& pressure() { return pressure_; }
  kvc_status info(uint64_t id, kvc_scheduled_info* out) const;
  void read_stats(kvc_scheduler_stats* out) const;
  kvc_status check();

 private:
  enum class Found { kAdmitted, kPassed, kStop };  // of an attempt to admit

  // scheduler.cc
  kvc_status find(uint64_t id, JobIndex* index) const;
  uint64_t predict() const;
  void make_ready(JobIndex index);
  void enqueue(JobIndex index);
  void note_end(JobIndex index, uint32_t reason);
  void leave_row(Job& job);
  kvc_status advance(uint64_t now_ns);

  void retire(uint64_t step_id);

  // plan.cc
  PlanSet& next_set() { return sets_[next_plan_ % options_.max_plans]; }
  PlanSet& oldest_set() { return sets_[oldest_plan_ % options_.max_plans]; }
  size_t plans_in_flight() const { return static_cast<size_t>(next_plan_ - oldest_plan_); }
  bool takes_no_more(const Job& job) const;
  void adapt_policy();
  void share_out();
  void give_drafts();
  void end_jobs();
  void put_decode(JobIndex index, const Job& job);
  void put_item(const Share& share);
  bool run_step(const uint64_t* preempt, kvc_step* admission, bool fast);
  void take_results(const kvc_status* status, bool fast);
  void write_items();

  // preempt.cc
  void resolve_failures();
  JobIndex find_victim(const Share& failed, size_t* num_others) const;
  bool preempt(JobIndex index);
  void stop_running(JobIndex index);
  void restart_jobs();

  // admit.cc
  bool drop_loads(const Job* of);
  void admit_waiting();
  Found judge(JobIndex index, kvc_status status);
  Found try_admit(JobIndex index);
  Found refuse(Job& job, uint32_t reason, uint64_t& counter, Found found);
  uint32_t wait_reason(const Job& job) const;
  bool is_over_quota(const Job& job, uint64_t num_blocks) const;
  Found pass_namespace(Job& job);
  bool others_hold_blocks(const Job* of);
  Found end_waiting(JobIndex index);
  bool admit(JobIndex index, Share share, uint32_t expected, uint64_t encoder);

  // finish.cc
  kvc_status tell_waiting(const PlanSet& set, const kvc_plan_result& result);
  void fail_plans();
  void take_item(Job& job, const PlanSet& set, size_t item, const kvc_plan_result& result);
  int32_t* untold_of(const Job& job) { return untold_.data() + static_cast<size_t>(job.row) * max_untold_; }

  SchedulerCalls calls_ = {};
  SchedulerOptions options_ = {};
  JobTable jobs_;
  Waiting waiting_;
  Loads loads_;
  Adapters adapters_;
  Pressure pressure_;
  Peak peak_;
  Results results_;
  Array<JobIndex> running_;  // in the order of their admission
  size_t num_running_ = 0;   // those that end included
  size_t num_ending_ = 0;
  bool any_restarts_ = false;
  size_t num_not_ready_ = 0, num_draining_ = 0;  // draining: preempted, with plans in flight
  Array<int32_t> free_rows_;
  size_t num_free_rows_ = 0;
  Array<uint8_t> row_marks_;  // of check()
  Array<int32_t> tables_;
  Array<int32_t> untold_;  // [max_running][max_untold_]
  size_t max_untold_ = 0;

  PlanSet sets_[8];
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
  Budget left_;
  Candidates candidates_;
  Array<Share> decodes_, prefills_, failed_, items_;
  size_t num_decodes_ = 0, num_prefills_ = 0, num_failed_ = 0, num_items_ = 0;
  uint64_t over_quota_[Quotas::kMaxQuotas];  // namespaces that a waiting job has found over their quota
  size_t num_over_quota_ = 0;
  uint32_t tries_ = 1;               // calls of plan(), never 0
  uint32_t closed_ = KVC_WAIT_TURN;  // why the last one has not come to those that it has not tried
  kvc_scheduler_stats stats_ = {};
};

}  // namespace kvc
