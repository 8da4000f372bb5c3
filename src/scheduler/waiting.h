// SPDX-License-Identifier: Apache-2.0
// The order in which waiting jobs are admitted. A heap by rank; for fair shares a queue for each tenant, and
// deficit round robin among them. Jobs that are aged lie in the heap, before all others, by arrival. O(log
// jobs) each.
#pragma once
#include "scheduler/job.h"

namespace kvc {

struct Tenant {
  int64_t credit;     // tokens
  int64_t quantum;    // tokens for each turn
  uint64_t mean_new;  // tokens that its jobs got, times 256; 0 = none has ended
  uint32_t num_waiting, num_running;
  JobIndex first, last;   // of its queue
  int32_t before, after;  // in the ring of tenants with a queue
};

class Waiting {
 public:
  [[nodiscard]] bool create(Memory& memory, JobTable& jobs, uint32_t num_tenants, int64_t quantum);

  // The order from now on: FCFS, PRIORITY, SHORTEST or FAIR. O(jobs).
  void set_policy(uint32_t policy);
  uint32_t policy() const { return policy_; }

  // A job comes and goes. push() computes its rank.
  void push(JobIndex job);
  void remove(JobIndex job);
  // The next one; kNoJob = none waits. Gives tenants their credit.
  JobIndex top();
  // Takes a job out of the order, so that top() tells the next one, and puts it back. It waits meanwhile.
  void set_aside(JobIndex job);
  void put_back(JobIndex job);
  // After its priority has changed.
  void update(JobIndex job);
  // Jobs that arrived at `arrival_ns` or before are aged.
  void age(uint64_t arrival_ns);
  uint64_t num_aged() const { return num_aged_; }  // so far

  size_t size() const { return size_; }
  uint64_t num_tokens() const { return num_tokens_; }

  Tenant& tenant(uint32_t t) { return tenants_[t]; }
  const Tenant& tenant(uint32_t t) const { return tenants_[t]; }
  size_t num_tenants() const { return tenants_.size(); }
  // A tenant without any job gets a new one: its credit begins again.
  void arrive(uint32_t t) {
    Tenant& tenant = tenants_[t];
    if (tenant.num_waiting + tenant.num_running == 0) tenant.credit = 0;
  }
  void charge(uint32_t t, uint32_t num_tokens) { tenants_[t].credit -= num_tokens; }
  // New tokens that a job will get in all.
  uint32_t expected(const Job& job) const;
  void note_length(const Job& job);

  // nullptr, or what is wrong. O(jobs).
  const char* check() const;

 private:
  bool before(JobIndex a, JobIndex b) const;
  int64_t rank_of(const Job& job) const;
  bool in_heap(const Job& job) const { return policy_ != KVC_SCHEDULE_FAIR || job.aged; }
  void place(JobIndex job);
  void unplace(JobIndex job);
  void sift(size_t place);
  void heap_set(size_t place, JobIndex job);
  void join_queue(JobIndex job);
  void leave_queue(JobIndex job);
  JobIndex top_of_tenants();
  void skip_rounds();

  JobTable* jobs_ = nullptr;
  uint32_t policy_ = KVC_SCHEDULE_FCFS;
  Array<JobIndex> heap_;  // [1 ..]
  size_t heap_size_ = 0, size_ = 0;
  uint64_t num_tokens_ = 0;
  JobIndex earliest_ = kNoJob, latest_ = kNoJob;  // of all that wait, by arrival
  JobIndex youngest_aged_ = kNoJob;               // aged ones are the first of these
  uint64_t aged_before_ = 0;                      // whoever arrived before is aged
  uint64_t num_aged_ = 0;
  Array<Tenant> tenants_;
  int32_t turn_ = -1;  // of the ring
  bool turn_has_begun_ = false;
  uint32_t num_queues_ = 0;
  uint64_t mean_new_ = 0;  // of all tenants, as Tenant::mean_new
};

}  // namespace kvc
