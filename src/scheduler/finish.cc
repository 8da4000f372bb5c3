// SPDX-License-Identifier: Apache-2.0
// Results of plans, in the order of the plans.
#include <algorithm>

#include "scheduler/scheduler.h"

namespace kvc {
namespace {

kvc_status check_plan(const PlanSet& set, size_t plans_in_flight, const kvc_plan_result& result) {
  if (plans_in_flight == 0) return invalid("plan %llu is not in flight; no plan is", ull(result.plan_id));
  if (result.plan_id != set.plan_id) {
    return invalid("plan_id is %llu; the oldest plan in flight is %llu", ull(result.plan_id),
                   ull(set.plan_id));
  }
  if (result.num_items != set.num_items)
    return invalid("num_items is %zu; plan %llu has %zu", result.num_items, ull(set.plan_id), set.num_items);
  return KVC_OK;
}

}  // namespace

inline void Scheduler::take_item(Job& job, const PlanSet& set, size_t item, const kvc_plan_result& result) {
  const uint64_t begin = result.token_offsets[item];
  const auto count = static_cast<uint32_t>(result.token_offsets[item + 1] - begin);
  const bool samples = set.samples[item] != 0;
  --job.plans_in_flight;
  job.samples_in_flight -= samples;
  const uint32_t drafts = set.num_drafts[item];
  if (drafts != 0) job.drafts_in_flight = false;
  if (job.state == JobState::kEnding) return;
  if (job.admission == set.admissions[item] && job.row >= 0) {
    job.written =
        static_cast<uint32_t>(set.first_tokens[item] + set.token_offsets[item + 1] - set.token_offsets[item]);
    if (drafts != 0) {
      const uint32_t rejected = drafts + 1 - count;
      job.planned -= rejected;
      job.written -= rejected;
      stats_.accepted_drafts += count - 1;
    }
  }
  if (count == 0) return;
  if (job.row >= 0) [[likely]] {  // the manager is told with the next step
    const int32_t* const tokens = result.tokens + begin;
    int32_t* const untold = untold_of(job) + job.untold();
    untold[0] = tokens[0];
    if (count > 1) [[unlikely]]
      std::memcpy(untold, tokens, count * sizeof *tokens);
  } else {  // by tell_waiting()
    job.told += count;
  }
  job.known += count;
}

kvc_status Scheduler::finish(kvc_plan_result& result) {
  const PlanSet& set = oldest_set();
  KVC_TRY(check_plan(set, plans_in_flight(), result));
  result.num_ended = 0;
  if ((result.flags & KVC_RESULT_FAILED) != 0) {
    fail_plans();
    return KVC_OK;
  }
  KVC_TRY(results_.check(set, jobs_, &result));
  if (num_draining_ != 0) KVC_TRY(tell_waiting(set, result));
  for (size_t i = 0; i < set.num_items; ++i) {
    const JobIndex index = jobs_.place_of(set.requests[i]);
    Job& job = jobs_[index];
    if (job.id != set.requests[i]) continue;  // it has ended
    take_item(job, set, i, result);
    if (job.state == JobState::kEnding || job.state == JobState::kNotReady) continue;
    uint32_t reason = 0;
    if (job.known >= job.limit) reason = KVC_ENDED_LENGTH;
    if (result.stopped != nullptr && result.stopped[i] != 0) reason = KVC_ENDED_STOPPED;
    if (reason == 0) [[likely]] {
      if (job.state == JobState::kWaiting && !job.queued && job.plans_in_flight == 0) {
        --num_draining_;
        enqueue(index);
      }
      continue;
    }
    if (result.ended != nullptr) result.ended[result.num_ended] = {job.id, reason, job.generated()};
    ++result.num_ended;
    note_end(index, reason);
    if (job.state == JobState::kRunning) {
      job.state = JobState::kEnding;
      ++num_ending_;
    } else {  // preempted, with this plan in flight
      --num_draining_;
      static_cast<void>(calls_.free_request(calls_.manager, job.id));
      jobs_.clear(job);
    }
  }
  retire(set.step_id);
  ++oldest_plan_;
  return KVC_OK;
}

// Tells the manager the tokens of jobs that were preempted meanwhile: of all, or of none.
kvc_status Scheduler::tell_waiting(const PlanSet& set, const kvc_plan_result& result) {
  for (size_t i = 0; i < set.num_items; ++i) {
    const uint64_t begin = result.token_offsets[i], count = result.token_offsets[i + 1] - begin;
    const JobIndex index = jobs_.find(set.requests[i]);
    if (index == kNoJob || jobs_[index].row >= 0 || count == 0) continue;
    const kvc_status status =
        calls_.append_tokens(calls_.manager, jobs_[index].id, result.tokens + begin, count);
    if (status == KVC_OK) continue;
    for (size_t k = 0; k < i; ++k) {
      const JobIndex told = jobs_.find(set.requests[k]);
      if (told == kNoJob || jobs_[told].row >= 0) continue;
      static_cast<void>(calls_.truncate_request(calls_.manager, jobs_[told].id, jobs_[told].told));
    }
    return status;
  }
  return KVC_OK;
}

// The plans in flight were not computed. Their tokens are planned again.
void Scheduler::fail_plans() {
  bool lost_copies = false;
  for (; oldest_plan_ != next_plan_; ++oldest_plan_) {
    const PlanSet& set = oldest_set();
    lost_copies |= set.num_copies != 0;
    for (size_t i = 0; i < set.num_items; ++i) {
      const JobIndex index = jobs_.find(set.requests[i]);
      if (index == kNoJob) continue;
      Job& job = jobs_[index];
      --job.plans_in_flight;
      job.samples_in_flight -= set.samples[i];
      job.drafts_in_flight = false;
      if (job.state == JobState::kWaiting && !job.queued && job.plans_in_flight == 0) {
        --num_draining_;
        enqueue(index);
      }
      if (job.state != JobState::kRunning || job.admission != set.admissions[i]) continue;
      job.most_planned = std::max(job.most_planned, job.planned);
      job.planned = std::min(job.planned, static_cast<uint32_t>(set.first_tokens[i]));
      job.reset_inputs(job.planned);
      job.restarts |= options_.has_states || set.num_copies != 0;  // its copies were not made either
      any_restarts_ |= job.restarts;
    }
    retire(set.step_id);
  }
  for (size_t i = 0; i < num_running_ && lost_copies; ++i) {  // also for those that have got no token yet
    Job& job = jobs_[running_[i]];
    job.restarts |= job.state == JobState::kRunning && !job.is_told;
    any_restarts_ |= job.restarts;
  }
}

}  // namespace kvc
