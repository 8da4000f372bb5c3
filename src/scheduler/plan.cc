// SPDX-License-Identifier: Apache-2.0
// A plan: what runs gets its tokens, then what waits is admitted (admit.cc). The manager is driven by steps:
//
//   frees        of what has ended, after its last commits
//   decodes      that append one known token: the fast path of a step
//   the rest     decodes with drafts or with more tokens that are not known yet, chunks of prompts
//   preemptions  one step each, and one for those that lacked a block (preempt.cc)
//   admissions   one step each
#include <algorithm>

#include "scheduler/scheduler.h"

namespace kvc {

kvc_status Scheduler::plan(uint64_t now_ns, kvc_plan* out) {
  if (plans_in_flight() == options_.max_plans) {
    return fail(KVC_ERROR_BUSY, "%zu plans are in flight; finish plan %llu before", plans_in_flight(),
                ull(oldest_plan_));
  }
  KVC_TRY(advance(now_ns));
  PlanSet& set = next_set();
  set_ = &set;
  set.begin();
  failure_ = KVC_OK;
  num_items_ = num_failed_ = 0;
  left_.begin();
  if (options_.max_wait_ns < now_ns_) waiting_.age(now_ns_ - options_.max_wait_ns);
  adapt_policy();

  if (num_ending_ != 0) end_jobs();
  if (any_restarts_) restart_jobs();
  step_.begin();
  share_out();
  run_step(nullptr, nullptr, true);
  step_.begin();
  for (size_t i = 0; i < num_decodes_; ++i) put_item(decodes_[i]);
  for (size_t i = 0; i < num_prefills_; ++i) put_item(prefills_[i]);
  run_step(nullptr, nullptr, false);
  resolve_failures();
  admit_waiting();
  if (num_items_ == 0 && plans_in_flight() == 0 && last_step_ != retired_step_) retire(last_step_);
  if (pressure_.watch(calls_)) ++stats_.pressure_changes;
  if (num_items_ + set.num_ended + set.num_preempted == 0 && failure_ != KVC_OK) return failure_;
  ++calls_of_plan_;
  set.plan_id = num_items_ != 0 ? next_plan_++ : 0;
  set.step_id = last_step_;
  write_items();
  set.fill(options_, tables_.data(), out);
  return KVC_OK;
}

void Scheduler::adapt_policy() {
  if (options_.policy != KVC_SCHEDULE_ADAPTIVE) return;
  const uint64_t high = uint64_t{options_.adaptive_plans} * options_.max_tokens;
  const bool shortest = waiting_.policy() == KVC_SCHEDULE_SHORTEST;
  const bool changes = shortest ? waiting_.num_tokens() < high / 4 : waiting_.num_tokens() > high;
  if (!changes) return;
  waiting_.set_policy(shortest ? KVC_SCHEDULE_FCFS : KVC_SCHEDULE_SHORTEST);
  ++stats_.policy_changes;
}

// Whether an append, which gives slots up to the lookahead, gives no more than this decode and, if one will
// follow, the next one need.
bool Scheduler::takes_no_more(const Job& job) const {
  const uint32_t end = job.known + job.lookahead, goal = job.goal();
  return job.capacity <= end && (goal == end || (goal + 1 == end && end < job.limit));
}

// What each running job gets: decodes one token each, then drafts, then chunks of prompts. Decodes that
// append their only untold token are put into the step at once.
void Scheduler::share_out() {
  num_decodes_ = num_prefills_ = 0;
  for (size_t i = 0; i < num_running_; ++i) {
    const JobIndex index = running_[i];
    const Job& job = jobs_[index];
    const uint32_t goal = job.goal();
    if (job.state == JobState::kEnding || job.drafts_in_flight || goal >= job.limit || goal <= job.planned)
      continue;
    const bool encodes = job.planned < job.prompt && job.next_input != job.num_inputs;
    if (goal - job.planned != 1 || encodes) {
      prefills_[num_prefills_++] = {index, 0, 0, 0, KVC_OK};
    } else if (job.untold() == 1 && job.written == job.told && takes_no_more(job) && drafts_of(job) == 0) {
      put_decode(index, job);
    } else {
      decodes_[num_decodes_++] = {index, 1, 0, 0, KVC_OK};
    }
  }
  left_.tokens -= static_cast<uint32_t>(step_.num_items + num_decodes_);
  if (options_.max_drafts != 0) give_drafts();
  size_t kept = 0;
  for (size_t i = 0; i < num_prefills_; ++i) {
    Share share = prefills_[i];
    const Job& job = jobs_[share.job];
    share.num_tokens = left_.chunk(job, job.planned, job.goal(), &share);
    if (share.num_tokens == 0) continue;
    left_.tokens -= share.num_tokens;
    prefills_[kept++] = share;
  }
  num_prefills_ = kept;
}

void Scheduler::give_drafts() {
  for (size_t i = 0; i < num_decodes_; ++i) {
    const Job& job = jobs_[decodes_[i].job];
    const uint32_t goal = job.goal();
    uint64_t most = job.samples_in_flight == 0 ? std::min(drafts_of(job), left_.tokens) : 0;
    most = std::min<uint64_t>(most, job.limit - goal - 1);
    decodes_[i].num_drafts = static_cast<uint32_t>(most);
    decodes_[i].num_tokens += static_cast<uint32_t>(most);
    left_.tokens -= static_cast<uint32_t>(most);
  }
}

// Frees what has ended; what it has written is committed before, and can be hit.
void Scheduler::end_jobs() {
  step_.begin();
  for (size_t i = 0; i < num_running_; ++i) {
    const Job& job = jobs_[running_[i]];
    if (job.state != JobState::kEnding) continue;
    put_item({running_[i], 0, 0, 0, KVC_OK});
    step_.frees[step_.num_frees++] = job.id;
  }
  if (!run_step(nullptr, nullptr, false)) return;
  size_t kept = 0;
  for (size_t i = 0; i < num_running_; ++i) {
    Job& job = jobs_[running_[i]];
    if (job.state != JobState::kEnding) {
      running_[kept++] = running_[i];
      continue;
    }
    leave_row(job);
    jobs_.clear(job);
  }
  num_running_ = kept;
  num_ending_ = 0;
}

// The job's only untold token is appended.
inline void Scheduler::put_decode(JobIndex index, const Job& job) {
  const size_t i = step_.num_items++;
  items_[num_items_ + i] = {index, 1, 0, 0, KVC_OK};
  step_.requests[i] = job.id;
  step_.committed[i] = job.written;
  step_.rows[i] = job.row;
  step_.extend_tokens[i] = *untold_of(job);
}

// Slots are taken, and the commit brings the untold tokens.
void Scheduler::put_item(const Share& share) {
  const size_t i = step_.num_items++;
  const Job& job = jobs_[share.job];
  items_[num_items_ + i] = share;
  step_.requests[i] = job.id;
  step_.committed[i] = job.written;
  step_.rows[i] = job.row;
  uint64_t commit_end = step_.commit_offsets[i], extend_end = step_.extend_offsets[i];
  const int32_t* const untold = untold_of(job);
  for (uint32_t k = 0; k < job.untold(); ++k) step_.commit_tokens[commit_end++] = untold[k];
  const uint32_t end = job.planned + share.num_tokens;
  if (share.num_tokens != 0 && end > job.capacity) extend_end += end - job.capacity;
  step_.commit_offsets[i + 1] = commit_end;
  step_.extend_offsets[i + 1] = extend_end;
}

// Carries out the step that was put together, with a preemption or an admission if there is one. fast: of
// put_decode() alone. false: it failed, as failure_ says, and nothing more is planned.
bool Scheduler::run_step(const uint64_t* preempt, kvc_step* admission, bool fast) {
  if (failure_ != KVC_OK) return false;
  if (step_.num_items + step_.num_frees == 0 && preempt == nullptr && admission == nullptr) return true;
  PlanSet& set = *set_;
  kvc_step own = {};
  kvc_step& step = admission != nullptr ? *admission : own;
  step.struct_size = sizeof step;
  step.fill_id = -1;
  // No kernel runs between the steps of a plan, so the steps before this one need no fences.
  step.retired_step = plans_in_flight() == 0 ? last_step_ : retired_step_;
  step.now_ns = now_ns_;
  step.num_frees = step_.num_frees, step.frees = step_.frees.data();
  step.num_preempts = preempt != nullptr, step.preempts = preempt;
  step.num_requests = step_.num_items, step.requests = step_.requests.data();
  step.committed = step_.committed.data();
  step.extend_offsets = fast ? step_.one_each.data() : step_.extend_offsets.data();
  if (fast) {
    step.extend_tokens = step_.extend_tokens.data();
  } else {
    step.commit_offsets = step_.commit_offsets.data(), step.commit_tokens = step_.commit_tokens.data();
  }
  step.num_rows = options_.max_running, step.row_stride = options_.row_stride;
  step.block_tables = tables_.data(), step.rows = step_.rows.data();
  step.status = step_.status.data();
  step.copies = set.copies.data() + set.num_copies, step.copy_capacity = set.copies.size() - set.num_copies;
  if (!set.whole_tables && admission == nullptr) {
    step.changes = set.changes.data() + set.num_changes;
    step.change_capacity = set.changes.size() - set.num_changes;
  }
  kvc_status status = calls_.step(calls_.manager, &step);
  if (status == KVC_ERROR_BUFFER_TOO_SMALL && step.changes != nullptr) {
    set.whole_tables = true;
    step.changes = nullptr, step.change_capacity = 0;
    status = calls_.step(calls_.manager, &step);
  }
  if (status != KVC_OK) {
    failure_ = status;
    return false;
  }
  last_step_ = step.step_id;
  set.num_copies += step.num_copies;
  if (step.changes != nullptr) set.num_changes += step.num_changes;
  take_results(step_.status.data() + step.num_frees + step.num_preempts, fast);
  return true;
}

// The items of the step lie behind those of the plan, which keep what computes tokens.
void Scheduler::take_results(const kvc_status* status, bool fast) {
  const uint64_t* const extends = step_.extend_offsets.data();
  const Share* const shares = items_.data() + num_items_;
  for (size_t i = 0; i < step_.num_items; ++i) {
    Share share = shares[i];
    Job& job = jobs_[share.job];
    if (status[i] == KVC_OK) [[likely]] {
      job.told = job.known;
      job.capacity = fast ? job.known + job.lookahead
                          : job.capacity + static_cast<uint32_t>(extends[i + 1] - extends[i]);
      if (share.num_tokens != 0) items_[num_items_++] = share;
      continue;
    }
    kvc_request_info info = {};
    info.struct_size = sizeof info;
    if (calls_.request_info(calls_.manager, job.id, &info) == KVC_OK) {
      const uint32_t told = static_cast<uint32_t>(info.num_tokens) - job.told;
      std::memmove(untold_of(job), untold_of(job) + told, (job.untold() - told) * sizeof(int32_t));
      job.told += told;
    }
    share.status = status[i];
    set_->lacks_blocks = true;
    if (status[i] == KVC_ERROR_NO_SPACE || status[i] == KVC_ERROR_OVER_QUOTA ||
        status[i] == KVC_ERROR_NEVER_FITS) {
      failed_[num_failed_++] = share;
    } else if (status[i] != KVC_ERROR_AGAIN) {
      failure_ = status[i];
    }
  }
}

// The arrays of the plan, and what its jobs have in flight from now on.
void Scheduler::write_items() {
  PlanSet& set = *set_;
  const size_t count = set.num_items = num_items_;
  const bool charges = waiting_.policy() == KVC_SCHEDULE_FAIR;
  uint64_t tokens = 0, decodes = 0, drafts = 0;
  for (size_t i = 0; i < count; ++i) {
    Job& job = jobs_[items_[i].job];
    const uint32_t num_tokens = items_[i].num_tokens, num_drafts = items_[i].num_drafts;
    const uint32_t first = job.planned, end = first + num_tokens;
    const bool samples = end - num_drafts == job.goal();
    set.requests[i] = job.id;
    set.rows[i] = job.row;
    set.first_tokens[i] = first;
    set.num_drafts[i] = num_drafts;
    set.samples[i] = samples;
    set.is_new[i] = !job.is_told;
    job.is_told = true;
    set.admissions[i] = job.admission;
    set.token_offsets[i + 1] = tokens += num_tokens;
    if (items_[i].inputs_end != 0) [[unlikely]] {
      for (; job.next_input < items_[i].inputs_end; ++job.next_input) {
        const JobInput& input = job.inputs[job.next_input];
        if (input.end() > job.inputs_from) set.runs[set.num_runs++] = {static_cast<uint32_t>(i), input.index};
      }
    }
    decodes += first >= job.prompt && num_tokens - num_drafts == 1;
    drafts += num_drafts;
    if (first < job.most_planned) [[unlikely]]
      stats_.recomputed_tokens += std::min(end, job.most_planned) - first;
    if (charges) waiting_.charge(job.tenant, num_tokens);
    job.planned = end;
    ++job.plans_in_flight;
    job.samples_in_flight += samples;
    job.drafts_in_flight = num_drafts != 0;
  }
  if (count == 0) return;
  ++stats_.plans;
  stats_.decode_tokens += decodes;
  stats_.draft_tokens += drafts;
  stats_.prompt_tokens += tokens - decodes - drafts;
  set.write_slots(options_, tables_.data());
}

}  // namespace kvc
