// SPDX-License-Identifier: Apache-2.0
// A scheduled request. Jobs lie in a table by the index of their id, so that an id finds its job at once.
#pragma once
#include <kvcache/scheduler.h>

#include <algorithm>

#include "base/handle.h"
#include "base/memory.h"
#include "base/status.h"

namespace kvc {

using JobIndex = int32_t;
inline constexpr JobIndex kNoJob = -1;

// A kvc_encoder_input, and which one of the caller's it is.
struct JobInput {
  uint32_t first_token, num_tokens, index;
  uint32_t end() const { return first_token + num_tokens; }
};

enum class JobState : uint8_t {
  kNone,      // no such job
  kNotReady,  // waits for the engine
  kWaiting,   // waits for its admission, in the order of the policy once its plans have finished
  kLoading,   // waits for the offload
  kRunning,
  kEnding  // holds blocks until the next plan
};

struct alignas(64) Job {
  // The first cache line is all that a decode touches.
  uint64_t id;
  // Tokens. told <= known: the manager has heard of them. written: their kernels have finished, in this
  // admission. planned: their kernels were planned, in this admission; rejected drafts are taken back.
  uint32_t known, told, written, planned;
  uint32_t capacity;   // tokens that have slots
  uint32_t lookahead;  // slots that an append brings behind the known tokens
  uint32_t prompt;
  uint32_t limit;                               // it ends when so many are known
  uint32_t most_planned;                        // in earlier admissions
  uint32_t admission;                           // counts them
  uint32_t plans_in_flight, samples_in_flight;  // plans with an item of it; of them such that bring tokens
  int32_t row;
  JobState state;
  bool is_told;   // a plan had an item of it, in this admission
  bool restarts;  // its states or blocks are lost: it is preempted with the next plan
  bool drafts_in_flight;

  bool queued, is_aside, aged, looked_up, was_admitted;
  uint8_t wait_reason;  // KVC_WAIT_*: of the call of plan() with the number refused_at
  uint64_t sequence;    // of arrival
  uint64_t arrival_ns;
  uint64_t adapter, namespace_id;
  int64_t rank;  // among those that wait: lower first
  uint32_t max_new, expected;
  uint32_t cached;  // of the hit
  uint32_t drafts;  // for the plan that is made after this many calls:
  uint64_t drafts_at;
  uint32_t preemptions, tenant;
  int32_t priority;
  uint32_t num_inputs, next_input;  // the first that is not encoded
  uint32_t refused_at;
  uint32_t inputs_from;  // those that end before it are not needed
  JobInput* inputs;      // by first token

  uint32_t heap_place;                   // 1, 2, ...; 0 = not there
  JobIndex earlier, later;               // those that wait, by arrival
  JobIndex tenant_before, tenant_after;  // those of the tenant's queue

  uint32_t generated() const { return known - prompt; }
  uint32_t untold() const { return known - told; }
  // Tokens that are known, or will be when its plans in flight have finished without drafts.
  uint32_t goal() const { return known + samples_in_flight; }
  // The encoder is needed for tokens from `first` on.
  void reset_inputs(uint32_t first) {
    next_input = 0;
    inputs_from = first;
    while (next_input < num_inputs && inputs[next_input].end() <= first) ++next_input;
  }
};

class JobTable {
 public:
  [[nodiscard]] bool create(Memory& memory, size_t max_jobs) {
    memory_ = &memory;
    return jobs_.create(memory, max_jobs);
  }
  ~JobTable() {
    for (size_t i = 0; i < jobs_.size(); ++i) drop_inputs(jobs_[i]);
  }

  size_t size() const { return jobs_.size(); }
  Job& operator[](JobIndex i) { return jobs_[static_cast<size_t>(i)]; }
  const Job& operator[](JobIndex i) const { return jobs_[static_cast<size_t>(i)]; }
  JobIndex index_of(const Job& job) const { return static_cast<JobIndex>(&job - jobs_.data()); }

  // kNoJob if there is none, or if it has ended.
  JobIndex find(uint64_t id) const {
    const size_t index = handle_index(id);
    if (id == 0 || index >= jobs_.size() || jobs_[index].id != id) return kNoJob;
    return static_cast<JobIndex>(index);
  }
  // The place of a new one; it is free.
  JobIndex place_of(uint64_t id) const { return static_cast<JobIndex>(handle_index(id)); }
  // false: no memory.
  [[nodiscard]] bool set_inputs(Job& job, const kvc_encoder_input* inputs, size_t count) {
    if (count == 0) return true;
    auto* const own = static_cast<JobInput*>(memory_->allocate(count * sizeof(JobInput), alignof(JobInput)));
    if (own == nullptr) return false;
    for (uint32_t i = 0; i < count; ++i)
      own[i] = {static_cast<uint32_t>(inputs[i].first_token), static_cast<uint32_t>(inputs[i].num_tokens), i};
    std::sort(own, own + count, [](const JobInput& a, const JobInput& b) {
      return a.first_token != b.first_token ? a.first_token < b.first_token : a.index < b.index;
    });
    job.inputs = own;
    job.num_inputs = static_cast<uint32_t>(count);
    return true;
  }
  void clear(Job& job) {
    drop_inputs(job);
    job = {};
  }

 private:
  void drop_inputs(Job& job) {
    if (job.inputs != nullptr)
      memory_->release(job.inputs, job.num_inputs * sizeof(JobInput), alignof(JobInput));
  }

  Memory* memory_ = nullptr;
  Array<Job> jobs_;
};

}  // namespace kvc
