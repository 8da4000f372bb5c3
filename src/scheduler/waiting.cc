// SPDX-License-Identifier: Apache-2.0
#include "scheduler/waiting.h"

#include <algorithm>

namespace kvc {

bool Waiting::create(Memory& memory, JobTable& jobs, uint32_t num_tenants, int64_t quantum) {
  jobs_ = &jobs;
  if (!heap_.create(memory, jobs.size() + 1) || !tenants_.create(memory, num_tenants)) return false;
  for (size_t t = 0; t < num_tenants; ++t) {
    tenants_[t] = {};
    tenants_[t].quantum = quantum;
    tenants_[t].first = tenants_[t].last = kNoJob;
  }
  return true;
}

uint32_t Waiting::expected(const Job& job) const {
  uint64_t tokens = job.expected;
  if (tokens == 0) {
    const uint64_t mean = tenants_[job.tenant].mean_new != 0 ? tenants_[job.tenant].mean_new : mean_new_;
    tokens = mean == 0 ? job.max_new : std::max<uint64_t>(mean / 256, 1);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(tokens, job.max_new));
}

// Exponential means: a new length counts for a sixteenth.
void Waiting::note_length(const Job& job) {
  const auto add = [&](uint64_t& mean) {
    const uint64_t length = uint64_t{std::max(job.generated(), 1u)} * 256;
    mean = mean == 0 ? length : mean - mean / 16 + length / 16;
  };
  add(tenants_[job.tenant].mean_new);
  add(mean_new_);
}

int64_t Waiting::rank_of(const Job& job) const {
  if (policy_ == KVC_SCHEDULE_PRIORITY) return job.priority;
  if (policy_ != KVC_SCHEDULE_SHORTEST) return 0;
  const uint32_t all = expected(job), done = job.generated();
  return int64_t{job.known} + (all > done ? all - done : 1);
}

inline bool Waiting::before(JobIndex a, JobIndex b) const {
  const Job &one = (*jobs_)[a], &other = (*jobs_)[b];
  if (one.aged != other.aged) return one.aged;
  if (!one.aged && one.rank != other.rank) return one.rank < other.rank;
  return one.sequence < other.sequence;
}

inline void Waiting::heap_set(size_t place, JobIndex job) {
  heap_[place] = job;
  (*jobs_)[job].heap_place = static_cast<uint32_t>(place);
}

void Waiting::sift(size_t place) {
  const JobIndex job = heap_[place];
  for (; place > 1 && before(job, heap_[place / 2]); place /= 2) heap_set(place, heap_[place / 2]);
  for (;;) {
    size_t child = place * 2;
    if (child > heap_size_) break;
    if (child < heap_size_ && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], job)) break;
    heap_set(place, heap_[child]);
    place = child;
  }
  heap_set(place, job);
}

// Queues of tenants are in order of arrival. Those that come back are near the front, new ones at the end.
void Waiting::join_queue(JobIndex index) {
  Job& job = (*jobs_)[index];
  Tenant& tenant = tenants_[job.tenant];
  if (tenant.first == kNoJob) {
    const auto t = static_cast<int32_t>(job.tenant);
    if (turn_ < 0) {
      tenant.before = tenant.after = turn_ = t;
      turn_has_begun_ = false;
    } else {  // the last in the ring
      tenant.after = turn_;
      tenant.before = tenants_[static_cast<size_t>(turn_)].before;
      tenants_[static_cast<size_t>(tenant.before)].after = t;
      tenants_[static_cast<size_t>(turn_)].before = t;
    }
    ++num_queues_;
  }
  JobIndex before = tenant.last;
  if (before != kNoJob && (*jobs_)[before].sequence > job.sequence) {
    before = kNoJob;
    for (JobIndex next = tenant.first; (*jobs_)[next].sequence < job.sequence;
         next = (*jobs_)[next].tenant_after)
      before = next;
  }
  job.tenant_before = before;
  job.tenant_after = before == kNoJob ? tenant.first : (*jobs_)[before].tenant_after;
  (before == kNoJob ? tenant.first : (*jobs_)[before].tenant_after) = index;
  (job.tenant_after == kNoJob ? tenant.last : (*jobs_)[job.tenant_after].tenant_before) = index;
}

void Waiting::leave_queue(JobIndex index) {
  const Job& job = (*jobs_)[index];
  Tenant& tenant = tenants_[job.tenant];
  (job.tenant_before == kNoJob ? tenant.first : (*jobs_)[job.tenant_before].tenant_after) = job.tenant_after;
  (job.tenant_after == kNoJob ? tenant.last : (*jobs_)[job.tenant_after].tenant_before) = job.tenant_before;
  if (tenant.first != kNoJob) return;
  tenants_[static_cast<size_t>(tenant.before)].after = tenant.after;
  tenants_[static_cast<size_t>(tenant.after)].before = tenant.before;
  if (turn_ == static_cast<int32_t>(job.tenant)) {
    turn_ = num_queues_ == 1 ? -1 : tenant.after;
    turn_has_begun_ = false;
  }
  --num_queues_;
}

void Waiting::place(JobIndex index) {
  Job& job = (*jobs_)[index];
  job.rank = rank_of(job);
  if (!in_heap(job)) return join_queue(index);
  heap_set(++heap_size_, index);
  sift(heap_size_);
}

void Waiting::unplace(JobIndex index) {
  Job& job = (*jobs_)[index];
  if (!in_heap(job)) return leave_queue(index);
  const size_t place = job.heap_place;
  job.heap_place = 0;
  const JobIndex last = heap_[heap_size_--];
  if (last == index) return;
  heap_set(place, last);
  sift(place);
}

void Waiting::push(JobIndex index) {
  Job& job = (*jobs_)[index];
  // Among those that wait, by arrival: from the end, where new ones come, unless it is earlier than all.
  JobIndex before = latest_;
  if (earliest_ != kNoJob && job.sequence < (*jobs_)[earliest_].sequence) before = kNoJob;
  while (before != kNoJob && (*jobs_)[before].sequence > job.sequence) before = (*jobs_)[before].earlier;
  job.earlier = before;
  job.later = before == kNoJob ? earliest_ : (*jobs_)[before].later;
  (before == kNoJob ? earliest_ : (*jobs_)[before].later) = index;
  (job.later == kNoJob ? latest_ : (*jobs_)[job.later].earlier) = index;
  num_aged_ += !job.aged && job.arrival_ns < aged_before_;
  job.aged = job.arrival_ns < aged_before_;
  if (job.aged && (youngest_aged_ == kNoJob || (*jobs_)[youngest_aged_].sequence < job.sequence))
    youngest_aged_ = index;
  job.queued = true;
  ++size_;
  num_tokens_ += job.known;
  ++tenants_[job.tenant].num_waiting;
  place(index);
}

void Waiting::set_aside(JobIndex index) {
  unplace(index);
  (*jobs_)[index].is_aside = true;
}

void Waiting::put_back(JobIndex index) {
  (*jobs_)[index].is_aside = false;
  place(index);
}

void Waiting::remove(JobIndex index) {
  Job& job = (*jobs_)[index];
  if (!job.is_aside) unplace(index);
  job.is_aside = false;
  if (youngest_aged_ == index) youngest_aged_ = job.earlier;
  (job.earlier == kNoJob ? earliest_ : (*jobs_)[job.earlier].later) = job.later;
  (job.later == kNoJob ? latest_ : (*jobs_)[job.later].earlier) = job.earlier;
  job.queued = false;
  --size_;
  num_tokens_ -= job.known;
  --tenants_[job.tenant].num_waiting;
}

void Waiting::update(JobIndex index) {
  unplace(index);
  place(index);
}

void Waiting::set_policy(uint32_t policy) {
  if (policy == policy_) return;
  for (JobIndex i = earliest_; i != kNoJob; i = (*jobs_)[i].later) unplace(i);
  policy_ = policy;
  for (JobIndex i = earliest_; i != kNoJob; i = (*jobs_)[i].later) place(i);
}

void Waiting::age(uint64_t arrival_ns) {
  aged_before_ = std::max(aged_before_, arrival_ns + 1);
  JobIndex next = youngest_aged_ == kNoJob ? earliest_ : (*jobs_)[youngest_aged_].later;
  for (; next != kNoJob && (*jobs_)[next].arrival_ns <= arrival_ns; next = (*jobs_)[next].later) {
    unplace(next);
    (*jobs_)[next].aged = true;
    place(next);
    youngest_aged_ = next;
    ++num_aged_;
  }
}

JobIndex Waiting::top() { return heap_size_ != 0 ? heap_[1] : top_of_tenants(); }

// A tenant whose turn begins gets credit, but never has more than for one turn.
JobIndex Waiting::top_of_tenants() {
  if (turn_ < 0) return kNoJob;
  for (uint32_t begun = 0;; ++begun) {
    Tenant& tenant = tenants_[static_cast<size_t>(turn_)];
    if (!turn_has_begun_) tenant.credit = std::min(tenant.credit + tenant.quantum, tenant.quantum);
    turn_has_begun_ = true;
    if (tenant.credit > 0) return tenant.first;
    if (begun ==
        num_queues_) {  // all are in debt: at once as many rounds as nobody's debt outlasts, less one
      skip_rounds();
      begun = 0;
    }
    turn_ = tenant.after;
    turn_has_begun_ = false;
  }
}

void Waiting::skip_rounds() {
  const auto each = [&](auto&& function) {
    int32_t t = turn_;
    for (uint32_t i = 0; i < num_queues_; ++i, t = tenants_[static_cast<size_t>(t)].after)
      function(tenants_[static_cast<size_t>(t)]);
  };
  int64_t rounds = INT64_MAX;
  each([&](const Tenant& tenant) { rounds = std::min(rounds, -tenant.credit / tenant.quantum); });
  each([&](Tenant& tenant) { tenant.credit += rounds * tenant.quantum; });
}

const char* Waiting::check() const {
  size_t listed = 0, in_heap_count = 0;
  uint64_t tokens = 0;
  JobIndex last = kNoJob;
  bool young = false;
  for (JobIndex i = earliest_; i != kNoJob; last = i, i = (*jobs_)[i].later) {
    const Job& job = (*jobs_)[i];
    if (++listed > size_) return "the list of waiting jobs does not end";
    if (job.earlier != last || !job.queued) return "the list of waiting jobs is broken";
    if (last != kNoJob && (*jobs_)[last].sequence >= job.sequence) return "waiting jobs are out of order";
    if (job.aged && young) return "an aged job comes after one that is not";
    young |= !job.aged;
    tokens += job.known;
    if (!in_heap(job)) continue;
    ++in_heap_count;
    if (job.heap_place == 0 || job.heap_place > heap_size_ || heap_[job.heap_place] != i)
      return "a waiting job is not where the heap has it";
    if (job.heap_place > 1 && before(i, heap_[job.heap_place / 2])) return "the heap is out of order";
  }
  if (listed != size_ || last != latest_) return "the list of waiting jobs is not complete";
  if (in_heap_count != heap_size_) return "the heap has jobs that do not wait";
  if (tokens != num_tokens_) return "the tokens of waiting jobs are miscounted";
  size_t in_queues = 0;
  for (size_t t = 0; t < tenants_.size(); ++t) {
    JobIndex before_it = kNoJob;
    for (JobIndex i = tenants_[t].first; i != kNoJob; before_it = i, i = (*jobs_)[i].tenant_after) {
      const Job& job = (*jobs_)[i];
      if (++in_queues > size_ || in_heap(job) || job.tenant != t || job.tenant_before != before_it)
        return "the queue of a tenant is broken";
    }
    if (tenants_[t].first != kNoJob && tenants_[t].last != before_it)
      return "the queue of a tenant is broken";
  }
  return in_queues + heap_size_ == size_ ? nullptr : "a waiting job is in no queue";
}

}  // namespace kvc
