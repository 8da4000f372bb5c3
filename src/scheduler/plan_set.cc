// SPDX-License-Identifier: Apache-2.0
#include "scheduler/plan_set.h"

#include <algorithm>

namespace kvc {

void PlanSet::write_slots(const SchedulerOptions& options, const int32_t* tables) {
  const uint32_t block_size = options.block_size;
  for (size_t g = 0; g < options.num_groups; ++g) {
    int64_t* out = slots.data() + g * options.max_tokens;
    if (g >= options.num_token_groups) {
      std::fill_n(out, token_offsets[num_items], -1);
      continue;
    }
    for (size_t i = 0; i < num_items; ++i) {
      const int32_t* const row =
          tables + (g * options.max_running + static_cast<size_t>(rows[i])) * options.row_stride;
      const auto first = static_cast<uint32_t>(first_tokens[i]);
      uint32_t column = first / block_size, offset = first % block_size;
      for (uint64_t left = token_offsets[i + 1] - token_offsets[i]; left != 0; --left, ++offset) {
        if (offset == block_size) offset = 0, ++column;
        *out++ = row[column] < 0 ? -1 : int64_t{row[column]} * block_size + offset;
      }
    }
  }
}

void PlanSet::fill(const SchedulerOptions& options, const int32_t* tables, kvc_plan* out) const {
  out->plan_id = plan_id;
  out->step_id = step_id;
  out->num_items = num_items;
  out->num_tokens = static_cast<size_t>(token_offsets[num_items]);
  out->requests = requests.data();
  out->rows = rows.data();
  out->first_tokens = first_tokens.data();
  out->token_offsets = token_offsets.data();
  out->num_drafts = num_drafts.data();
  out->samples = samples.data();
  out->is_new = is_new.data();
  out->block_tables = tables;
  out->num_groups = options.num_groups;
  out->num_rows = options.max_running;
  out->row_stride = options.row_stride;
  out->slots = slots.data();
  out->slot_stride = options.max_tokens;
  out->copies = copies.data();
  out->num_copies = num_copies;
  out->changes = changes.data();
  out->num_changes = num_changes;
  out->whole_tables = whole_tables;
  out->preempted = preempted.data();
  out->num_preempted = num_preempted;
  out->encoder_runs = runs.data();
  out->num_encoder_runs = num_runs;
  out->ended = ended.data();
  out->num_ended = num_ended;
}

}  // namespace kvc
