// SPDX-License-Identifier: Apache-2.0
// The arrays of one plan, and of the steps of the manager that it makes.
#pragma once
#include <algorithm>

#include "scheduler/job.h"
#include "scheduler/options.h"

namespace kvc {

// Tokens of a job that a plan may compute.
struct Share {
  JobIndex job;
  uint32_t num_tokens, num_drafts;
  uint32_t inputs_end;  // the encoder inputs before it, from Job::next_input on, are needed
  kvc_status status;    // of the last attempt to get slots
};

struct PlanSet {
  uint64_t plan_id = 0, step_id = 0;
  bool whole_tables = false;
  bool lacks_blocks = false;  // something that runs is not planned, because it lacks blocks
  size_t num_items = 0, num_preempted = 0, num_ended = 0, num_runs = 0, num_copies = 0, num_changes = 0;
  Array<uint64_t> requests, first_tokens, token_offsets, preempted;
  Array<int32_t> rows;
  Array<uint32_t> num_drafts, admissions;  // admissions: Job::admission
  Array<uint8_t> samples, is_new;
  Array<int64_t> slots;
  Array<kvc_block_copy> copies;
  Array<kvc_table_change> changes;
  Array<kvc_encoder_run> runs;
  Array<kvc_ended_request> ended;

  // With room for as many changes as rows have entries a step need not count what it may write. Pages of
  // memory that are not used cost nothing.
  [[nodiscard]] bool create(Memory& memory, size_t max_running, size_t max_tokens, size_t num_groups,
                            size_t block_size, size_t row_stride) {
    const size_t entries = std::min(num_groups * max_running * row_stride, size_t{1} << 22);
    return requests.create(memory, max_running) && first_tokens.create(memory, max_running) &&
           token_offsets.create(memory, max_running + 1) && preempted.create(memory, max_running) &&
           rows.create(memory, max_running) && num_drafts.create(memory, max_running) &&
           admissions.create(memory, max_running) && samples.create(memory, max_running) &&
           is_new.create(memory, max_running) && slots.create(memory, num_groups * max_tokens) &&
           copies.create(memory, num_groups * 4 * max_running) &&
           changes.create(memory,
                          entries + num_groups * (4 * max_running + 2 * max_tokens / block_size + 1024)) &&
           runs.create(memory, KVC_MAX_KEYS_OF_TOKEN * max_tokens) && ended.create(memory, max_running);
  }
  void begin() {
    whole_tables = lacks_blocks = false;
    num_items = num_preempted = num_ended = num_runs = num_copies = num_changes = 0;
    token_offsets[0] = 0;
  }
  // The slots of the items' tokens, from the tables of all rows; and all that the plan says of it.
  void write_slots(const SchedulerOptions& options, const int32_t* tables);
  void fill(const SchedulerOptions& options, const int32_t* tables, kvc_plan* out) const;
};

// Inputs and results of a step.
struct StepArrays {
  size_t num_items = 0, num_frees = 0;
  Array<uint64_t> frees, requests, committed, commit_offsets, extend_offsets;
  Array<uint64_t> one_each;  // 0, 1, ...: offsets of items with one token each
  Array<int32_t> commit_tokens, extend_tokens, rows;
  Array<kvc_status> status;

  [[nodiscard]] bool create(Memory& memory, size_t max_running, size_t max_untold) {
    const bool made =
        frees.create(memory, max_running) && requests.create(memory, max_running) &&
        committed.create(memory, max_running) && commit_offsets.create(memory, max_running + 1) &&
        extend_offsets.create(memory, max_running + 1) && one_each.create(memory, max_running + 1) &&
        commit_tokens.create(memory, max_running * max_untold) && extend_tokens.create(memory, max_running) &&
        rows.create(memory, max_running + 1) && status.create(memory, 2 * max_running + 2);
    for (size_t i = 0; made && i < one_each.size(); ++i) one_each[i] = i;
    return made;
  }
  void begin() {
    num_items = num_frees = 0;
    commit_offsets[0] = extend_offsets[0] = 0;
  }
};

}  // namespace kvc
