// SPDX-License-Identifier: Apache-2.0
#include "manager/table_rows.h"

#include "manager/step.h"

namespace kvc {
namespace {

int32_t* row_of(const kvc_step& step, GroupIndex group, int32_t row) {
  return step.block_tables + (group * step.num_rows + static_cast<size_t>(row)) * step.row_stride;
}

void write_entry(kvc_step& step, GroupIndex group, int32_t row, size_t position, BlockId block) {
  const int32_t entry = is_block(block) ? raw(block) : step.fill_id;
  row_of(step, group, row)[position] = entry;
  // The room was checked before. This is for callers that drive one request from two threads, or use one row
  // in the steps of two threads without KVC_STEP_WHOLE_ROWS: then changes may be missing.
  if (step.changes != nullptr && step.num_changes < step.change_capacity)
    step.changes[step.num_changes++] = {static_cast<int32_t>(group), row, static_cast<int32_t>(position),
                                        entry};
}

}  // namespace

void TableRows::write_slots(const StepPlan& plan, size_t i, const Request* request, uint64_t first,
                            uint64_t count) const {
  const kvc_step& step = plan.step;
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    int64_t* slots = step.slots + g * step.slot_capacity + step.extend_offsets[i];
    const bool has_slots = request != nullptr && g < shape_.num_token_groups;
    for (uint64_t t = 0; t < count; ++t)
      slots[t] = has_slots ? slot_of(shape_, *request, g, static_cast<uint32_t>(first + t)) : -1;
  }
}

void TableRows::show(StepPlan& plan, size_t item, Request* request) {
  kvc_step& step = plan.step;
  if (step.num_blocks != nullptr) {
    for (size_t g = 0; g < shape_.num_groups; ++g) {
      step.num_blocks[g * plan.num_items() + item] =
          request == nullptr ? 0 : positions_in(shape_, *request, g);
    }
  }
  if (request == nullptr || !plan.writes_row(item) || request->positions > step.row_stride ||
      request->cross_positions > step.row_stride) {
    return;
  }
  const int32_t row = plan.row(item);
  const bool whole = (step.flags & KVC_STEP_WHOLE_ROWS) != 0 || !owns(*request, row);
  if (whole) {
    forget(*request);
    request->row = row;
    if (static_cast<size_t>(row) < owners_.size()) owners_[static_cast<size_t>(row)] = request->id;
  }
  for (uint32_t g = 0; g < shape_.num_groups; ++g) sync(plan, *request, g, row, whole);
}

void TableRows::show_last(StepPlan& plan, Request& request, int32_t row) {
  GroupTable& table = request.groups[0];
  write_entry(plan.step, 0, row, request.positions - 1, table.blocks.data[request.positions - 1]);
  table.set_synced(request.positions);
}

void TableRows::sync(StepPlan& plan, Request& request, GroupIndex group, int32_t row, bool whole) {
  kvc_step& step = plan.step;
  GroupTable& table = request.groups[group];
  const uint32_t positions = positions_in(shape_, request, group);
  if (!whole && table.in_sync(positions)) return;

  int32_t* out = row_of(step, group, row);
  const auto write = [&](size_t begin, size_t end) {
    for (size_t j = begin; j < end; ++j) write_entry(step, group, row, j, table.blocks.data[j]);
  };
  if (whole) {
    table.synced = 0;
    table.shown = static_cast<uint32_t>(step.row_stride);
  } else if (table.dropped > table.synced_dropped) {
    size_t begin = table.synced_dropped;
    if (begin < shape_.groups[group].sinks) begin = shape_.groups[group].sinks;
    const size_t end = table.dropped < table.synced ? table.dropped : table.synced;
    if (begin < end) write(begin, end);
  }
  write(table.synced, positions);
  for (size_t j = positions; j < table.shown; ++j) out[j] = step.fill_id;
  table.set_synced(positions);
}

}  // namespace kvc
