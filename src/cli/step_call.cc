// SPDX-License-Identifier: Apache-2.0
// Arrays that a call does not need are NULL, which saves the library their work.
#include "cli/step_call.h"

#include <numeric>

namespace kvcli {

StepCall::StepCall(uint32_t max_requests, uint64_t row_stride, bool want_slots)
    : frees_(max_requests),
      requests_(max_requests),
      committed_(max_requests),
      offsets_(size_t{max_requests} + 1),
      tokens_(max_requests),
      rows_(max_requests),
      tables_(size_t{max_requests} * row_stride, -1),
      slots_(want_slots ? max_requests : 0),
      status_(size_t{2} * max_requests),
      copies_(max_requests) {
  std::iota(offsets_.begin(), offsets_.end(), uint64_t{0});  // One token each.
  step_.fill_id = -1;
  step_.frees = frees_.data();
  step_.requests = requests_.data();
  step_.committed = committed_.data();
  step_.status = status_.data();
  step_.copies = copies_.data();
  step_.copy_capacity = copies_.size();
  step_.row_stride = row_stride;
}

double StepCall::run(kvc_manager* manager, Stopwatch& watch, bool extending) {
  const bool with_tables = extending && !tables_.empty();
  step_.num_frees = num_frees_;
  step_.num_requests = num_items_;
  step_.extend_offsets = extending ? offsets_.data() : nullptr;
  step_.extend_tokens = extending ? tokens_.data() : nullptr;
  step_.slots = extending && !slots_.empty() ? slots_.data() : nullptr;
  step_.slot_capacity = extending ? slots_.size() : 0;
  step_.rows = with_tables ? rows_.data() : nullptr;
  step_.block_tables = with_tables ? tables_.data() : nullptr;
  step_.num_rows = with_tables ? tables_.size() / step_.row_stride : 0;

  watch.start();
  const kvc_status status = kvc_manager_step(manager, &step_);
  const double seconds = watch.stop();

  check(status);
  step_.retired_step = step_.step_id;
  check_answers(extending);
  return seconds;
}

void StepCall::check_answers(bool extending) const {
  for (size_t i = 0; i < num_frees_ + num_items_; ++i) {
    const kvc_status status = status_[i];
    if (status == KVC_OK) continue;
    const bool no_space = extending && i >= num_frees_ && status == KVC_ERROR_NO_SPACE;
    if (!no_space)
      throw LibraryError(std::string("kvc_manager_step: an item got ") + kvc_status_name(status));
  }
  if (step_.num_copies != 0)
    throw LibraryError("kvc_manager_step: asked for copies though no block is shared");
}

}  // namespace kvcli
