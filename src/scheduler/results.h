// SPDX-License-Identifier: Apache-2.0
// Whether what a plan is said to have brought can be its result.
#pragma once
#include "scheduler/plan_set.h"

namespace kvc {

class Results {
 public:
  // Vocabulary 0: any token that is not negative.
  [[nodiscard]] bool create(Memory& memory, size_t max_running, uint32_t vocab_size) {
    vocab_size_ = vocab_size;
    return offsets_.create(memory, max_running + 1);
  }
  // Gives a result without offsets some, which live until the next call. The plan is the result's.
  kvc_status check(const PlanSet& set, const JobTable& jobs, kvc_plan_result* result) {
    if (result->token_offsets == nullptr) KVC_TRY(make_offsets(set, result));
    return check_tokens(set, jobs, *result);
  }

 private:
  kvc_status make_offsets(const PlanSet& set, kvc_plan_result* result);
  bool brings_one_each(const PlanSet& set, const kvc_plan_result& result) const;
  kvc_status check_tokens(const PlanSet& set, const JobTable& jobs, const kvc_plan_result& result) const;

  Array<uint64_t> offsets_;  // the first is 0
  uint32_t vocab_size_ = 0;
};

}  // namespace kvc
