// SPDX-License-Identifier: Apache-2.0
// Block tables and slots: the rows that steps keep up to date, whole tables and slots for single calls, and
// what the engine has to do before it writes: copies that single calls have asked for, blocks to clear.
#include "manager/guard.h"
#include "manager/step.h"

namespace kvc {

// Slot of a token that has a position; -1 if its block was returned.
int64_t Manager::slot_of(const Request& request, uint32_t group, uint32_t token) const {
  const uint32_t position = shape_.by_block.divide(token);
  const BlockId block = request.groups[group].blocks.data[position];
  if (!is_block(block)) return -1;
  return int64_t{raw(block)} * shape_.block_size + (token - position * shape_.block_size);
}

// The row that the request was in is not kept up to date any more.
void Manager::forget_row(Request& request) {
  if (owns_row(request, request.row)) row_owners_[static_cast<size_t>(request.row)] = 0;
  request.row = -1;
}

// Slots of tokens [first, first + count) of item i; -1 if it failed.
void Manager::write_slots(const StepPlan& plan, size_t i, const Request* request, uint64_t first,
                          uint64_t count) {
  const kvc_step& step = plan.step;
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    int64_t* slots = step.slots + g * step.slot_capacity + step.extend_offsets[i];
    for (uint64_t t = 0; t < count; ++t)
      slots[t] = request == nullptr ? -1 : slot_of(*request, g, static_cast<uint32_t>(first + t));
  }
}

// Brings the item's row up to date and says how long it is.
void Manager::show(StepPlan& plan, size_t item, Request* request) {
  kvc_step& step = plan.step;
  if (step.num_blocks != nullptr) {
    for (size_t g = 0; g < shape_.num_groups; ++g) {
      step.num_blocks[g * plan.num_items() + item] = request == nullptr ? 0 : request->positions;
    }
  }
  if (request == nullptr || !plan.writes_row(item) || request->positions > step.row_stride) return;
  const int32_t row = plan.row(item);
  const bool whole = (step.flags & KVC_STEP_WHOLE_ROWS) != 0 || !owns_row(*request, row);
  if (whole) {
    forget_row(*request);
    request->row = row;
    if (static_cast<size_t>(row) < row_owners_.size()) row_owners_[static_cast<size_t>(row)] = request->id;
  }
  for (uint32_t g = 0; g < shape_.num_groups; ++g) sync_row(plan, *request, g, row, whole);
}

void Manager::sync_row(StepPlan& plan, Request& request, uint32_t group, int32_t row, bool whole) {
  kvc_step& step = plan.step;
  GroupTable& table = request.groups[group];
  const uint32_t positions = request.positions;
  if (!whole && table.synced == positions && table.shown == positions &&
      table.synced_dropped == table.dropped)
    return;

  int32_t* out = step.block_tables + (group * step.num_rows + static_cast<size_t>(row)) * step.row_stride;
  const auto write = [&](size_t begin, size_t end) {
    for (size_t j = begin; j < end; ++j) {
      const BlockId block = table.blocks.data[j];
      out[j] = is_block(block) ? raw(block) : step.fill_id;
      // The room was checked before. This is for callers that drive one request from two threads, or use one
      // row in the steps of two threads without KVC_STEP_WHOLE_ROWS: then changes may be missing.
      if (step.changes != nullptr && step.num_changes < step.change_capacity) {
        step.changes[step.num_changes++] = {static_cast<int32_t>(group), row, static_cast<int32_t>(j),
                                            out[j]};
      }
    }
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
  table.synced = table.shown = positions;
  table.synced_dropped = table.dropped;
}

kvc_status Manager::export_tables(const uint64_t* ids, size_t num_ids, uint32_t group, int32_t fill_id,
                                  int32_t* tables, size_t row_stride) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < num_ids; ++i) {
    Request* request = nullptr;
    KVC_TRY(find_request(ids[i], false, &request));
    if (request->positions > row_stride) {
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "request %zu has a table of %u blocks, rows have room for %zu",
                  i, request->positions, row_stride);
    }
  }
  for (size_t i = 0; i < num_ids; ++i) {
    const Request& request = *requests_.find(ids[i]);
    const BlockId* blocks = request.groups[group].blocks.data;
    int32_t* row = tables + i * row_stride;
    for (size_t j = 0; j < request.positions; ++j) row[j] = is_block(blocks[j]) ? raw(blocks[j]) : fill_id;
    for (size_t j = request.positions; j < row_stride; ++j) row[j] = fill_id;
  }
  return KVC_OK;
}

kvc_status Manager::export_slots(uint64_t id, uint32_t group, uint64_t first_token, uint64_t num_tokens,
                                 void* slots, size_t element_size) {
  const std::lock_guard lock(mutex_);
  Request* request = nullptr;
  KVC_TRY(find_request(id, false, &request));
  if (num_tokens > request->capacity || first_token > request->capacity - num_tokens) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "tokens %llu + %llu are past the capacity, %u",
                static_cast<unsigned long long>(first_token), static_cast<unsigned long long>(num_tokens),
                request->capacity);
  }
  const uint64_t largest = pool_.num_ids() * shape_.block_size - 1;
  if (element_size == 4 && largest > INT32_MAX) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "slots go up to %llu and do not fit int32; use element_size 8",
                static_cast<unsigned long long>(largest));
  }
  for (uint64_t i = 0; i < num_tokens; ++i) {
    const int64_t slot = slot_of(*request, group, static_cast<uint32_t>(first_token + i));
    if (element_size == 4) {
      static_cast<int32_t*>(slots)[i] = static_cast<int32_t>(slot);
    } else {
      static_cast<int64_t*>(slots)[i] = slot;
    }
  }
  return KVC_OK;
}

kvc_status Manager::take_pending(kvc_pending_work* work) {
  const Guard lock(*this);
  work->num_copies = num_copies_;
  work->num_zero_blocks = zeroing_.count();
  if (num_copies_ > work->copy_capacity || zeroing_.count() > work->zero_capacity) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL,
                "%zu copies and %zu blocks to clear are pending; the arrays have room for %zu and %zu",
                num_copies_, zeroing_.count(), work->copy_capacity, work->zero_capacity);
  }
  for (size_t i = 0; i < num_copies_; ++i) {
    work->copies[i] = copies_.data[i];
    const BlockId source{copies_.data[i].source};
    if (pool_.drop_ref(pool_[source])) place(source);
  }
  num_copies_ = 0;
  if (zeroing_.count() != 0)
    std::memcpy(work->zero_blocks, zeroing_.blocks(), zeroing_.count() * sizeof(int32_t));
  zeroing_.clear_list();
  return KVC_OK;
}

}  // namespace kvc
