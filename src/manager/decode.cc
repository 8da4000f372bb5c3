// SPDX-License-Identifier: Apache-2.0
// The usual decode step: requests whose next token stays inside their last block, by their open lanes
// (request.h), and what is fetched ahead for the others.
#include <algorithm>

#include "manager/step.h"
#include "manager/stepper.h"

namespace kvc {
namespace {

// One group, and all arrays that a decode step may have.
bool has_usual_arrays(const Shape& shape, const kvc_step& step) {
  return shape.num_groups == 1 && step.committed != nullptr && step.rows != nullptr &&
         step.block_tables != nullptr && step.slots != nullptr && step.num_blocks != nullptr;
}

// The arrays of a step, from the item `begin` on. Copies: what is written cannot change them.
struct Slice {
  Slice(const kvc_step& step, size_t begin)
      : requests(from(step.requests, begin)),
        committed(from(step.committed, begin)),
        offsets(from(step.extend_offsets, begin)),
        rows(from(step.rows, begin)),
        num_blocks(from(step.num_blocks, begin)),
        tokens(step.extend_tokens),
        slots(step.slots) {}
  template <typename T>
  static T* from(T* array, size_t begin) {
    return array == nullptr ? nullptr : array + begin;
  }

  const uint64_t *const requests, *const committed, *const offsets;
  const int32_t* const rows;
  uint64_t* const num_blocks;
  const int32_t* const tokens;  // whole, by offset
  int64_t* const slots;
};

// All are looked up first: this is what waits for memory, and here no item waits for another one.
inline void look_up(RequestTable::Records records, const uint64_t* ids, size_t count, Request** found) {
  for (size_t i = 0; i < count; ++i) {
    found[i] = records.find(ids[i]);
    if (found[i] != nullptr) __builtin_prefetch(found[i]->next_token, 1);
  }
}

}  // namespace

// Whether the two below may be tried for its items.
bool Stepper::is_usual(const StepPlan& plan) const {
  return plan.may_decode() && shape_.is_plain() && has_usual_arrays(shape_, plan.step);
}

// Extends a committed item by one token, with a block if need be. False: nothing has changed, and
// extend_item() does it.
bool Stepper::extend_usual(StepPlan& plan, size_t i) {
  kvc_step& step = plan.step;
  Request* const request = requests_.peek(step.requests[i]);
  const uint64_t offset = step.extend_offsets[i];
  const int32_t row = step.rows[i];
  if (request == nullptr || step.extend_offsets[i + 1] - offset != 1 ||
      !token_in_range(step.extend_tokens[offset], shape_.vocab_size))
    return false;
  const uint32_t positions = request->positions;
  if (row < 0 ? request->row >= 0
              : !rows_.owns(*request, row) || !request->groups[0].in_sync(positions) ||
                    positions >= step.row_stride)
    return false;
  const int64_t slot = requests_.append_usual(*request, step.extend_tokens[offset]);
  if (slot < 0) return false;
  step.slots[offset] = slot;
  step.num_blocks[i] = request->positions;
  if (row >= 0 && request->positions != positions) rows_.show_last(plan, *request, row);
  return true;
}

// Fetches ahead what growing touches in the items that decode_items() left.
void Stepper::prefetch_items(const StepPlan& plan, size_t begin, uint64_t left) {
  const auto for_each = [&](auto&& function) {
    for (const uint32_t bit : bits_of(left)) {
      Request* request = requests_.peek(plan.step.requests[begin + bit]);
      if (request != nullptr && request->admitted) function(*request);
    }
  };
  for_each([&](const Request& request) { requests_.prefetch_growth(request); });
  for_each([&](Request& request) { requests_.publications.prefetch(request); });
}

// Commits and extends the items of [begin, end) that stay inside a block, and returns a bit for each of the
// others. They touch nothing that another item can see, so their commit and extension need not be phases of
// their own. `kUsual`: has_usual_arrays().
template <bool kUsual>
uint64_t Stepper::decode_items(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end,
                               kvc_status* status) {
  uint64_t left = 0;
  const kvc_step& step = plan.step;
  const TableRows::Owners owners = rows_.owners();
  const Slice of(step, begin);
  const size_t num_items = plan.num_items(), row_stride = step.row_stride;
  const uint32_t num_groups = kUsual ? 1 : shape_.num_groups;
  const uint32_t num_token_groups = kUsual ? 1 : shape_.num_token_groups;
  const uint32_t last_token = std::min<uint32_t>(shape_.vocab_size - 1, INT32_MAX);  // 0 = no limit
  const bool has_rows = kUsual || step.block_tables != nullptr;
  const auto row_stays = [&](const Request& request, int32_t row) {
    return row < 0 || (owners.owns(request, row) && request.positions <= row_stride &&
                       (num_groups == num_token_groups || request.cross_positions <= row_stride));
  };

  Request* found[kSlice];
  look_up(requests_.records(), of.requests, end - begin, found);
  for (size_t i = 0; i < end - begin; ++i) {
    if (found[i] == nullptr) [[unlikely]] {
      left |= uint64_t{1} << i;
      continue;
    }
    Request& request = *found[i];
    const uint64_t offset = of.offsets[i];
    const uint64_t committed = kUsual || of.committed != nullptr ? of.committed[i] : request.committed;
    const bool stays_inside =
        request.stepped != step_id && of.offsets[i + 1] - offset == 1 && request.lane_takes_token() &&
        static_cast<uint32_t>(of.tokens[offset]) <= last_token && request.lane_allows(committed) &&
        (!has_rows ||
         row_stays(request, kUsual || of.rows != nullptr ? of.rows[i] : static_cast<int32_t>(begin + i)));
    if (!stays_inside) [[unlikely]] {
      left |= uint64_t{1} << i;
      if (request.stepped == step_id) status[begin + i] = kRepeated;
      request.stepped = step_id;
      requests_.table().prefetch_growth(request);
      continue;
    }
    request.stepped = step_id;
    const uint32_t token = request.known;
    requests_.lane_commit(request, committed);
    request.lane_append(of.tokens[offset]);
    if (kUsual || of.slots != nullptr) {
      if (num_groups == 1) {
        of.slots[offset] = request.slot_base + token;
      } else {
        rows_.write_slots(plan, begin + i, &request, token, 1);
      }
    }
    if (kUsual) {
      of.num_blocks[i] = request.positions;
    } else if (of.num_blocks != nullptr) {
      for (size_t g = 0; g < num_groups; ++g)
        of.num_blocks[g * num_items + i] = g < num_token_groups ? request.positions : request.cross_positions;
    }
  }
  if (left != 0) prefetch_items(plan, begin, left);
  return left;
}

uint64_t Stepper::decode(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end,
                         kvc_status* status) {
  return has_usual_arrays(shape_, plan.step) ? decode_items<true>(plan, step_id, begin, end, status)
                                             : decode_items<false>(plan, step_id, begin, end, status);
}

}  // namespace kvc
