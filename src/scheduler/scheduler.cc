// SPDX-License-Identifier: Apache-2.0
#include "scheduler/scheduler.h"

#include <algorithm>

namespace kvc {

bool Scheduler::create(Memory& memory, const SchedulerCalls& calls, const SchedulerOptions& options) {
  calls_ = calls;
  options_ = options;
  left_.options = &options_;
  pressure_.create(options.high_watermark, options.low_watermark);
  const size_t rows = options.max_running;
  max_untold_ = (size_t{options.max_drafts} + 1) * options.max_plans + 1;
  bool made = jobs_.create(memory, options.max_jobs) &&
              waiting_.create(memory, jobs_, options.max_tenants, options.max_tokens) &&
              loads_.create(memory, calls_, jobs_) && running_.create(memory, rows) &&
              free_rows_.create(memory, rows) && row_marks_.create(memory, rows) &&
              tables_.create(memory, options.num_groups * rows * options.row_stride) &&
              untold_.create(memory, rows * max_untold_) && adapters_.create(memory, options.max_adapters) &&
              results_.create(memory, rows, options.vocab_size) && step_.create(memory, rows, max_untold_) &&
              decodes_.create(memory, rows) && prefills_.create(memory, rows) &&
              failed_.create(memory, rows) && items_.create(memory, rows) &&
              candidates_.create(memory, calls_, options_, jobs_, waiting_) && peak_.create(memory, rows);
  for (uint32_t i = 0; made && i < options.max_plans; ++i)
    made = sets_[i].create(memory, rows, options.max_tokens, options.num_groups, options.block_size,
                           options.row_stride);
  if (!made) return false;
  for (size_t i = 0; i < rows; ++i) free_rows_[i] = static_cast<int32_t>(rows - 1 - i);
  num_free_rows_ = rows;
  waiting_.set_policy(options.policy == KVC_SCHEDULE_ADAPTIVE ? uint32_t{KVC_SCHEDULE_FCFS} : options.policy);
  return true;
}

Scheduler::~Scheduler() {
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[static_cast<JobIndex>(i)];
    if (job.id == 0) continue;
    static_cast<void>(calls_.free_request(calls_.manager, job.id));
  }
}

kvc_status Scheduler::find(uint64_t id, JobIndex* index) const {
  *index = jobs_.find(id);
  if (*index != kNoJob && jobs_[*index].state != JobState::kEnding) return KVC_OK;
  return fail(KVC_ERROR_NOT_FOUND, "no request %llu: it has ended, or was added to another scheduler",
              ull(id));
}

kvc_status Scheduler::advance(uint64_t now_ns) {
  if (now_ns == 0) return KVC_OK;
  if (now_ns < now_ns_)
    return invalid("now_ns is %llu after %llu; time never goes back", ull(now_ns), ull(now_ns_));
  now_ns_ = now_ns;
  return KVC_OK;
}

// New tokens of a request, by the manager's quantile; 0 = unknown.
uint64_t Scheduler::predict() const {
  uint64_t tokens = 0;
  if (options_.has_lengths)
    static_cast<void>(calls_.expected_tokens(calls_.manager, KVC_HEADROOM_BALANCED, 0, &tokens));
  return tokens;
}

kvc_status Scheduler::add(const NewJob& from) {
  const kvc_schedule_job& of = *from.job;
  if (of.now_ns != 0 && of.now_ns < now_ns_) return advance(of.now_ns);
  if (from.wait_until_ns != 0 && of.now_ns == 0 && now_ns_ == 0)
    return invalid("wait_until_ns is %llu and the scheduler has not been told the time; set now_ns",
                   ull(from.wait_until_ns));
  const JobIndex index = jobs_.place_of(from.id);
  Job& job = jobs_[index];
  if (!jobs_.set_inputs(job, of.inputs, of.num_inputs))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for %zu encoder inputs", of.num_inputs);
  KVC_TRY(advance(of.now_ns));
  job.id = from.id;
  job.namespace_id = from.namespace_id;
  job.sequence = ++sequence_;
  job.arrival_ns = now_ns_;
  job.adapter = of.adapter;
  job.prompt = job.known = job.told = from.prompt;
  job.max_new = static_cast<uint32_t>(std::min<uint64_t>(of.max_new_tokens, options_.max_request_tokens));
  job.limit = static_cast<uint32_t>(
      std::min<uint64_t>(uint64_t{job.prompt} + job.max_new, options_.max_request_tokens));
  job.lookahead = options_.lookahead(of.max_new_tokens);
  const uint64_t expected = of.expected_new_tokens != 0 ? of.expected_new_tokens : predict();
  job.expected = static_cast<uint32_t>(std::min<uint64_t>(expected, job.max_new));
  job.priority = of.priority;
  job.tenant = of.tenant;
  job.row = -1;
  waiting_.arrive(job.tenant);
  ++stats_.added;
  if ((of.flags & KVC_JOB_NOT_READY) != 0) {
    job.state = JobState::kNotReady;
    ++num_not_ready_;
  } else {
    make_ready(index);
  }
  return KVC_OK;
}

void Scheduler::make_ready(JobIndex index) {
  jobs_[index].state = JobState::kWaiting;
  enqueue(index);
}

// It waits for its admission. What the last plan has found says nothing about it.
void Scheduler::enqueue(JobIndex index) {
  jobs_[index].wait_reason = KVC_WAIT_TURN;
  jobs_[index].refused_at = tries_;
  waiting_.push(index);
}

// The kernels of all steps up to this one have finished, or none runs.
void Scheduler::retire(uint64_t step_id) {
  retired_step_ = step_id;
  static_cast<void>(calls_.retire_step(calls_.manager, step_id));
}

void Scheduler::note_end(JobIndex index, uint32_t reason) {
  Job& job = jobs_[index];
  ++stats_.ended;
  if (reason != KVC_ENDED_NO_SPACE) waiting_.note_length(job);
}

void Scheduler::leave_row(Job& job) {
  free_rows_[num_free_rows_++] = job.row;
  job.row = -1;
  adapters_.leave(job.adapter);
  --waiting_.tenant(job.tenant).num_running;
}

kvc_status Scheduler::abort(uint64_t id) {
  JobIndex index;
  KVC_TRY(find(id, &index));
  Job& job = jobs_[index];
  ++stats_.aborted;
  if (job.state == JobState::kRunning) {
    job.state = JobState::kEnding;
    ++num_ending_;
    return KVC_OK;
  }
  if (job.state == JobState::kNotReady) --num_not_ready_;
  if (job.state == JobState::kLoading) loads_.remove(index);  // its lookup ends by itself
  if (job.queued)
    waiting_.remove(index);
  else if (job.state == JobState::kWaiting)
    --num_draining_;
  static_cast<void>(calls_.free_request(calls_.manager, id));
  jobs_.clear(job);
  return KVC_OK;
}

kvc_status Scheduler::set_ready(uint64_t id) {
  JobIndex index;
  KVC_TRY(find(id, &index));
  if (jobs_[index].state != JobState::kNotReady) return KVC_OK;
  --num_not_ready_;
  make_ready(index);
  return KVC_OK;
}

kvc_status Scheduler::set_priority(uint64_t id, int32_t priority) {
  JobIndex index;
  KVC_TRY(find(id, &index));
  jobs_[index].priority = priority;
  if (jobs_[index].queued && waiting_.policy() == KVC_SCHEDULE_PRIORITY) waiting_.update(index);
  return KVC_OK;
}

void Scheduler::set_weight(uint32_t tenant, double weight) {
  const double quantum = weight * options_.max_tokens;
  waiting_.tenant(tenant).quantum = std::max<int64_t>(static_cast<int64_t>(quantum), 1);
}

kvc_status Scheduler::set_drafts(const uint64_t* ids, const uint32_t* num_drafts, size_t count) {
  JobIndex index;
  for (size_t i = 0; i < count; ++i) {
    KVC_TRY(find(ids[i], &index));
    if (num_drafts[i] > options_.max_drafts)
      return invalid("num_drafts[%zu] is %u; at most max_drafts, %u", i, num_drafts[i], options_.max_drafts);
  }
  for (size_t i = 0; i < count; ++i) {
    Job& job = jobs_[jobs_.find(ids[i])];
    job.drafts = num_drafts[i];
    job.drafts_at = calls_of_plan_;
  }
  return KVC_OK;
}

// What the last call of plan() has found.
uint32_t Scheduler::wait_reason(const Job& job) const {
  switch (job.state) {
    case JobState::kNotReady:
      return KVC_WAIT_READY;
    case JobState::kLoading:
      return KVC_WAIT_LOAD;
    case JobState::kWaiting:
      if (!job.queued) return KVC_WAIT_PLANS;
      return job.refused_at == tries_ ? job.wait_reason : closed_;
    default:
      return KVC_WAIT_NONE;
  }
}

kvc_status Scheduler::info(uint64_t id, kvc_scheduled_info* out) const {
  JobIndex index;
  KVC_TRY(find(id, &index));
  const Job& job = jobs_[index];
  const auto state_of = [&]() -> uint32_t {
    if (job.state == JobState::kNotReady) return KVC_SCHEDULED_NOT_READY;
    if (job.state == JobState::kLoading) return KVC_SCHEDULED_LOADING;
    return job.state == JobState::kRunning ? KVC_SCHEDULED_RUNNING : KVC_SCHEDULED_WAITING;
  };
  out->state = state_of();
  out->wait_reason = wait_reason(job);
  out->row = job.row;
  out->num_tokens = job.known;
  out->num_prompt = job.prompt;
  out->num_planned = job.planned;
  out->num_cached = job.cached;
  out->num_preemptions = job.preemptions;
  out->arrival_ns = job.arrival_ns;
  out->priority = job.priority;
  out->tenant = job.tenant;
  return KVC_OK;
}

void Scheduler::read_stats(kvc_scheduler_stats* out) const {
  const size_t size = out->struct_size;
  *out = stats_;
  out->struct_size = size;
  out->waiting = waiting_.size() + loads_.size() + num_not_ready_ + num_draining_;
  out->running = num_running_ - num_ending_;
  out->plans_in_flight = plans_in_flight();
  out->aged = waiting_.num_aged();
  out->policy = waiting_.policy();
  out->pressure = pressure_.is_high();
}

kvc_status Scheduler::check() {
  const auto broken = [](const char* what, const Job& job) {
    return fail(KVC_ERROR_CORRUPT, "request %llu: %s", ull(job.id), what);
  };
  if (const char* what = waiting_.check(); what != nullptr) return fail(KVC_ERROR_CORRUPT, "%s", what);
  size_t running = 0, ending = 0, loading = 0, not_ready = 0, draining = 0;
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[static_cast<JobIndex>(i)];
    if (job.state == JobState::kNone) continue;
    if (handle_index(job.id) != i) return broken("it is not in its place", job);
    const bool holds = job.state == JobState::kRunning || job.state == JobState::kEnding;
    if (holds != (job.row >= 0)) return broken("it has a row and does not run, or runs without one", job);
    if (job.queued && job.state != JobState::kWaiting) return broken("it waits in the order and runs", job);
    if (job.told > job.known || job.known < job.prompt) return broken("its tokens are miscounted", job);
    if (job.untold() > max_untold_) return broken("too many of its tokens are untold", job);
    if (holds && (job.written > job.planned || job.planned > job.capacity))
      return broken("it has computed more than it has slots for", job);
    if (!holds && job.planned != 0) return broken("it waits and has planned tokens", job);
    if (!holds && job.untold() != 0) return broken("it waits and its manager lacks tokens", job);
    if (job.samples_in_flight > job.plans_in_flight || job.plans_in_flight > plans_in_flight())
      return broken("its plans in flight are miscounted", job);
    running += holds;
    ending += job.state == JobState::kEnding;
    loading += job.state == JobState::kLoading;
    not_ready += job.state == JobState::kNotReady;
    draining += job.state == JobState::kWaiting && !job.queued;
  }
  if (running != num_running_ || ending != num_ending_ || loading != loads_.size() ||
      not_ready != num_not_ready_ || draining != num_draining_)
    return fail(KVC_ERROR_CORRUPT, "requests are miscounted");
  if (num_running_ + num_free_rows_ != options_.max_running) return fail(KVC_ERROR_CORRUPT, "a row is lost");
  std::fill_n(row_marks_.data(), row_marks_.size(), uint8_t{0});
  for (size_t i = 0; i < num_running_; ++i) {
    const Job& job = jobs_[running_[i]];
    if (job.row < 0) return broken("it is listed as running", job);
    uint8_t& mark = row_marks_[static_cast<size_t>(job.row)];
    if (mark != 0) return broken("its row is of another one too", job);
    mark = 1;
  }
  for (size_t i = 0; i < num_free_rows_; ++i)
    if (row_marks_[static_cast<size_t>(free_rows_[i])] != 0)
      return fail(KVC_ERROR_CORRUPT, "row %d is free and used", free_rows_[i]);
  return KVC_OK;
}

}  // namespace kvc
