// SPDX-License-Identifier: Apache-2.0
// What happens when running jobs lack blocks: others give theirs back.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace kvc {
namespace {

// Whether the policy serves a after b. The order of two jobs does not change while they run, or they would
// preempt each other in turn: shares of tenants do not count.
bool served_later(const Waiting& waiting, uint32_t policy, const Job& a, const Job& b) {
  if (a.aged != b.aged) return b.aged;
  if (!a.aged) {
    switch (policy) {
      case KVC_SCHEDULE_PRIORITY:
        if (a.priority != b.priority) return a.priority > b.priority;
        break;
      case KVC_SCHEDULE_SHORTEST: {
        const auto rest = [&](const Job& job) {
          return std::max(int64_t{waiting.expected(job)} - job.generated(), int64_t{1});
        };
        if (rest(a) != rest(b)) return rest(a) > rest(b);
        break;
      }
      default:
        break;
    }
  }
  return a.sequence > b.sequence;
}

}  // namespace

// Of those whose blocks would help, the one that is served last, perhaps the failed one itself.
JobIndex Scheduler::find_victim(const Share& failed, size_t* num_others) const {
  const Job& lacking = jobs_[failed.job];
  JobIndex victim = failed.job;
  *num_others = 0;
  for (size_t i = 0; i < num_running_; ++i) {
    const Job& job = jobs_[running_[i]];
    if (running_[i] == failed.job || job.state != JobState::kRunning) continue;
    if (failed.status == KVC_ERROR_OVER_QUOTA && job.namespace_id != lacking.namespace_id) continue;
    ++*num_others;
    if (served_later(waiting_, options_.policy, job, jobs_[victim])) victim = running_[i];
  }
  return victim;
}

void Scheduler::resolve_failures() {
  while (num_failed_ != 0 && failure_ == KVC_OK) {
    const Share first = failed_[0];
    size_t num_others;
    const JobIndex victim = find_victim(first, &num_others);
    const auto drop = [&](JobIndex index) {
      Share* const end = failed_.data() + num_failed_;
      num_failed_ = static_cast<size_t>(
          std::remove_if(failed_.data(), end, [&](const Share& share) { return share.job == index; }) -
          failed_.data());
    };
    if (num_others == 0 || first.status == KVC_ERROR_NEVER_FITS) {  // nobody has what it lacks
      Job& job = jobs_[first.job];
      drop(first.job);
      const bool by_quota = first.status == KVC_ERROR_OVER_QUOTA;
      const bool waits =
          first.status == KVC_ERROR_NEVER_FITS
              ? job.plans_in_flight != 0  // its own tokens are on their way
              : num_ending_ != 0 || plans_in_flight() != 0 || drop_loads(by_quota ? &job : nullptr);
      if (waits) continue;
      set_->ended[set_->num_ended++] = {job.id, KVC_ENDED_NO_SPACE, job.generated()};
      note_end(first.job, KVC_ENDED_NO_SPACE);
      job.state = JobState::kEnding;
      ++num_ending_;
      continue;
    }
    drop(victim);
    if (!preempt(victim)) return;
    step_.begin();
    for (size_t i = 0; i < num_failed_; ++i) put_item(failed_[i]);
    num_failed_ = 0;
    run_step(nullptr, nullptr, false);
  }
}

// false: a step failed, or the manager lacks memory; the job still runs.
bool Scheduler::preempt(JobIndex index) {
  Job& job = jobs_[index];
  if (calls_.offload != nullptr) {
    uint64_t num_blocks;
    static_cast<void>(calls_.store(calls_.offload, job.id, &num_blocks));
  }
  step_.begin();
  put_item({index, 0, 0, 0, KVC_OK});  // its tokens first: nothing else would tell the manager
  if (!run_step(nullptr, nullptr, false) || failure_ != KVC_OK) return false;
  step_.begin();
  if (!run_step(&job.id, nullptr, false)) return false;
  failure_ = step_.status[0];
  if (failure_ != KVC_OK) return false;
  stop_running(index);
  if (job.is_told) set_->preempted[set_->num_preempted++] = job.id;
  return true;
}

// Those whose states a failed plan may have changed, or whose copies it lacked, go back to what is cached.
void Scheduler::restart_jobs() {
  any_restarts_ = false;
  for (size_t i = num_running_; i-- > 0;) {
    const JobIndex index = running_[i];
    Job& job = jobs_[index];
    if (!job.restarts || job.state != JobState::kRunning) continue;
    if (!preempt(index)) {
      any_restarts_ = true;
      return;
    }
    job.restarts = false;
  }
}

// A job whose request the manager has preempted waits, once its plans have finished.
void Scheduler::stop_running(JobIndex index) {
  Job& job = jobs_[index];
  const auto without = [&](auto* data, size_t count, auto&& is_it) {
    return static_cast<size_t>(std::remove_if(data, data + count, is_it) - data);
  };
  num_items_ = without(items_.data(), num_items_, [&](const Share& share) { return share.job == index; });
  num_running_ = without(running_.data(), num_running_, [&](JobIndex other) { return other == index; });
  leave_row(job);
  job.most_planned = std::max(job.most_planned, job.planned);
  job.planned = job.written = job.capacity = 0;
  job.looked_up = false;
  job.state = JobState::kWaiting;
  ++job.preemptions;
  ++stats_.preemptions;
  if (job.plans_in_flight == 0) {
    enqueue(index);
  } else {
    ++num_draining_;
  }
}

}  // namespace kvc
