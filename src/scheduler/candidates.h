// SPDX-License-Identifier: Apache-2.0
// The waiting jobs that a plan has passed, or all that it compares by what is cached of them. Those that are
// set aside in the order of waiting jobs come back when the plan is made.
#pragma once
#include "scheduler/options.h"
#include "scheduler/waiting.h"

namespace kvc {

class Candidates {
 public:
  // All of these outlive it.
  [[nodiscard]] bool create(Memory& memory, const SchedulerCalls& calls, const SchedulerOptions& options,
                            const JobTable& jobs, Waiting& waiting) {
    calls_ = &calls;
    options_ = &options;
    jobs_ = &jobs;
    waiting_ = &waiting;
    return list_.create(memory, kMost) && walk_.create(memory, kMost, calls.manager, calls.prefix_key);
  }
  void clear() { count_ = 0; }
  size_t size() const { return count_; }
  bool is_full() const { return count_ == kMost; }
  JobIndex operator[](size_t i) const { return list_[i].job; }
  void add(JobIndex index) {
    list_[count_] = {index, 0, count_};
    ++count_;
  }
  void add_sorted();

 private:
  static constexpr size_t kMost = 128;
  struct Candidate {
    JobIndex job;
    uint64_t cached;  // tokens
    size_t order;
  };
  bool may_swap(const Candidate& a, const Candidate& b) const;
  void walk_prefixes(size_t begin);

  const SchedulerCalls* calls_ = nullptr;
  const SchedulerOptions* options_ = nullptr;
  const JobTable* jobs_ = nullptr;
  Waiting* waiting_ = nullptr;
  Array<Candidate> list_;
  size_t count_ = 0;
  PrefixWalk walk_;
};

}  // namespace kvc
