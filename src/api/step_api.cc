// SPDX-License-Identifier: Apache-2.0
// The step: validation of its arrays before the manager sees it.
#include <kvcache/fills.h>
#include <kvcache/metrics.h>

#include "api/guard.h"
#include "api/made_step.h"
#include "api/recording.h"
#include "manager/step.h"

using namespace kvc;

namespace {

bool creates_requests(const kvc_step& step) {
  bool any = false;
  for (size_t i = 0; i < step.num_admissions; ++i)
    any |= step.admit_requests == nullptr || step.admit_requests[i] == 0;
  return any;
}

kvc_status check_offsets(const uint64_t* offsets, size_t count, const char* name) {
  if (offsets == nullptr) return KVC_OK;
  if (offsets[0] != 0) return invalid("%s[0] is %llu; offsets begin with 0", name, ull(offsets[0]));
  uint64_t bad = 0;  // high bits if one is less than the one before, or 2^32 more: vectorizes
  for (size_t i = 0; i < count; ++i) bad |= offsets[i + 1] - offsets[i];
  if (bad <= UINT32_MAX) return KVC_OK;
  size_t i = 0;
  while (offsets[i + 1] - offsets[i] <= UINT32_MAX) ++i;
  if (offsets[i + 1] == kUnsetCount) {
    return invalid("%s[%zu] is not set: set the end of item %zu, at least %llu", name, i + 1, i,
                   ull(offsets[i]));
  }
  return invalid("%s[%zu] is %llu after %llu; offsets never decrease, and grow by less than 2^32", name,
                 i + 1, ull(offsets[i + 1]), ull(offsets[i]));
}

kvc_status check_items(const kvc_step& step) {
  if (step.num_requests > kMaxHandleIndex) {
    return invalid("num_requests is %zu; at most %u, since each request may be named once", step.num_requests,
                   kMaxHandleIndex);
  }
  KVC_REQUIRE_ARRAY(step.frees, step.num_frees);
  KVC_REQUIRE_ARRAY(step.preempts, step.num_preempts);
  KVC_REQUIRE_ARRAY(step.truncates, step.num_truncates);
  KVC_REQUIRE_ARRAY(step.truncate_lengths, step.num_truncates);
  KVC_REQUIRE_ARRAY(step.requests, step.num_requests);
  KVC_REQUIRE_ARRAY(step.admitted, step.num_admissions);
  KVC_REQUIRE_ARRAY(step.cached, step.num_admissions);
  if ((step.flags & KVC_STEP_ADMIT_ALL_OR_NONE) != 0 && step.num_admissions != 0 &&
      step.admitted == step.admit_requests)
    return invalid("admitted and admit_requests are one array; a step that admits all or none needs two");
  const size_t counts[] = {step.num_frees, step.num_preempts, step.num_truncates, step.num_requests,
                           step.num_admissions};
  for (const size_t num_items : counts) {
    if (num_items > INT32_MAX) return invalid("%zu items of one kind in a step; at most 2^31 - 1", num_items);
    if (step.status == nullptr && num_items != 0) {
      return invalid(
          "status is NULL and the step has items; give [num_frees + num_preempts + num_truncates + "
          "num_requests + num_admissions] entries");
    }
  }
  return KVC_OK;
}

kvc_status check_extensions(kvc_step& step) {
  KVC_TRY(check_offsets(step.commit_offsets, step.num_requests, "commit_offsets"));
  KVC_TRY(check_offsets(step.extend_offsets, step.num_requests, "extend_offsets"));
  if (step.commit_offsets != nullptr) {
    const uint64_t tokens = step.commit_offsets[step.num_requests];
    KVC_REQUIRE_ARRAY(step.commit_tokens, step.commit_offsets[step.num_requests]);
    KVC_TRY(check_room(step, KVC_STEP_COMMIT_TOKENS, tokens));
  }
  if (step.extend_offsets == nullptr) return KVC_OK;
  const uint64_t tokens = step.extend_offsets[step.num_requests];
  if (step.slots != nullptr && tokens > step.slot_capacity) {
    step.num_slots = static_cast<size_t>(tokens);
    return fail(KVC_ERROR_BUFFER_TOO_SMALL,
                "the step extends by %llu tokens; slots has room for %zu (slot_capacity)", ull(tokens),
                step.slot_capacity);
  }
  return check_room(step, KVC_STEP_EXTEND_TOKENS, tokens);
}

kvc_status check_admissions(const Manager& manager, const kvc_step& step, size_t* stride) {
  for (size_t i = 0; step.admit_slots != nullptr && i < step.num_admissions; ++i) {
    if (step.admit_slots[i] <= manager.shape().max_request_tokens) continue;
    return invalid("admit_slots[%zu] is %llu; at most max_request_tokens, %llu", i, ull(step.admit_slots[i]),
                   ull(manager.shape().max_request_tokens));
  }
  if (!creates_requests(step)) return KVC_OK;
  KVC_REQUIRE_POINTER(step.admit_offsets);
  KVC_TRY(check_offsets(step.admit_offsets, step.num_admissions, "admit_offsets"));
  KVC_TRY(check_offsets(step.admit_key_offsets, step.num_admissions, "admit_key_offsets"));
  const uint64_t tokens = step.admit_offsets[step.num_admissions];
  KVC_REQUIRE_ARRAY(step.admit_tokens, tokens);
  KVC_TRY(check_room(step, KVC_STEP_ADMIT_TOKENS, tokens));
  if (step.admit_key_offsets != nullptr)
    KVC_REQUIRE_ARRAY(step.admit_keys, step.admit_key_offsets[step.num_admissions]);
  if (step.admit_configs == nullptr) return KVC_OK;
  *stride = step.admit_configs->struct_size;
  for (size_t i = 0; i < step.num_admissions; ++i) {
    if (step.admit_requests != nullptr && step.admit_requests[i] != 0) continue;
    const auto* config = reinterpret_cast<const kvc_request_config*>(
        reinterpret_cast<const char*>(step.admit_configs) + i * *stride);
    KVC_TRY(check_size<kvc_request_config>(*stride));
    if (config->struct_size != *stride) {
      return invalid("admit_configs[%zu].struct_size is %zu, that of the first %zu", i, config->struct_size,
                     *stride);
    }
    kvc_request_config own;
    KVC_TRY(read_request_config(manager.shape(), config, *stride, &own));
  }
  return KVC_OK;
}

kvc_status check_rows(const kvc_step& step) {
  const size_t items = step.num_requests + step.num_admissions;
  if (step.block_tables == nullptr) return KVC_OK;
  if (step.num_rows > INT32_MAX || step.row_stride > INT32_MAX)
    return invalid("%zu rows of %zu entries; at most 2^31 - 1 each", step.num_rows, step.row_stride);
  KVC_TRY(check_room(step, KVC_STEP_BLOCK_TABLES, step.num_rows * step.row_stride));
  const auto bad_row = [&](size_t i) {
    if (step.rows[i] == kUnsetRow) {
      return invalid(
          "rows[%zu] is %d, which means not set: set a row below %zu, or -1 to write none; "
          "without `rows`, item i writes row i",
          i, kUnsetRow, step.num_rows);
    }
    return invalid("rows[%zu] is %d; it must be a row below %zu, or -1 to write none", i, step.rows[i],
                   step.num_rows);
  };
  if (step.rows == nullptr) {
    if (items <= step.num_rows) return KVC_OK;
    return invalid("without `rows`, %zu items need %zu rows; block_tables has %zu", items, items,
                   step.num_rows);
  }
  const auto num_rows = static_cast<uint32_t>(step.num_rows);
  uint32_t bad = 0;
  for (size_t i = 0; i < items; ++i) bad |= static_cast<uint32_t>(step.rows[i]) + 1 > num_rows;  // -1 is good
  if (bad == 0) return KVC_OK;
  size_t i = 0;
  while (static_cast<uint32_t>(step.rows[i]) + 1 <= num_rows) ++i;
  return bad_row(i);
}

}  // namespace

namespace kvc {

kvc_status check_step(const Manager& manager, kvc_step* step, size_t* stride) {
  KVC_REQUIRE_POINTER(step);
  KVC_TRY(check_size<kvc_step>(step->struct_size));
  kvc_step unused;
  if (step->struct_size != sizeof unused) {
    KVC_TRY(read_struct(step, &unused));
  }
  if ((step->flags &
       ~uint32_t{KVC_STEP_WHOLE_ROWS | KVC_STEP_ADMIT_PAST_REFUSAL | KVC_STEP_ADMIT_ALL_OR_NONE}) != 0)
    return fail(KVC_ERROR_UNSUPPORTED, "step flags %#x are not supported", step->flags);
  KVC_TRY(check_items(*step));
  KVC_TRY(check_made_step(manager, *step));
  KVC_TRY(check_extensions(*step));
  *stride = 0;
  KVC_TRY(check_admissions(manager, *step, stride));
  KVC_TRY(check_rows(*step));
  if (step->copies == nullptr && step->copy_capacity != 0)
    return invalid("copies is NULL and copy_capacity is %zu", step->copy_capacity);
  return KVC_OK;
}

}  // namespace kvc

namespace {

kvc_status run_step(Manager& manager, kvc_step* step) {
  size_t stride;
  KVC_TRY(check_step(manager, step, &stride));
  const bool creates = creates_requests(*step);
  StepPlan plan{*step, stride};
  const kvc_status status = manager.step(plan);
  if (status == KVC_OK && step->internal != nullptr) unset_inputs(*step, creates);
  return status;
}

}  // namespace

extern "C" {

kvc_status kvc_manager_step(kvc_manager* m, kvc_step* step) {
  KVC_RECORD(kvc_manager_step, m, step);
  const Timed timed(latency_of(m, KVC_LATENCY_STEP));
  return on_manager(m, [&](Manager& manager) { return run_step(manager, step); });
}

kvc_status kvc_manager_retire_step(kvc_manager* m, uint64_t step_id) {
  KVC_RECORD(kvc_manager_retire_step, m, step_id);
  return on_manager(m, [&](Manager& manager) {
    return manager.change([&](const ManagerParts& parts) { return parts.stepper.retire(step_id); });
  });
}

kvc_status kvc_manager_fail_step(kvc_manager* m, uint64_t step_id, uint64_t* requests, size_t capacity,
                                 size_t* count) {
  KVC_RECORD(kvc_manager_fail_step, m, step_id, requests, capacity, count);
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    KVC_REQUIRE_ARRAY(requests, capacity);
    KVC_REQUIRE_POINTER(count);
    if (!manager.shape().has_fills())
      return fail(KVC_ERROR_UNSUPPORTED, "the manager follows no fills; create it with KVC_MANAGER_FILLS");
    return manager.fail_step(step_id, requests, capacity, count);
  });
}

}  // extern "C"
