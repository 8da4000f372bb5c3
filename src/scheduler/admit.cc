// SPDX-License-Identifier: Apache-2.0
// Admissions of waiting jobs, in the order of the policy, as long as the plan has tokens and rows.
#include <kvcache/prefix.h>

#include <algorithm>

#include "scheduler/scheduler.h"

namespace kvc {

// Ends lookups, which may hold blocks that a job needs that comes before: those of the namespace of `of` if
// it is not nullptr. false: there were none.
bool Scheduler::drop_loads(const Job* of) {
  if (calls_.offload == nullptr) return false;
  kvc_offload_stats stats = {};
  stats.struct_size = sizeof stats;
  if (calls_.offload_stats(calls_.offload, &stats) != KVC_OK || stats.busy_lookups == 0) return false;
  uint64_t kept = 0;
  for (size_t i = 0; i < jobs_.size(); ++i) {
    const Job& job = jobs_[static_cast<JobIndex>(i)];
    if (!job.looked_up || job.row >= 0) continue;
    if (of == nullptr || job.namespace_id == of->namespace_id) {
      static_cast<void>(calls_.cancel(calls_.offload, job.id));
      continue;
    }
    kvc_offload_info info = {};
    info.struct_size = sizeof info;
    kept += calls_.query(calls_.offload, job.id, &info) == KVC_OK && info.state != KVC_OFFLOAD_NONE;
  }
  loads_.poll([this](JobIndex index) { make_ready(index); });  // they wait for their admission again
  return stats.busy_lookups != kept;                           // also such as end, of jobs that are forgotten
}

void Scheduler::admit_waiting() {
  loads_.poll([this](JobIndex index) { make_ready(index); });  // they wait for their admission again
  if (failure_ != KVC_OK) return;
  if (++tries_ == 0) tries_ = 1;
  closed_ = set_->lacks_blocks                         ? KVC_WAIT_SPACE
            : pressure_.is_high() && num_running_ != 0 ? KVC_WAIT_PRESSURE
                                                       : KVC_WAIT_TURN;
  if (closed_ != KVC_WAIT_TURN) return;
  const bool sorts = (options_.flags & (KVC_SCHEDULER_CACHE_AWARE | KVC_SCHEDULER_DEPTH_FIRST)) != 0;
  num_over_quota_ = 0;
  candidates_.clear();
  size_t next = 0;
  while (failure_ == KVC_OK && left_.tokens != 0 && num_free_rows_ != 0) {
    if (sorts && next == candidates_.size()) candidates_.add_sorted();
    if (sorts ? next == candidates_.size() : candidates_.is_full()) break;
    const JobIndex index = sorts ? candidates_[next++] : waiting_.top();
    if (index == kNoJob) break;
    const Found found = try_admit(index);
    if (found == Found::kStop) break;
    if (found == Found::kAdmitted) continue;
    if (!jobs_[index].is_aside) waiting_.set_aside(index);
    if (!sorts) candidates_.add(index);
  }
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const Job& job = jobs_[candidates_[i]];
    if (job.queued && job.is_aside) waiting_.put_back(candidates_[i]);
  }
}

// Notes why it waits on.
Scheduler::Found Scheduler::refuse(Job& job, uint32_t reason, uint64_t& counter, Found found) {
  ++counter;
  job.wait_reason = static_cast<uint8_t>(reason);
  job.refused_at = tries_;
  return found;
}

// What an admission that failed so means.
Scheduler::Found Scheduler::judge(JobIndex index, kvc_status status) {
  Job& job = jobs_[index];
  switch (failure_ != KVC_OK ? failure_ : status) {
    case KVC_ERROR_FILLING:
      return refuse(job, KVC_WAIT_FILLING, stats_.refused_filling, Found::kPassed);  // it is computed for it
    case KVC_ERROR_OVER_QUOTA:
      if (others_hold_blocks(&job)) return pass_namespace(job);
      refuse(job, KVC_WAIT_QUOTA, stats_.refused_quota, Found::kStop);
      return end_waiting(index);
    case KVC_ERROR_NEVER_FITS:
      refuse(job, KVC_WAIT_SPACE, stats_.refused_space, Found::kStop);
      return end_waiting(index);
    case KVC_ERROR_AGAIN:
      return refuse(job, KVC_WAIT_SPACE, stats_.refused_space, Found::kStop);
    case KVC_ERROR_NO_SPACE:
      refuse(job, KVC_WAIT_SPACE, stats_.refused_space, Found::kStop);
      return others_hold_blocks(nullptr) ? Found::kStop : end_waiting(index);
    default:
      failure_ = status;
      return Found::kStop;
  }
}

// kAdmitted: it waits no more in the order. kPassed: others may be admitted before it.
Scheduler::Found Scheduler::try_admit(JobIndex index) {
  Job& job = jobs_[index];
  const Found passed = job.aged ? Found::kStop : Found::kPassed;
  if (std::find(over_quota_, over_quota_ + num_over_quota_, job.namespace_id) !=
      over_quota_ + num_over_quota_) {
    return refuse(job, KVC_WAIT_QUOTA, stats_.refused_quota, Found::kPassed);
  }
  if (!adapters_.may_join(job.adapter)) return refuse(job, KVC_WAIT_ADAPTER, stats_.refused_adapter, passed);
  kvc_probe_info probe = {};
  probe.struct_size = sizeof probe;
  if (const kvc_status status = calls_.probe_request(calls_.manager, job.id, &probe); status != KVC_OK) {
    failure_ = status;
    return Found::kStop;
  }
  // A block that only the lookahead needs is not needed to run: then the admission of a chunk decides.
  const uint32_t size = options_.block_size, spare = (size - job.known % size) % size;
  if (probe.never_fits != 0 && job.lookahead <= spare) {
    refuse(job, KVC_WAIT_SPACE, stats_.refused_space, Found::kStop);
    return end_waiting(index);
  }
  if (calls_.offload != nullptr && !job.looked_up) {
    const bool idle = num_running_ == 0 && plans_in_flight() == 0;
    if (probe.fits == 0 && !idle && is_over_quota(job, probe.blocks_needed)) {
      if (others_hold_blocks(&job)) return pass_namespace(job);
    } else if (probe.fits == 0 && !idle) {  // its pages would take what others need
      return refuse(job, KVC_WAIT_SPACE, stats_.refused_space, Found::kStop);
    }
    const kvc_status status = calls_.look_up(calls_.offload, job.id, now_ns_);
    if (status == KVC_ERROR_LIMIT) {  // those that are looked up must come first
      uint64_t uncounted = 0;
      return refuse(job, KVC_WAIT_LOAD, uncounted, Found::kPassed);
    }
    job.looked_up = true;
    if (status == KVC_OK) {
      waiting_.remove(index);
      job.state = JobState::kLoading;
      loads_.add(index);
      return Found::kAdmitted;
    }
  }
  if (options_.admission >= KVC_ADMIT_PEAK && num_running_ != 0 &&
      !peak_.fits(calls_, options_, jobs_, waiting_, running_.data(), num_running_, job)) {
    return refuse(job, KVC_WAIT_PEAK, stats_.refused_peak, Found::kStop);
  }
  const auto first = static_cast<uint32_t>(probe.num_cached);
  const uint64_t encoder = left_.encoder;
  Share share = {};
  share.job = index;
  job.reset_inputs(first);
  share.num_tokens = left_.chunk(job, first, job.known, &share);
  if (share.num_tokens == 0) {
    left_.encoder = encoder;
    return refuse(job, KVC_WAIT_ENCODER, stats_.refused_encoder, passed);
  }
  if (admit(index, share, first, encoder)) return Found::kAdmitted;
  left_.encoder = encoder;
  return judge(index, step_.status[0]);
}

// Whether the quota of its namespace has no room for so many blocks.
bool Scheduler::is_over_quota(const Job& job, uint64_t num_blocks) const {
  kvc_quota_info quota = {};
  quota.struct_size = sizeof quota;
  return calls_.quota_info(calls_.manager, job.namespace_id, 0, &quota) == KVC_OK && quota.max_blocks != 0 &&
         quota.held + quota.fenced + num_blocks > quota.max_blocks;
}

// All requests of the namespace behind it are passed too.
Scheduler::Found Scheduler::pass_namespace(Job& job) {
  over_quota_[num_over_quota_++] = job.namespace_id;
  return refuse(job, KVC_WAIT_QUOTA, stats_.refused_quota, Found::kPassed);
}

// Whether there may be blocks later that there are not now: jobs hold some, those of the namespace of `of` if
// it is not nullptr, or steps in flight do, or lookups.
bool Scheduler::others_hold_blocks(const Job* of) {
  if (plans_in_flight() != 0) return true;
  for (size_t i = 0; i < num_running_; ++i)
    if (of == nullptr || jobs_[running_[i]].namespace_id == of->namespace_id) return true;
  return drop_loads(of);
}

// Ends a job that cannot run, unless the plan has no place to tell it.
Scheduler::Found Scheduler::end_waiting(JobIndex index) {
  const Job& job = jobs_[index];
  if (set_->num_ended == set_->ended.size()) return Found::kStop;
  set_->ended[set_->num_ended++] = {job.id, KVC_ENDED_NO_SPACE, job.generated()};
  note_end(index, KVC_ENDED_NO_SPACE);
  waiting_.remove(index);
  static_cast<void>(calls_.free_request(calls_.manager, job.id));
  jobs_.clear(jobs_[index]);
  return Found::kAdmitted;
}

// `expected`: tokens of its hit. `encoder`: what the encoder had left before this share. false: the manager
// has refused it; its status is the step's first.
bool Scheduler::admit(JobIndex index, Share share, uint32_t expected, uint64_t encoder) {
  Job& job = jobs_[index];
  const uint64_t slots = share.num_tokens;
  uint64_t id = 0, cached = 0;
  step_.begin();
  step_.rows[0] = free_rows_[num_free_rows_ - 1];
  kvc_step step = {};
  step.num_admissions = 1;
  step.admit_requests = &job.id;
  step.admit_slots = &slots;
  step.admitted = &id, step.cached = &cached;
  if (!run_step(nullptr, &step, false) || step_.status[0] != KVC_OK) return false;

  waiting_.remove(index);
  job.row = free_rows_[--num_free_rows_];
  job.state = JobState::kRunning;
  ++job.admission;
  job.is_told = job.restarts = false;
  running_[num_running_++] = index;
  ++waiting_.tenant(job.tenant).num_running;
  adapters_.join(job.adapter);
  const auto first = static_cast<uint32_t>(cached);
  if (first != expected) {
    share.num_tokens = std::min(share.num_tokens, job.known - first);
    if (job.num_inputs != 0) {
      job.reset_inputs(first);
      left_.encoder = encoder;
      share.num_tokens = left_.encodable(job, first, share.num_tokens, &share);
    }
  }
  job.cached = job.planned = job.written = first;
  job.capacity = first + static_cast<uint32_t>(slots);
  if (job.capacity >= job.known) job.capacity = job.known + job.lookahead;
  left_.tokens -= share.num_tokens;
  if (share.num_tokens != 0) items_[num_items_++] = share;
  if (!job.was_admitted) {
    job.was_admitted = true;
    ++stats_.admissions;
    stats_.cached_tokens += first;
  }
  return true;
}

}  // namespace kvc
