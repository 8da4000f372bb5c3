// SPDX-License-Identifier: Apache-2.0
// Engine steps: each is a batch of commits, frees, preemptions, truncations, extensions and admissions. The
// check comes first: a step that fails it changes nothing, and one that passes carries out every item.
//
// step.cc is the order of a step, step_check.cc the check, decode.cc the usual item.
#pragma once
#include "manager/scheduler_view.h"

namespace kvc {

struct StepPlan;

// Remembers for each index (of a request, or of a row) the last item that marked it in the current round. A
// new round clears nothing: marks of earlier rounds carry an older stamp.
class Marks {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Makes room for indices below `size`; on false nothing has changed.
  [[nodiscard]] bool grow(Memory& memory, size_t size) {
    return size <= marks_.size() || marks_.grow(memory, size);
  }
  size_t size() const { return marks_.size(); }

  void begin_round() {
    if (++stamp_ != 0) [[likely]]
      return;
    for (size_t i = 0; i < marks_.size(); ++i) marks_[i] = {};  // once in 2^32 rounds
    stamp_ = 1;
  }
  uint32_t item(size_t index) const { return marks_[index].stamp == stamp_ ? marks_[index].item : kNone; }
  void mark(size_t index, uint32_t item) { marks_[index] = {stamp_, item}; }

 private:
  struct Mark {
    uint32_t stamp, item;
  };
  Array<Mark> marks_;
  uint32_t stamp_ = 0;
};

class Stepper {
 public:
  Stepper(const Shape& shape, Monitor& monitor, Blocks& blocks, Requests& requests, TableRows& rows,
          Memory& memory)
      : shape_(shape),
        monitor_(monitor),
        blocks_(blocks),
        requests_(requests),
        rows_(rows),
        memory_(memory) {}
  [[nodiscard]] bool create() {
    return item_marks_.grow(memory_, shape_.max_requests) && row_marks_.grow(memory_, shape_.max_requests);
  }

  kvc_status step(StepPlan& plan);
  kvc_status retire(uint64_t step_id);

  uint64_t assigned() const { return assigned_; }           // steps begun
  const CopyList* executing() const { return executing_; }  // steps begun and not ended

 private:
  // step_check.cc
  kvc_status check(const StepPlan& plan);
  kvc_status check_rows(const StepPlan& plan);
  void mark_requests(const StepPlan& plan);
  uint64_t extension_end(const StepPlan& plan, size_t i, const Request& request) const;
  size_t bound_changes(const StepPlan& plan);
  size_t admission_copies(const StepPlan& plan) const;
  size_t bound_copies(const StepPlan& plan) const;

  // step.cc
  uint64_t begin(StepPlan& plan, CopyList& copies);
  void end(StepPlan& plan, CopyList& copies);
  bool commit_items(const StepPlan& plan, uint64_t step_id, bool usual, Guard& lock, FirstError& failure);
  void shrink_items(const StepPlan& plan, Guard& lock, FirstError& failure);
  void extend_items(StepPlan& plan, bool usual, CopyList& copies, Guard& lock, FirstError& failure);
  void close_lanes(const uint64_t* ids, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (Request* request = requests_.peek(ids[i]); request != nullptr) request->close_lane();
    }
  }
  uint64_t find_repeated(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end,
                         kvc_status* status);
  void commit_item(const StepPlan& plan, size_t i, kvc_status& status);
  kvc_status truncate_item(const StepPlan& plan, size_t i);
  void extend_item(StepPlan& plan, size_t i, kvc_status& status, CopyList& copies);
  kvc_status extend_request(const StepPlan& plan, size_t i, Request& request, const int32_t* tokens,
                            uint64_t first, uint64_t count, CopyList& copies);
  void admit_item(StepPlan& plan, size_t i, uint64_t* refused, CopyList& copies);
  void admit_all(StepPlan& plan, CopyList& copies, FirstError& failure);
  kvc_status build_item(StepPlan& plan, size_t i);
  kvc_status plan_item(StepPlan& plan, size_t i, Batch& batch) const;
  kvc_status explain_tokens(const StepPlan& plan, size_t i, kvc_status status) const;
  void count_refusal(StepPlan& plan, kvc_status status, uint64_t share, uint64_t* refused) const;

  // decode.cc
  bool is_usual(const StepPlan& plan) const;
  bool extend_usual(StepPlan& plan, size_t i);
  uint64_t decode(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end, kvc_status* status);
  template <bool kUsual>
  uint64_t decode_items(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end, kvc_status* status);
  void prefetch_items(const StepPlan& plan, size_t begin, uint64_t left);

  const Shape& shape_;
  Monitor& monitor_;
  Blocks& blocks_;
  Requests& requests_;
  TableRows& rows_;
  Memory& memory_;
  const SchedulerView view_{monitor_, blocks_, requests_};
  Marks item_marks_;  // by index of the request: its item in the step that is checked
  Marks row_marks_;   // by row: the item that writes it
  uint64_t assigned_ = 0;
  CopyList* executing_ = nullptr;
};

}  // namespace kvc
