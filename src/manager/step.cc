// SPDX-License-Identifier: Apache-2.0
// The order of a step: items in fixed phases. The lock is released between slices of items, and admissions
// copy and hash their tokens without it.
#include "manager/step.h"

#include "manager/stepper.h"

namespace kvc {
namespace {

// The status of an item whose ids [begin, end) were refused. The text names the first that was not set, if
// any.
kvc_status refused_ids(kvc_status status, const char* array, const int32_t* ids, uint64_t begin, uint64_t end,
                       const char* instead) {
  if (status != KVC_ERROR_INVALID_ARGUMENT) return status;
  while (begin < end && ids[begin] != kUnsetToken) ++begin;
  if (begin == end) return status;
  return fail(status, "%s[%llu] is -1, which means not set: set the id%s", array, ull(begin), instead);
}

}  // namespace

kvc_status Stepper::retire(uint64_t step_id) {
  if (step_id > assigned_) {
    return invalid("step %llu was not issued; the newest is %llu", ull(step_id), ull(assigned_));
  }
  blocks_.retire(step_id);
  return KVC_OK;
}

// Clears the step's results and returns its id.
inline uint64_t Stepper::begin(StepPlan& plan, CopyList& copies) {
  kvc_step& step = plan.step;
  copies.next = std::exchange(executing_, &copies);
  const uint64_t id = step.step_id = ++assigned_;
  step.num_changes = step.num_copies = step.num_refused = 0;
  step.shortage_blocks = 0;
  step.num_slots =
      step.extend_offsets == nullptr ? 0 : static_cast<size_t>(step.extend_offsets[step.num_requests]);
  if (step.now_ns != 0) blocks_.cached.pass_time(step.now_ns);
  blocks_.retire(step.retired_step);
  close_lanes(step.frees, step.num_frees);  // so that decode() leaves them to their phase
  close_lanes(step.preempts, step.num_preempts);
  close_lanes(step.truncates, step.num_truncates);
  return id;
}

kvc_status Stepper::step(StepPlan& plan) {
  kvc_step& step = plan.step;
  FirstError failure;
  CopyList copies{step.copies};
  {
    Guard lock(monitor_);
    KVC_TRY(check(plan));
    const uint64_t id = begin(plan, copies);
    const bool usual = is_usual(plan);
    const bool all_done = commit_items(plan, id, usual, lock, failure);
    shrink_items(plan, lock, failure);
    if (!all_done) extend_items(plan, usual, copies, lock, failure);
    if (step.num_admissions == 0) {
      end(plan, copies);
      return KVC_OK;
    }
  }
  if ((step.flags & KVC_STEP_ADMIT_ALL_OR_NONE) != 0) {
    admit_all(plan, copies, failure);
    return KVC_OK;
  }
  uint64_t refused = 0;  // shares that an admission of the step had no space in
  for (size_t i = 0; i < step.num_admissions; ++i) {
    admit_item(plan, i, &refused, copies);
    if (plan.admission_status()[i] != KVC_OK) failure.note("admissions", i);
  }
  const Guard lock(monitor_);
  end(plan, copies);
  return KVC_OK;
}

// Returns whether there is nothing left to do for any: all stayed inside their blocks.
inline bool Stepper::commit_items(const StepPlan& plan, uint64_t step_id, bool usual, Guard& lock,
                                  FirstError& failure) {
  const kvc_step& step = plan.step;
  kvc_status* const status = plan.request_status();
  bool all_done = true;
  for (size_t begin = 0; begin < step.num_requests; begin += kSlice) {
    const size_t end = begin + kSlice < step.num_requests ? begin + kSlice : step.num_requests;
    std::memset(status + begin, 0, (end - begin) * sizeof *status);
    const uint64_t left = plan.may_decode() ? decode(plan, step_id, begin, end, status)
                                            : find_repeated(plan, step_id, begin, end, status);
    all_done = all_done && left == 0;
    for (const uint32_t bit : bits_of(left)) {
      const size_t i = begin + bit;
      if (status[i] == kRepeated) continue;
      Request* const request = usual ? requests_.peek(step.requests[i]) : nullptr;
      if (request != nullptr && requests_.commit_usual(*request, step.committed[i])) {
        status[i] = kCommitted;
        continue;
      }
      commit_item(plan, i, status[i]);
      if (status[i] != KVC_OK)
        failure.note("requests", i);
      else
        status[i] = kCommitted;
    }
    if (end < step.num_requests) lock.yield();
  }
  return all_done;
}

// Frees, preemptions and truncations.
inline void Stepper::shrink_items(const StepPlan& plan, Guard& lock, FirstError& failure) {
  const kvc_step& step = plan.step;
  kvc_status* status = step.status;
  const auto each = [&](const char* array, size_t count, auto&& shrink) {
    for (size_t i = 0; i < count; ++i, lock.count_item()) {
      *status = shrink(i);
      if (*status++ != KVC_OK) failure.note(array, i);
    }
  };
  const auto with = [&](uint64_t id, auto&& call) -> kvc_status {
    Request* request = nullptr;
    KVC_TRY(requests_.find(id, false, &request));
    return call(*request);
  };
  each("frees", step.num_frees, [&](size_t i) {
    return with(step.frees[i], [&](Request& request) { return requests_.end(request); });
  });
  each("preempts", step.num_preempts, [&](size_t i) {
    return with(step.preempts[i], [&](Request& request) { return requests_.preempt(request); });
  });
  each("truncates", step.num_truncates, [&](size_t i) { return truncate_item(plan, i); });
}

inline void Stepper::extend_items(StepPlan& plan, bool usual, CopyList& copies, Guard& lock,
                                  FirstError& failure) {
  kvc_status* const status = plan.request_status();
  for (size_t i = 0; i < plan.step.num_requests; ++i) {
    if (status[i] == KVC_OK) continue;  // done
    if (status[i] == kCommitted) {
      status[i] = KVC_OK;
      if (usual && extend_usual(plan, i)) {
        lock.count_item();
        continue;
      }
    }
    extend_item(plan, i, status[i], copies);
    if (status[i] != KVC_OK) failure.note("requests", i);
    lock.count_item();
  }
}

void Stepper::end(StepPlan& plan, CopyList& copies) {
  CopyList** link = &executing_;
  while (*link != &copies) link = &(*link)->next;
  *link = copies.next;
  plan.step.num_copies = copies.count;
  blocks_.issue(plan.step.step_id);  // what is released waits for it, the sources of its copies first
  requests_.waiting_copies.release_sources(copies);
}

// Marks the items of [begin, end) whose request an earlier item of the step names, as decode() does, and
// returns a bit for each item.
uint64_t Stepper::find_repeated(const StepPlan& plan, uint64_t step_id, size_t begin, size_t end,
                                kvc_status* status) {
  for (size_t i = begin; i < end; ++i) {
    Request* request = requests_.peek(plan.step.requests[i]);
    if (request == nullptr) continue;
    if (request->stepped == step_id) status[i] = kRepeated;
    request->stepped = step_id;
  }
  return ~uint64_t{0} >> (kSlice - (end - begin));
}

// Adds the tokens that the item brings and commits: both or neither.
void Stepper::commit_item(const StepPlan& plan, size_t i, kvc_status& status) {
  const kvc_step& step = plan.step;
  Request* request = nullptr;
  status = requests_.find(step.requests[i], true, &request);
  if (status != KVC_OK) return;
  const uint32_t known = request->known;
  if (const size_t count = plan.commit_tokens(i); count != 0) {
    const int32_t* tokens = step.commit_tokens + step.commit_offsets[i];
    if (count <= shape_.max_request_tokens) {
      status = refused_ids(check_tokens(tokens, count, shape_.vocab_size), "commit_tokens",
                           step.commit_tokens, step.commit_offsets[i], step.commit_offsets[i + 1],
                           ", or switch commit_offsets off (NULL) if commits bring no ids");
    }
    if (status == KVC_OK) status = requests_.learn(*request, tokens, count);
    if (status != KVC_OK) return;
  }
  if (step.committed == nullptr) return;
  status = requests_.commit(*request, step.committed[i], step.committed[i]);
  if (status != KVC_OK) request->unlearn(known);
}

kvc_status Stepper::truncate_item(const StepPlan& plan, size_t i) {
  Request* request = nullptr;
  KVC_TRY(requests_.find(plan.step.truncates[i], false, &request));
  const uint64_t length = plan.step.truncate_lengths[i];
  if (length == kUnsetCount) {
    return invalid("truncate_lengths[%zu] is not set: set the number of tokens to keep, 0 to %u", i,
                   request->known);
  }
  return requests_.truncate(*request, length);
}

void Stepper::extend_item(StepPlan& plan, size_t i, kvc_status& status, CopyList& copies) {
  const kvc_step& step = plan.step;
  Request* request = requests_.peek(step.requests[i]);
  if (request != nullptr && !request->admitted) request = nullptr;  // perhaps by this step, after its commit
  if (status == kRepeated) {
    status = invalid("an earlier item names request %llu too; name each request once in a step",
                     ull(step.requests[i]));
    request = nullptr;  // the earlier item shows it
  }
  const uint64_t count = plan.extension(i);
  uint64_t first = 0;
  if (status == KVC_OK && count != 0) {
    if (request == nullptr) {
      status = requests_.find(step.requests[i], true, &request);
    } else {
      const int32_t* tokens =
          step.extend_tokens == nullptr ? nullptr : step.extend_tokens + step.extend_offsets[i];
      first = tokens != nullptr ? request->known : request->capacity;
      const uint32_t capacity = request->capacity;
      status = extend_request(plan, i, *request, tokens, first, count, copies);
      if (status == KVC_OK) {
        requests_.features.each([&](auto& feature) { feature.extended(*request, capacity); });
        requests_.enqueue(*request, step.step_id);
      }
    }
  }
  if (step.slots != nullptr && count != 0)
    rows_.write_slots(plan, i, status == KVC_OK ? request : nullptr, first, count);
  if (step.num_blocks != nullptr || step.block_tables != nullptr) rows_.show(plan, i, request);
  if (request != nullptr) requests_.open_lane(*request);
}

kvc_status Stepper::extend_request(const StepPlan& plan, size_t i, Request& request, const int32_t* tokens,
                                   uint64_t first, uint64_t count, CopyList& copies) {
  uint64_t end = tokens == nullptr ? first + count : requests_.capacity_for(request, first + count);
  if (end > shape_.max_request_tokens) end = shape_.max_request_tokens;  // else refused below
  if (plan.writes_row(i) && request.cross_positions > plan.step.row_stride) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the encoder's %u blocks need more than row_stride, %zu",
                request.cross_positions, plan.step.row_stride);
  }
  if (plan.writes_row(i) && end > uint64_t{plan.step.row_stride} * shape_.block_size) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "%llu tokens need more than row_stride, %zu blocks", ull(end),
                plan.step.row_stride);
  }
  if (tokens == nullptr) return requests_.extend(request, first + count, &copies);
  const kvc_step& step = plan.step;
  return refused_ids(requests_.append(request, tokens, static_cast<size_t>(count), &copies), "extend_tokens",
                     step.extend_tokens, step.extend_offsets[i], step.extend_offsets[i + 1],
                     ", or switch extend_tokens off (NULL) to extend by slots alone");
}

// Of a prompt that was refused: the first token that was not set, if any.
kvc_status Stepper::explain_tokens(const StepPlan& plan, size_t i, kvc_status status) const {
  if (plan.prompt(i).num_tokens > shape_.max_request_tokens) return status;
  return refused_ids(status, "admit_tokens", plan.step.admit_tokens, plan.step.admit_offsets[i],
                     plan.step.admit_offsets[i + 1], " of each token of the prompt");
}

void Stepper::count_refusal(StepPlan& plan, kvc_status status, uint64_t share, uint64_t* refused) const {
  kvc_step& step = plan.step;
  const bool no_space = lacks_space(status);
  if (no_space && *refused == 0) step.shortage_blocks = Room::last_shortage();
  if (no_space) *refused |= share;
  step.num_refused += no_space || status == KVC_ERROR_SKIPPED || status == KVC_ERROR_BUFFER_TOO_SMALL ||
                      status == KVC_ERROR_FILLING || status == KVC_ERROR_NEVER_FITS;
}

void Stepper::admit_item(StepPlan& plan, size_t i, uint64_t* refused, CopyList& copies) {
  kvc_step& step = plan.step;
  kvc_status& status = plan.admission_status()[i];
  const size_t item = step.num_requests + i;
  uint64_t id = step.admit_requests == nullptr ? 0 : step.admit_requests[i];
  const bool is_new = id == 0;
  uint64_t cached = 0;
  const uint64_t share = view_.share_of(id, is_new ? plan.prompt(i).namespace_id : 0);
  if ((*refused & share) != 0 && (step.flags & KVC_STEP_ADMIT_PAST_REFUSAL) == 0) {
    status = fail(KVC_ERROR_SKIPPED, "not tried: an earlier admission had no space");
  } else {
    const size_t room = plan.writes_row(item) ? step.row_stride : SIZE_MAX;
    status =
        is_new ? view_.create(plan.prompt(i), plan.config(i), true, &id, &cached, room, step.step_id, &copies)
               : view_.admit(id, &cached, room, step.step_id, &copies, plan.admit_slots(i));
    if (is_new && status != KVC_OK) status = explain_tokens(plan, i, status);
  }
  count_refusal(plan, status, share, refused);
  step.admitted[i] = status == KVC_OK ? id : 0;
  step.cached[i] = status == KVC_OK ? cached : 0;
  const std::lock_guard lock(monitor_.mutex());
  rows_.show(plan, item, status == KVC_OK ? requests_.peek(id) : nullptr);
}

// A new request has no id while nobody else knows it: its index, from 1 on, stands in `admitted`.
kvc_status Stepper::build_item(StepPlan& plan, size_t i) {
  kvc_step& step = plan.step;
  step.admitted[i] = step.cached[i] = 0;
  if (step.admit_requests != nullptr && step.admit_requests[i] != 0) return KVC_OK;
  Request* request = nullptr;
  if (const kvc_status status = view_.build(plan.prompt(i), plan.config(i), &request); status != KVC_OK)
    return explain_tokens(plan, i, status);
  step.admitted[i] = uint64_t{requests_.table().index_of(*request)} + 1;
  return KVC_OK;
}

kvc_status Stepper::plan_item(StepPlan& plan, size_t i, Batch& batch) const {
  kvc_step& step = plan.step;
  const size_t item = step.num_requests + i;
  const size_t room = plan.writes_row(item) ? step.row_stride : SIZE_MAX;
  if (step.admitted[i] != 0) return batch.plan(requests_.record(step.admitted[i] - 1), 0, room, step.step_id);
  Request* request = nullptr;
  KVC_TRY(requests_.find(step.admit_requests[i], false, &request));
  KVC_TRY(batch.plan(*request, plan.admit_slots(i), room, step.step_id));
  step.admitted[i] = uint64_t{requests_.table().index_of(*request)} + 1;
  return KVC_OK;
}

// All admissions or none, under one lock but for the prompts, which are copied and hashed before.
void Stepper::admit_all(StepPlan& plan, CopyList& copies, FirstError& failure) {
  kvc_step& step = plan.step;
  kvc_status* const status = plan.admission_status();
  const size_t count = step.num_admissions;
  const auto is_new = [&](size_t i) { return step.admit_requests == nullptr || step.admit_requests[i] == 0; };
  uint64_t refused = 0;
  bool all = true;
  for (size_t i = 0; i < count; ++i) {
    if ((status[i] = build_item(plan, i)) != KVC_OK) failure.note("admissions", i);
  }
  const Guard lock(monitor_);
  {
    Batch batch(requests_.admissions);
    for (size_t i = 0; i < count; ++i) {
      if (status[i] == KVC_OK) {
        const uint64_t share = view_.locked_share_of(is_new(i) ? 0 : step.admit_requests[i],
                                                     is_new(i) ? plan.prompt(i).namespace_id : 0);
        if ((refused & share) != 0 && (step.flags & KVC_STEP_ADMIT_PAST_REFUSAL) == 0)
          status[i] = fail(KVC_ERROR_SKIPPED, "not tried: an earlier admission had no space");
        else
          status[i] = plan_item(plan, i, batch);
        if (status[i] != KVC_OK) {
          failure.note("admissions", i);
          count_refusal(plan, status[i], share, &refused);
        }
      }
      all = all && status[i] == KVC_OK;
    }
    if (all) {
      batch.admit(copies);
    } else {
      batch.cancel();
    }
  }
  for (size_t i = 0; i < count && all; ++i) {
    Request& request = requests_.record(step.admitted[i] - 1);
    if (is_new(i)) requests_.publish(request);
    requests_.enqueue(request, step.step_id);
    step.admitted[i] = request.id;
    step.cached[i] = request.num_cached;
  }
  for (size_t i = count; i-- > 0 && !all;) {
    if (is_new(i) && step.admitted[i] != 0) requests_.discard(requests_.record(step.admitted[i] - 1));
    step.admitted[i] = 0;
  }
  for (size_t i = 0; i < count; ++i) {
    if (!all && status[i] == KVC_OK) {
      status[i] = KVC_ERROR_SKIPPED;
      ++step.num_refused;
    }
    rows_.show(plan, step.num_requests + i, all ? requests_.peek(step.admitted[i]) : nullptr);
  }
  end(plan, copies);
}

}  // namespace kvc
