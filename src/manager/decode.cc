// SPDX-License-Identifier: Apache-2.0
// The usual decode step: requests whose next token stays inside their last block, by their open lanes
// (request.h), and what is fetched ahead for the others.
#include "manager/manager.h"
#include "manager/step.h"

namespace kvc {
namespace {

constexpr size_t kPrefetch = 8;  // requests ahead
constexpr size_t kTailPrefetch = 4;

}  // namespace

// The numbers by which the next tokens of the request's last block can be appended and committed, if its row
// is up to date.
void Manager::open_lane(Request& request) {
  request.close_lane();
  if (!request.admitted || request.known == 0 || request.tail_shared || request.lookahead >= request.room)
    return;
  for (uint32_t g = 0; g < shape_.num_groups && request.row >= 0; ++g) {
    const GroupTable& table = request.groups[g];
    if (table.synced != request.positions || table.shown != request.positions ||
        table.synced_dropped != table.dropped)
      return;
  }
  const uint32_t position = shape_.by_block.divide(request.known - 1);
  if (position >= request.positions) return;
  uint64_t commit_limit = request.next_full - 1;
  for (uint32_t windows = shape_.window_groups; windows != 0; windows &= windows - 1) {
    const auto g = static_cast<uint32_t>(__builtin_ctz(windows));
    const uint64_t dropping = uint64_t{request.groups[g].dropped + 1} * shape_.block_size +
                              shape_.groups[g].window - 1;  // the count that would return a block
    if (commit_limit >= dropping) commit_limit = dropping - 1;
  }
  uint64_t append_limit = uint64_t{position + 1} * shape_.block_size;
  if (append_limit > request.room - request.lookahead) append_limit = request.room - request.lookahead;
  if (append_limit > uint64_t{request.tail_base} + request.tail.capacity)
    append_limit = uint64_t{request.tail_base} + request.tail.capacity;
  request.append_limit = static_cast<uint32_t>(append_limit);
  request.next_token = request.tail.data + (request.known - request.tail_base);
  request.commit_limit = static_cast<uint32_t>(commit_limit);
  request.slot_base = (int64_t{raw(request.groups[0].blocks.data[position])} - position) * shape_.block_size;
}

// The first committed tokens of blocks up to the committed count.
void Manager::mark_committed(Request& request) {
  const size_t last = shape_.by_block.divide_up(request.committed);
  for (uint32_t g = 0; g < shape_.num_groups; ++g) {
    const BlockId* blocks = request.groups[g].blocks.data;
    for (size_t j = request.marked / shape_.block_size; j < last; ++j) pool_.mark_written(pool_[blocks[j]]);
  }
  request.marked = static_cast<uint32_t>(last * shape_.block_size);
}

// The items that decode_items left: fetches what their growth touches, far enough ahead of it. A block that
// this step probably publishes is hashed here, so that its bucket is there in time.
void Manager::prefetch_items(const StepPlan& plan, size_t begin, size_t end, const kvc_status* status) {
  const auto for_each = [&](auto&& function) {
    for (size_t i = begin; i < end; ++i) {
      if (status[i] == kDecoded) continue;
      Request* request = requests_.find(plan.step.requests[i]);
      if (request != nullptr && request->admitted) function(*request);
    }
  };
  for_each([&](const Request& request) {
    if (is_node(request.cursor)) tree_.prefetch_node(request.cursor);
    __builtin_prefetch(request.token(uint64_t{request.published} * shape_.block_size), 1);
    __builtin_prefetch(request.groups[0].blocks.data + request.positions, 1);
  });
  for_each([&](Request& request) {
    if (request.known < request.next_full || request.published < request.num_hashes) return;
    hash_next(request, request.published);
    tree_.prefetch_bucket(request.chain);
  });
}

// Items of [begin, end) that commit and extend inside a block. They touch nothing that another item could
// see, so that it makes no difference that the phases of a step run together here. The others are left as
// they are. Returns how many they were.
size_t Manager::decode_items(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end,
                             kvc_status* status) {
  size_t decoded = 0;
  const kvc_step step = plan.step;  // a copy: what is written below cannot change it
  const size_t num_items = plan.num_items();
  const uint32_t num_groups = shape_.num_groups;
  const auto stays_inside = [&](const Request& request, size_t i) {
    const uint64_t offset = step.extend_offsets[i];
    if (request.stepped == step_id) return false;  // named before: commit_item() refuses it
    if (step.extend_offsets[i + 1] - offset != 1 || !lane_takes(request, step.extend_tokens[offset]))
      return false;
    if (step.committed != nullptr && !lane_commits(request, step.committed[i])) return false;
    const int32_t row = step.rows == nullptr ? static_cast<int32_t>(i) : step.rows[i];
    return step.block_tables == nullptr || row < 0 ||
           (owns_row(request, row) && request.positions <= step.row_stride);
  };
  for (size_t i = begin; i < end; ++i) {
    if (i + kPrefetch < step.num_requests) requests_.prefetch(step.requests[i + kPrefetch]);
    if (i + kTailPrefetch < step.num_requests) requests_.prefetch_tail(step.requests[i + kTailPrefetch]);
    Request* const found = requests_.find(step.requests[i]);
    if (found == nullptr) continue;
    Request& request = *found;
    if (!stays_inside(request, i)) {
      request.close_lane();  // a later item of the same request must not come first
      requests_.prefetch_growth(request);
      continue;
    }
    const uint64_t offset = step.extend_offsets[i];
    const uint32_t token = request.known;
    request.stepped = step_id;
    if (step.committed != nullptr) lane_commit(request, step.committed[i]);
    lane_append(request, step.extend_tokens[offset]);
    status[i] = kDecoded;
    ++decoded;
    if (step.slots != nullptr) {
      if (num_groups == 1) {
        step.slots[offset] = request.slot_base + token;
      } else {
        write_slots(plan, i, &request, token, 1);
      }
    }
    if (step.num_blocks != nullptr) {
      for (size_t g = 0; g < num_groups; ++g) step.num_blocks[g * num_items + i] = request.positions;
    }
  }
  if (decoded != end - begin) prefetch_items(plan, begin, end, status);
  return decoded;
}

}  // namespace kvc
