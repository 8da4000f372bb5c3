// SPDX-License-Identifier: Apache-2.0
// One kvc_manager_step with its arrays, refilled for each call and never reallocated. The engine waits for
// its kernels: each call retires the step before it, so no block waits for a step. A call commits every item,
// and extends all by one token or none. For one thread.
#pragma once
#include <kvcache/step.h>

#include <cstdint>
#include <span>
#include <vector>

#include "cli/library.h"

namespace kvcli {

class StepCall {
 public:
  /// row_stride: block table entries of the longest request, or 0 for no block tables.
  StepCall(uint32_t max_requests, uint64_t row_stride, bool want_slots);

  void clear() { num_frees_ = num_items_ = 0; }
  void add_free(uint64_t request) { frees_[num_frees_++] = request; }
  void add(uint64_t request, uint64_t committed, int32_t row, int32_t token = 0) {
    requests_[num_items_] = request;
    committed_[num_items_] = committed;
    rows_[num_items_] = row;
    tokens_[num_items_++] = token;
  }

  /// Commits all items, then frees requests.
  void commit(kvc_manager* manager, Stopwatch& watch) { run(manager, watch, false); }

  /// As commit, then extends each item by its token; has_space() says which items got a slot. Returns the
  /// seconds inside the library.
  double extend(kvc_manager* manager, Stopwatch& watch) { return run(manager, watch, true); }

  /// States that the kernels of the last step are done. For calls between two steps, which would else find
  /// its released blocks fenced.
  void retire(kvc_manager* manager) const {
    if (step_.step_id != 0) check(kvc_manager_retire_step(manager, step_.step_id));
  }

  bool has_space(size_t item) const { return status_[num_frees_ + item] == KVC_OK; }
  int64_t slot(size_t item) const { return slots_[item]; }
  std::span<const int32_t> table(int32_t row, size_t num_blocks) const {
    return {tables_.data() + static_cast<size_t>(row) * step_.row_stride, num_blocks};
  }

 private:
  double run(kvc_manager* manager, Stopwatch& watch, bool extending);
  void check_answers(bool extending) const;

  size_t num_frees_ = 0;
  size_t num_items_ = 0;
  std::vector<uint64_t> frees_, requests_, committed_, offsets_;
  std::vector<int32_t> tokens_, rows_, tables_;
  std::vector<int64_t> slots_;
  std::vector<kvc_status> status_;
  std::vector<kvc_block_copy> copies_;
  kvc_step step_ = make<kvc_step>();
};

}  // namespace kvcli
