// SPDX-License-Identifier: Apache-2.0
// The engine step: many items in one call, in fixed phases. The lock is let go between slices of items;
// admissions copy and hash their tokens without it.
#include "manager/step.h"

#include "manager/growth.h"
#include "manager/guard.h"

namespace kvc {
namespace {

constexpr size_t kSlice = 64;  // items per hold of the lock

// The status of an item whose ids [begin, end) were refused. The text names the first that was not set, if
// any.
kvc_status refused_ids(kvc_status status, const char* array, const int32_t* ids, uint64_t begin, uint64_t end,
                       const char* instead) {
  if (status != KVC_ERROR_INVALID_ARGUMENT) return status;
  while (begin < end && ids[begin] != kUnsetToken) ++begin;
  if (begin == end) return status;
  return fail(status, "%s[%llu] is -1, which means not set: set the id%s", array,
              static_cast<unsigned long long>(begin), instead);
}

}  // namespace

kvc_status Manager::retire_step(uint64_t step_id) {
  const Guard lock(*this);
  if (step_id > assigned_) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "step %llu was not issued; the newest is %llu",
                static_cast<unsigned long long>(step_id), static_cast<unsigned long long>(assigned_));
  }
  retire(step_id);
  return KVC_OK;
}

kvc_status Manager::step(StepPlan& plan) {
  kvc_step& step = plan.step;
  CopyList copies{false, step.copies};
  uint64_t id;
  {
    Guard lock(*this);
    KVC_TRY(check_step(plan));
    id = ++assigned_;
    copies.next = std::exchange(executing_, &copies);
    step.step_id = id;
    step.num_changes = step.num_copies = step.num_refused = 0;
    step.shortage_blocks = 0;
    step.num_slots =
        step.extend_offsets == nullptr ? 0 : static_cast<size_t>(step.extend_offsets[step.num_requests]);

    size_t done = 0;
    const auto pause = [&] {
      if (++done % kSlice == 0) lock.yield();
    };
    retire(step.retired_step);
    close_lanes(step.frees, step.num_frees);  // theirs are no decode items: the phases matter to them
    close_lanes(step.preempts, step.num_preempts);
    close_lanes(step.truncates, step.num_truncates);
    kvc_status* const request_status = plan.request_status();
    size_t undone = step.num_requests;
    for (size_t begin = 0; begin < step.num_requests; begin += kSlice) {
      const size_t end = begin + kSlice < step.num_requests ? begin + kSlice : step.num_requests;
      std::memset(request_status + begin, 0, (end - begin) * sizeof *request_status);
      size_t decoded = 0;
      if (plan.may_decode()) {
        decoded = decode_items(plan, id, begin, end, request_status);
      } else {
        find_repeated(plan, id, begin, end, request_status);
      }
      undone -= decoded;
      for (size_t i = begin; i < end && decoded < end - begin; ++i) {
        if (request_status[i] == KVC_OK) commit_item(plan, i, request_status[i]);
      }
      if (end < step.num_requests) lock.yield();
    }
    kvc_status* status = step.status;
    for (size_t i = 0; i < step.num_frees; ++i, pause()) {
      Request* request = nullptr;
      *status = find_request(step.frees[i], false, &request);
      if (*status++ == KVC_OK) end_request(*request);
    }
    for (size_t i = 0; i < step.num_preempts; ++i, pause()) {
      Request* request = nullptr;
      *status = find_request(step.preempts[i], true, &request);
      if (*status == KVC_OK) *status = preempt(*request);
      ++status;
    }
    for (size_t i = 0; i < step.num_truncates; ++i, pause()) {
      Request* request = nullptr;
      *status = find_request(step.truncates[i], false, &request);
      const uint64_t length = step.truncate_lengths[i];
      if (*status == KVC_OK && length == kUnsetCount) {
        *status = fail(KVC_ERROR_INVALID_ARGUMENT,
                       "truncate_lengths[%zu] is not set: set the number of tokens to keep, 0 to %u", i,
                       request->known);
      }
      if (*status == KVC_OK) *status = truncate(*request, length);
      ++status;
    }
    for (size_t i = 0; i < step.num_requests && undone != 0; ++i) {
      if (request_status[i] == kDecoded) continue;
      extend_item(plan, i, request_status[i], copies);
      pause();
    }
    for (size_t i = 0; i < step.num_requests; ++i)
      request_status[i] = request_status[i] == kDecoded ? KVC_OK : request_status[i];
    step.num_copies = copies.count;
    if (step.num_admissions == 0) {
      end_step(copies, id);
      return KVC_OK;
    }
  }
  bool refused = false;
  for (size_t i = 0; i < step.num_admissions; ++i) admit_item(plan, i, &refused);
  const Guard lock(*this);
  end_step(copies, id);
  return KVC_OK;
}

// From now on the step may be in flight; sources of its copies wait for it.
void Manager::end_step(CopyList& copies, uint64_t id) {
  CopyList** link = &executing_;
  while (*link != &copies) link = &(*link)->next;
  *link = copies.next;
  if (issued_ < id) issued_ = id;
  for (size_t i = 0; i < copies.count; ++i) {
    const BlockId source{copies.out[i].source};
    if (pool_.drop_ref(pool_[source])) place(source);
  }
}

// Marks the items of [begin, end) whose request an earlier item of the step names, as decode_items() does.
void Manager::find_repeated(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end,
                            kvc_status* status) {
  for (size_t i = begin; i < end; ++i) {
    Request* request = requests_.find(plan.step.requests[i]);
    if (request == nullptr) continue;
    if (request->stepped == step_id) status[i] = kRepeated;
    request->stepped = step_id;
  }
}

// Tokens that became known, then the commit: both or neither.
void Manager::commit_item(const StepPlan& plan, size_t i, kvc_status& status) {
  const kvc_step& step = plan.step;
  Request* request = nullptr;
  status = find_request(step.requests[i], true, &request);
  if (status != KVC_OK) return;
  const uint32_t known = request->known;
  if (const size_t count = plan.commit_tokens(i); count != 0) {
    const int32_t* tokens = step.commit_tokens + step.commit_offsets[i];
    if (count <= shape_.max_request_tokens) {
      status = refused_ids(check_tokens(tokens, count, shape_.vocab_size), "commit_tokens",
                           step.commit_tokens, step.commit_offsets[i], step.commit_offsets[i + 1],
                           ", or switch commit_offsets off (NULL) if commits bring no ids");
    }
    if (status == KVC_OK) status = reserve_known(*request, count);
    if (status != KVC_OK) return;
    add_known(*request, tokens, count);
  }
  if (step.committed == nullptr) return;
  status = commit(*request, step.committed[i]);
  if (status != KVC_OK) request->known = known;
}

void Manager::close_lanes(const uint64_t* ids, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (Request* request = requests_.find(ids[i]); request != nullptr) request->close_lane();
  }
}

void Manager::extend_item(StepPlan& plan, size_t i, kvc_status& status, CopyList& copies) {
  const kvc_step& step = plan.step;
  Request* request = requests_.find(step.requests[i]);
  if (request != nullptr && !request->admitted) request = nullptr;  // perhaps by this step, after its commit
  if (status == kRepeated) {
    status = fail(KVC_ERROR_INVALID_ARGUMENT,
                  "requests[%zu] is %#llx, which an earlier item names; name each request once in a step", i,
                  static_cast<unsigned long long>(step.requests[i]));
    request = nullptr;  // the earlier item shows it
  }
  const uint64_t count = plan.extension(i);
  uint64_t first = 0;
  if (status == KVC_OK && count != 0) {
    if (request == nullptr) {
      status = find_request(step.requests[i], true, &request);
    } else {
      const int32_t* tokens =
          step.extend_tokens == nullptr ? nullptr : step.extend_tokens + step.extend_offsets[i];
      first = tokens != nullptr ? request->known : request->capacity;
      status = extend_request(plan, i, *request, tokens, first, count, copies);
    }
  }
  if (step.slots != nullptr && count != 0)
    write_slots(plan, i, status == KVC_OK ? request : nullptr, first, count);
  if (step.num_blocks != nullptr || step.block_tables != nullptr) show(plan, i, request);
  if (request != nullptr) open_lane(*request);
}

kvc_status Manager::extend_request(const StepPlan& plan, size_t i, Request& request, const int32_t* tokens,
                                   uint64_t first, uint64_t count, CopyList& copies) {
  uint64_t end = tokens == nullptr ? first + count : capacity_for(request, first + count);
  if (end > shape_.max_request_tokens) end = shape_.max_request_tokens;  // else refused below
  if (plan.writes_row(i) && end > uint64_t{plan.step.row_stride} * shape_.block_size) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "item %zu: %llu tokens need more than row_stride, %zu blocks", i,
                static_cast<unsigned long long>(end), plan.step.row_stride);
  }
  if (tokens == nullptr) return extend(request, first + count, copies);
  const kvc_step& step = plan.step;
  return refused_ids(append(request, tokens, static_cast<size_t>(count), copies), "extend_tokens",
                     step.extend_tokens, step.extend_offsets[i], step.extend_offsets[i + 1],
                     ", or switch extend_tokens off (NULL) to extend by slots alone");
}

void Manager::admit_item(StepPlan& plan, size_t i, bool* refused) {
  kvc_step& step = plan.step;
  kvc_status& status = plan.admission_status()[i];
  const size_t item = step.num_requests + i;
  uint64_t id = step.admit_requests == nullptr ? 0 : step.admit_requests[i];
  const bool is_new = id == 0;
  uint64_t cached = 0;
  if (*refused && (step.flags & KVC_STEP_ADMIT_PAST_REFUSAL) == 0) {
    status = fail(KVC_ERROR_SKIPPED, "admission %zu was not tried: an earlier one had no space", i);
  } else {
    const size_t room = plan.writes_row(item) ? step.row_stride : SIZE_MAX;
    status = is_new ? create_request(plan.prompt(i), plan.config(i), true, &id, &cached, room)
                    : admit_request(id, &cached, room);
    if (is_new && status != KVC_OK && plan.prompt(i).num_tokens <= shape_.max_request_tokens) {
      status = refused_ids(status, "admit_tokens", step.admit_tokens, step.admit_offsets[i],
                           step.admit_offsets[i + 1], " of each token of the prompt");
    }
  }
  const bool no_space = status == KVC_ERROR_NO_SPACE || status == KVC_ERROR_AGAIN;
  if (no_space && !*refused) step.shortage_blocks = last_shortage();
  *refused |= no_space;
  step.num_refused += no_space || status == KVC_ERROR_SKIPPED;
  step.admitted[i] = status == KVC_OK ? id : 0;
  step.cached[i] = status == KVC_OK ? cached : 0;
  const std::lock_guard lock(mutex_);
  show(plan, item, status == KVC_OK ? requests_.find(id) : nullptr);
}

}  // namespace kvc
