// SPDX-License-Identifier: Apache-2.0
// The usual decode step: requests whose next token stays inside their last block, by their open lanes
// (request.h), and what is fetched ahead for the others.
#include "manager/step.h"
#include "manager/stepper.h"

namespace kvc {
namespace {

constexpr size_t kPrefetch = 8;  // requests ahead
constexpr size_t kTailPrefetch = 4;

}  // namespace

// Fetches ahead what growing touches in the items that decode_items() left.
void Stepper::prefetch_items(const StepPlan& plan, size_t begin, size_t end, const kvc_status* status) {
  const auto for_each = [&](auto&& function) {
    for (size_t i = begin; i < end; ++i) {
      if (status[i] == kDecoded) continue;
      Request* request = view_.peek(plan.step.requests[i]);
      if (request != nullptr && request->admitted) function(*request);
    }
  };
  for_each([&](const Request& request) { view_.prefetch_growth(request); });
  for_each([&](Request& request) { view_.prefetch_publication(request); });
}

// Commits and extends the items of [begin, end) that stay inside a block, and returns how many these were.
// They touch nothing that another item can see, so their commit and extension need not be phases of their
// own.
size_t Stepper::decode_items(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end,
                             kvc_status* status) {
  size_t decoded = 0;
  const kvc_step step = plan.step;  // copies: what is written below cannot change them
  const SchedulerView view = view_;
  const RequestTable::Records records = view.records();
  const uint32_t vocab_size = shape_.vocab_size;
  const size_t num_items = plan.num_items();
  const uint32_t num_groups = shape_.num_groups, num_token_groups = shape_.num_token_groups;
  const auto stays_inside = [&](const Request& request, size_t i) {
    const uint64_t offset = step.extend_offsets[i];
    if (step.extend_offsets[i + 1] - offset != 1 || !request.lane_takes_token() ||
        !token_in_range(step.extend_tokens[offset], vocab_size))
      return false;
    if (step.committed != nullptr && !request.lane_commits(step.committed[i])) return false;
    const int32_t row = step.rows == nullptr ? static_cast<int32_t>(i) : step.rows[i];
    return step.block_tables == nullptr || row < 0 ||
           (rows_.owns(request, row) && request.positions <= step.row_stride &&
            (num_groups == num_token_groups || request.cross_positions <= step.row_stride));
  };
  for (size_t i = begin; i < end; ++i) {
    if (i + kPrefetch < step.num_requests) RequestTable::prefetch(records, step.requests[i + kPrefetch]);
    if (i + kTailPrefetch < step.num_requests)
      RequestTable::prefetch_tail(records, step.requests[i + kTailPrefetch]);
    Request* const found = records.find(step.requests[i]);
    if (found == nullptr) continue;
    Request& request = *found;
    if (request.stepped == step_id) [[unlikely]] {
      status[i] = kRepeated;
      continue;
    }
    request.stepped = step_id;
    if (!stays_inside(request, i)) {
      view.table().prefetch_growth(request);
      continue;
    }
    const uint64_t offset = step.extend_offsets[i];
    const uint32_t token = request.known;
    if (step.committed != nullptr) view.lane_commit(request, step.committed[i]);
    request.lane_append(step.extend_tokens[offset]);
    status[i] = kDecoded;
    ++decoded;
    if (step.slots != nullptr) {
      if (num_groups == 1) {
        step.slots[offset] = request.slot_base + token;
      } else {
        rows_.write_slots(plan, i, &request, token, 1);
      }
    }
    if (step.num_blocks != nullptr) {
      for (size_t g = 0; g < num_token_groups; ++g) step.num_blocks[g * num_items + i] = request.positions;
      for (size_t g = num_token_groups; g < num_groups; ++g)
        step.num_blocks[g * num_items + i] = request.cross_positions;
    }
  }
  if (decoded != end - begin) prefetch_items(plan, begin, end, status);
  return decoded;
}

}  // namespace kvc
