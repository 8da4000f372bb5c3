// SPDX-License-Identifier: Apache-2.0
// The jobs whose pages the offload looks up or loads.
#pragma once
#include "scheduler/job.h"
#include "scheduler/options.h"

namespace kvc {

class Loads {
 public:
  // All of these outlive it.
  [[nodiscard]] bool create(Memory& memory, const SchedulerCalls& calls, const JobTable& jobs) {
    calls_ = &calls;
    jobs_ = &jobs;
    return loading_.create(memory, jobs.size());
  }
  size_t size() const { return count_; }
  void add(JobIndex index) { loading_[count_++] = index; }
  void remove(JobIndex index) {
    *std::find(loading_.data(), loading_.data() + count_, index) = loading_[count_ - 1];
    --count_;
  }
  // Those whose lookup has ended leave: ended(index).
  template <typename Ended>
  void poll(Ended&& ended) {
    size_t kept = 0;
    for (size_t i = 0; i < count_; ++i) {
      const JobIndex index = loading_[i];
      kvc_offload_info info = {};
      info.struct_size = sizeof info;
      const kvc_status status = calls_->query(calls_->offload, (*jobs_)[index].id, &info);
      if (status == KVC_OK && (info.state == KVC_OFFLOAD_LOOKING || info.state == KVC_OFFLOAD_LOADING)) {
        loading_[kept++] = index;
      } else {
        ended(index);
      }
    }
    count_ = kept;
  }

 private:
  const SchedulerCalls* calls_ = nullptr;
  const JobTable* jobs_ = nullptr;
  Array<JobIndex> loading_;
  size_t count_ = 0;
};

}  // namespace kvc
