// SPDX-License-Identifier: Apache-2.0
// What a step must satisfy before it changes anything: each request has its own row, and the arrays have room
// for all that the step may write. O(items), under the lock.
#include <algorithm>

#include "manager/step.h"
#include "manager/stepper.h"

namespace kvc {
namespace {

constexpr uint32_t kLeaving = 1u << 31;  // in item_marks_: the step also frees or preempts this request

}  // namespace

// The first item of each request, and whether the step also frees or preempts it.
void Stepper::mark_requests(const StepPlan& plan) {
  const kvc_step& step = plan.step;
  item_marks_.begin_round();
  for (size_t i = step.num_requests; i-- > 0;) {
    if (const Request* request = requests_.peek(step.requests[i]); request != nullptr)
      item_marks_.mark(requests_.table().index_of(*request), static_cast<uint32_t>(i));
  }
  const auto leave = [&](const uint64_t* ids, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const Request* request = requests_.peek(ids[i]);
      if (request == nullptr) continue;
      const uint32_t index = requests_.table().index_of(*request), item = item_marks_.item(index);
      if (item != Marks::kNone) item_marks_.mark(index, item | kLeaving);
    }
  };
  leave(step.frees, step.num_frees);
  leave(step.preempts, step.num_preempts);
}

// Two items in one row would overwrite each other. A request that this step frees or preempts writes no
// row, so an admission may use its row.
kvc_status Stepper::check_rows(const StepPlan& plan) {
  const kvc_step& step = plan.step;
  const size_t items = plan.num_items();
  if (step.rows == nullptr || step.block_tables == nullptr || items < 2) return KVC_OK;
  const int32_t* const rows = step.rows;
  uint32_t disorder = 0;  // vectorizes
  for (size_t i = 1; i < items; ++i) disorder |= rows[i - 1] >= rows[i];
  if (disorder == 0) return KVC_OK;  // the usual case: increasing
  int32_t highest = rows[0];
  for (size_t i = 1; i < items; ++i) highest = rows[i] > highest ? rows[i] : highest;
  if (highest < 0) return KVC_OK;
  if (!row_marks_.grow(memory_, static_cast<size_t>(highest) + 1))
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory to compare rows up to %d", highest);

  const auto id_of = [&](size_t item) -> uint64_t {
    if (item < step.num_requests) return step.requests[item];
    return step.admit_requests == nullptr ? 0 : step.admit_requests[item - step.num_requests];
  };
  const auto writes = [&](size_t item) {
    if (item >= step.num_requests) return true;
    const Request* request = requests_.peek(step.requests[item]);
    return request != nullptr && request->admitted &&
           (item_marks_.item(requests_.table().index_of(*request)) & kLeaving) == 0;
  };
  row_marks_.begin_round();
  bool marked = false;
  for (size_t i = 0; i < items; ++i) {
    if (step.rows[i] < 0) continue;
    const auto row = static_cast<size_t>(step.rows[i]);
    if (const uint32_t other = row_marks_.item(row); other != Marks::kNone) [[unlikely]] {
      if (!marked) mark_requests(plan);
      marked = true;
      if (!writes(i)) continue;
      if (writes(other) && (id_of(i) == 0 || id_of(i) != id_of(other))) {
        return fail(
            KVC_ERROR_INVALID_ARGUMENT,
            "items %u and %zu both write row %zu of block_tables; give each its own row, or -1 for none",
            other, i, row);
      }
    }
    row_marks_.mark(row, static_cast<uint32_t>(i));
  }
  return KVC_OK;
}

// The highest capacity of a request once item i is extended. Known tokens may be far ahead of the capacity:
// the rest of a prompt that is computed in chunks, or tokens that the same item commits.
uint64_t Stepper::extension_end(const StepPlan& plan, size_t i, const Request& request) const {
  const uint64_t count = plan.extension(i);
  if (plan.step.extend_tokens == nullptr) return request.capacity + count;
  return requests_.capacity_for(request, request.known + plan.commit_tokens(i) + count);
}

// Table entries that the step may write at most. Rows of requests that are cut in the same step count
// whole.
size_t Stepper::bound_changes(const StepPlan& plan) {
  const kvc_step& step = plan.step;
  if (step.admit_requests != nullptr) mark_requests(plan);
  const bool any_whole =
      (step.flags & KVC_STEP_WHOLE_ROWS) != 0 || step.num_truncates != 0 || step.num_preempts != 0;
  size_t bound = 0;
  for (size_t i = 0; i < step.num_requests; ++i) {
    const Request* request = requests_.peek(step.requests[i]);
    if (request == nullptr || !plan.writes_row(i)) continue;
    const uint64_t end = plan.extension(i) == 0 ? request->capacity : extension_end(plan, i, *request);
    const uint64_t grown = ceil_div(end, shape_.block_size);
    const uint64_t positions = (grown > request->positions ? grown : request->positions) + 1;  // and a copy
    const bool whole = any_whole || !rows_.owns(*request, plan.row(i));
    const uint64_t committed = step.committed == nullptr ? 0 : step.committed[i];
    const uint64_t tokens = committed < end ? committed : end;  // more are refused
    for (uint32_t g = 0; g < shape_.num_groups; ++g) {
      const GroupTable& table = request->groups[g];
      if (g >= shape_.num_token_groups) {  // shown at once, or not at all
        if (whole || !table.in_sync(request->cross_positions)) bound += request->cross_positions;
        continue;
      }
      uint64_t entries = positions;
      const uint32_t dropped = table.dropped - table.synced_dropped;
      if (!whole && table.synced > dropped) entries -= table.synced - dropped;
      const uint64_t start = shape_.dropped_after(g, static_cast<uint32_t>(tokens));
      if (start > table.dropped) entries += start - table.dropped;
      bound += entries < step.row_stride ? entries : step.row_stride;
    }
  }
  for (size_t i = 0; i < step.num_admissions; ++i) {
    if (!plan.writes_row(step.num_requests + i)) continue;
    uint64_t tokens = 0;
    uint32_t headroom = 0;  // which may take the whole row
    uint64_t encoder;       // tokens
    if (step.admit_requests != nullptr && step.admit_requests[i] != 0) {
      const Request* request = requests_.peek(step.admit_requests[i]);
      if (request == nullptr) continue;
      // Its item may add tokens before the step preempts it.
      const uint32_t item = item_marks_.item(requests_.table().index_of(*request));
      const uint64_t learned = item == Marks::kNone ? 0 : plan.commit_tokens(item & ~kLeaving);
      tokens = requests_.capacity_for(*request, request->known + learned);
      headroom = request->headroom;
      encoder = request->cross_tokens;
    } else {
      tokens = step.admit_offsets[i + 1] - step.admit_offsets[i] + plan.config(i).lookahead;
      headroom = plan.config(i).headroom;
      encoder = plan.config(i).cross_tokens;
    }
    const uint64_t entries =
        headroom != KVC_HEADROOM_NONE ? step.row_stride : ceil_div(tokens, shape_.block_size);
    bound += shape_.num_token_groups * std::min<uint64_t>(entries, step.row_stride) +
             (shape_.num_groups - shape_.num_token_groups) *
                 std::min<uint64_t>(ceil_div(encoder, shape_.block_size), step.row_stride);
  }
  return bound;
}

// Copies that the step's admissions may make in each group.
size_t Stepper::admission_copies(const StepPlan& plan) const {
  size_t copies = 0;
  requests_.features.each([&](const auto& feature) { feature.add_copies(&copies); });
  return copies * plan.step.num_admissions;
}

// Copies that the step may make at most.
size_t Stepper::bound_copies(const StepPlan& plan) const {
  const kvc_step& step = plan.step;
  size_t bound = shape_.num_groups * admission_copies(plan);
  for (size_t i = 0; i < step.num_requests; ++i) {
    const Request* request = requests_.peek(step.requests[i]);
    if (request != nullptr && plan.extension(i) != 0 && (request->tail_shared || step.num_truncates != 0)) {
      bound += shape_.num_token_groups;
    }
  }
  return bound;
}

kvc_status Stepper::check(const StepPlan& plan) {
  kvc_step& step = plan.step;
  if (step.retired_step > assigned_) {
    return invalid("retired_step %llu was not issued; the newest is %llu", ull(step.retired_step),
                   ull(assigned_));
  }
  if (step.now_ns != 0) KVC_TRY(blocks_.cached.check_time(step.now_ns));
  KVC_TRY(check_rows(plan));
  const size_t copying = step.num_requests + admission_copies(plan);
  if (step.copy_capacity < shape_.num_groups * copying) {
    const size_t needed = bound_copies(plan);
    if (needed > step.copy_capacity) {
      step.num_copies = needed;
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the step may make %zu copies, copy_capacity is %zu", needed,
                  step.copy_capacity);
    }
  }
  const bool surely_enough =
      step.row_stride != 0 && step.change_capacity / shape_.num_groups / step.row_stride >= plan.num_items();
  if (step.changes != nullptr && step.block_tables != nullptr && !surely_enough) {
    const size_t needed = bound_changes(plan);
    if (needed > step.change_capacity) {
      step.num_changes = needed;
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the step may change %zu table entries, change_capacity is %zu",
                  needed, step.change_capacity);
    }
  }
  return KVC_OK;
}

}  // namespace kvc
