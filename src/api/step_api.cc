// SPDX-License-Identifier: Apache-2.0
// The step: validation of its arrays before the manager sees it, and steps whose arrays the library makes.
// A made step refuses entries that were not set; they never count as data.
#include <algorithm>

#include "api/guard.h"
#include "base/dtype.h"
#include "manager/step.h"

using kvc::Manager;

namespace {

// One array of a made step: where it lies in the allocation, and its shape.
struct ArrayShape {
  int32_t dtype;
  uint64_t outer, middle, inner;  // 0 in outer or middle = no such dimension
};

constexpr int kNumArrays = KVC_STEP_CHANGES + 1;
// By KVC_STEP_*.
constexpr const char* kArrayNames[] = {
    "frees",          "preempts",      "truncates",      "truncate_lengths",
    "requests",       "committed",     "commit_offsets", "commit_tokens",
    "extend_offsets", "extend_tokens", "admit_requests", "admit_offsets",
    "admit_tokens",   "rows",          "status",         "admitted",
    "cached",         "num_blocks",    "block_tables",   "slots",
    "copies",         "changes"};
static_assert(sizeof kArrayNames / sizeof *kArrayNames == kNumArrays);

struct MadeStep {
  kvc_step step;
  Manager* manager;
  size_t size;
  ArrayShape shapes[kNumArrays];
  char* arrays[kNumArrays];
};

void fill_shapes(const kvc_step_limits& limits, uint64_t groups, uint64_t max_changes, ArrayShape* shapes) {
  const auto set = [&](int array, int32_t dtype, uint64_t outer, uint64_t middle, uint64_t inner) {
    shapes[array] = {dtype, outer, middle, inner};
  };
  const uint64_t requests = limits.max_requests, admissions = limits.max_admissions;
  for (const int array : {KVC_STEP_FREES, KVC_STEP_PREEMPTS, KVC_STEP_TRUNCATES, KVC_STEP_TRUNCATE_LENGTHS}) {
    set(array, KVC_UINT64, 0, 0, limits.max_frees);
  }
  set(KVC_STEP_REQUESTS, KVC_UINT64, 0, 0, requests);
  set(KVC_STEP_COMMITTED, KVC_UINT64, 0, 0, requests);
  set(KVC_STEP_COMMIT_OFFSETS, KVC_UINT64, 0, 0, requests + 1);
  set(KVC_STEP_COMMIT_TOKENS, KVC_INT32, 0, 0, limits.max_tokens);
  set(KVC_STEP_EXTEND_OFFSETS, KVC_UINT64, 0, 0, requests + 1);
  set(KVC_STEP_EXTEND_TOKENS, KVC_INT32, 0, 0, limits.max_tokens);
  set(KVC_STEP_ADMIT_REQUESTS, KVC_UINT64, 0, 0, admissions);
  set(KVC_STEP_ADMIT_OFFSETS, KVC_UINT64, 0, 0, admissions + 1);
  set(KVC_STEP_ADMIT_TOKENS, KVC_INT32, 0, 0, limits.max_prompt_tokens);
  set(KVC_STEP_ROWS, KVC_INT32, 0, 0, requests + admissions);
  set(KVC_STEP_STATUS, KVC_INT32, 0, 0, 3 * limits.max_frees + requests + admissions);
  set(KVC_STEP_ADMITTED, KVC_UINT64, 0, 0, admissions);
  set(KVC_STEP_CACHED, KVC_UINT64, 0, 0, admissions);
  set(KVC_STEP_NUM_BLOCKS, KVC_UINT64, 0, 0, groups * (requests + admissions));
  set(KVC_STEP_BLOCK_TABLES, KVC_INT32, groups, limits.max_rows, limits.row_stride);
  set(KVC_STEP_SLOTS, KVC_INT64, groups, 0, limits.max_tokens);
  set(KVC_STEP_COPIES, KVC_INT32, groups * requests, 0, 2);
  set(KVC_STEP_CHANGES, KVC_INT32, max_changes, 0, 4);
}

[[nodiscard]] bool bytes_of(int array, const ArrayShape& shape, size_t* bytes) {
  const bool has_outer = array > KVC_STEP_NUM_BLOCKS;
  const bool has_middle = array == KVC_STEP_BLOCK_TABLES;
  *bytes = kvc::dtype_bits(shape.dtype) / 8;
  return kvc::checked_mul(*bytes, shape.inner, bytes) &&
         (!has_middle || kvc::checked_mul(*bytes, shape.middle, bytes)) &&
         (!has_outer || kvc::checked_mul(*bytes, shape.outer, bytes)) && *bytes <= PTRDIFF_MAX;
}

template <typename T>
void point(T*& field, char* array) {
  field = reinterpret_cast<T*>(array);
}

void point_arrays(MadeStep& made) {
  kvc_step& step = made.step;
  char** arrays = made.arrays;
  point(step.frees, arrays[KVC_STEP_FREES]);
  point(step.preempts, arrays[KVC_STEP_PREEMPTS]);
  point(step.truncates, arrays[KVC_STEP_TRUNCATES]);
  point(step.truncate_lengths, arrays[KVC_STEP_TRUNCATE_LENGTHS]);
  point(step.requests, arrays[KVC_STEP_REQUESTS]);
  point(step.committed, arrays[KVC_STEP_COMMITTED]);
  point(step.commit_offsets, arrays[KVC_STEP_COMMIT_OFFSETS]);
  point(step.commit_tokens, arrays[KVC_STEP_COMMIT_TOKENS]);
  point(step.extend_offsets, arrays[KVC_STEP_EXTEND_OFFSETS]);
  point(step.extend_tokens, arrays[KVC_STEP_EXTEND_TOKENS]);
  point(step.admit_requests, arrays[KVC_STEP_ADMIT_REQUESTS]);
  point(step.admit_offsets, arrays[KVC_STEP_ADMIT_OFFSETS]);
  point(step.admit_tokens, arrays[KVC_STEP_ADMIT_TOKENS]);
  point(step.rows, arrays[KVC_STEP_ROWS]);
  point(step.status, arrays[KVC_STEP_STATUS]);
  point(step.admitted, arrays[KVC_STEP_ADMITTED]);
  point(step.cached, arrays[KVC_STEP_CACHED]);
  point(step.num_blocks, arrays[KVC_STEP_NUM_BLOCKS]);
  point(step.block_tables, arrays[KVC_STEP_BLOCK_TABLES]);
  point(step.slots, arrays[KVC_STEP_SLOTS]);
  point(step.copies, arrays[KVC_STEP_COPIES]);
  point(step.changes, arrays[KVC_STEP_CHANGES]);
}

// Inputs of a made step whose unset entries hold kUnsetToken or kUnsetCount.
constexpr int kUnsetArrays[] = {KVC_STEP_TRUNCATE_LENGTHS, KVC_STEP_COMMIT_TOKENS, KVC_STEP_EXTEND_TOKENS,
                                KVC_STEP_ADMIT_OFFSETS, KVC_STEP_ADMIT_TOKENS};

void unset(const MadeStep& made, int array, size_t first, size_t count) {
  const size_t width = kvc::dtype_bits(made.shapes[array].dtype) / 8;
  std::memset(made.arrays[array] + first * width, 0xff, count * width);
}

void fill_unset(const MadeStep& made) {
  for (const int array : kUnsetArrays) unset(made, array, 0, made.shapes[array].inner);
  *reinterpret_cast<uint64_t*>(made.arrays[KVC_STEP_ADMIT_OFFSETS]) = 0;  // where all offsets begin
  auto* rows = reinterpret_cast<int32_t*>(made.arrays[KVC_STEP_ROWS]);
  std::fill_n(rows, made.shapes[KVC_STEP_ROWS].inner, kvc::kUnsetRow);  // -1 would be a value
}

bool creates_requests(const kvc_step& step) {
  bool any = false;
  for (size_t i = 0; i < step.num_admissions; ++i)
    any |= step.admit_requests == nullptr || step.admit_requests[i] == 0;
  return any;
}

// Unsets the entries that the step has read, so that they count once. Leaves arrays of the caller's own
// alone. `created`: whether it created requests, as it was found: the caller may use one array for
// admit_requests and `admitted`.
void unset_inputs(const kvc_step& step, bool created) {
  const auto& made = *static_cast<const MadeStep*>(step.internal);
  const auto taken = [&](int array, const void* used, size_t first, uint64_t count) {
    if (used == made.arrays[array]) unset(made, array, first, static_cast<size_t>(count));
  };
  taken(KVC_STEP_TRUNCATE_LENGTHS, step.truncate_lengths, 0, step.num_truncates);
  if (step.commit_offsets != nullptr)
    taken(KVC_STEP_COMMIT_TOKENS, step.commit_tokens, 0, step.commit_offsets[step.num_requests]);
  if (step.extend_offsets != nullptr)
    taken(KVC_STEP_EXTEND_TOKENS, step.extend_tokens, 0, step.extend_offsets[step.num_requests]);
  if (!created) return;
  taken(KVC_STEP_ADMIT_TOKENS, step.admit_tokens, 0, step.admit_offsets[step.num_admissions]);
  taken(KVC_STEP_ADMIT_OFFSETS, step.admit_offsets, 1, step.num_admissions);
}

kvc_status check_offsets(const uint64_t* offsets, size_t count, const char* name) {
  if (offsets == nullptr) return KVC_OK;
  if (offsets[0] != 0)
    return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "%s[0] is %llu; offsets begin with 0", name,
                     static_cast<unsigned long long>(offsets[0]));
  uint64_t bad = 0;  // high bits if one is less than the one before, or 2^32 more: vectorizes
  for (size_t i = 0; i < count; ++i) bad |= offsets[i + 1] - offsets[i];
  if (bad <= UINT32_MAX) return KVC_OK;
  size_t i = 0;
  while (offsets[i + 1] - offsets[i] <= UINT32_MAX) ++i;
  if (offsets[i + 1] == kvc::kUnsetCount) {
    return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "%s[%zu] is not set: set the end of item %zu, at least %llu",
                     name, i + 1, i, static_cast<unsigned long long>(offsets[i]));
  }
  return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                   "%s[%zu] is %llu after %llu; offsets never decrease, and grow by less than 2^32", name,
                   i + 1, static_cast<unsigned long long>(offsets[i + 1]),
                   static_cast<unsigned long long>(offsets[i]));
}

// A made step keeps to its own arrays, whatever counts, offsets and capacities were put into it.
kvc_status check_room(const kvc_step& step, int array, const void* used_array, uint64_t used) {
  if (step.internal == nullptr) return KVC_OK;
  const auto& made = *static_cast<const MadeStep*>(step.internal);
  const ArrayShape& shape = made.shapes[array];
  const uint64_t room = array == KVC_STEP_BLOCK_TABLES                          ? shape.middle * shape.inner
                        : array == KVC_STEP_COPIES || array == KVC_STEP_CHANGES ? shape.outer
                                                                                : shape.inner;
  if (used <= room || used_array != made.arrays[array]) return KVC_OK;
  return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                   "the step needs %llu entries of %s; kvc_step_create made %llu: give it larger limits",
                   static_cast<unsigned long long>(used), kArrayNames[array],
                   static_cast<unsigned long long>(room));
}

kvc_status check_items(const Manager& manager, const kvc_step& step) {
  if (step.num_requests > kvc::kMaxHandleSlots) {
    return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                     "num_requests is %zu; at most %u, since each request may be named once",
                     step.num_requests, kvc::kMaxHandleSlots);
  }
  KVC_REQUIRE_ARRAY(step.frees, step.num_frees);
  KVC_REQUIRE_ARRAY(step.preempts, step.num_preempts);
  KVC_REQUIRE_ARRAY(step.truncates, step.num_truncates);
  KVC_REQUIRE_ARRAY(step.truncate_lengths, step.num_truncates);
  KVC_REQUIRE_ARRAY(step.requests, step.num_requests);
  KVC_REQUIRE_ARRAY(step.admitted, step.num_admissions);
  KVC_REQUIRE_ARRAY(step.cached, step.num_admissions);
  const size_t counts[] = {step.num_frees, step.num_preempts, step.num_truncates, step.num_requests,
                           step.num_admissions};
  for (const size_t num_items : counts) {
    if (num_items > INT32_MAX)
      return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "%zu items of one kind in a step; at most 2^31 - 1",
                       num_items);
    KVC_REQUIRE_ARRAY(step.status, num_items);
  }
  if (step.internal == nullptr) return KVC_OK;
  const size_t items = step.num_requests + step.num_admissions;
  const struct {
    int array;
    const void* used;
    size_t count;
  } rooms[] = {
      {KVC_STEP_FREES, step.frees, step.num_frees},
      {KVC_STEP_PREEMPTS, step.preempts, step.num_preempts},
      {KVC_STEP_TRUNCATES, step.truncates, step.num_truncates},
      {KVC_STEP_TRUNCATE_LENGTHS, step.truncate_lengths, step.num_truncates},
      {KVC_STEP_REQUESTS, step.requests, step.num_requests},
      {KVC_STEP_COMMITTED, step.committed, step.num_requests},
      {KVC_STEP_COMMIT_OFFSETS, step.commit_offsets, step.num_requests + 1},
      {KVC_STEP_EXTEND_OFFSETS, step.extend_offsets, step.num_requests + 1},
      {KVC_STEP_ADMIT_REQUESTS, step.admit_requests, step.num_admissions},
      {KVC_STEP_ADMIT_OFFSETS, step.admit_offsets, step.num_admissions + 1},
      {KVC_STEP_ADMITTED, step.admitted, step.num_admissions},
      {KVC_STEP_CACHED, step.cached, step.num_admissions},
      {KVC_STEP_ROWS, step.rows, items},
      {KVC_STEP_STATUS, step.status, step.num_frees + step.num_preempts + step.num_truncates + items},
      {KVC_STEP_NUM_BLOCKS, step.num_blocks, manager.shape().num_groups * items},
      {KVC_STEP_SLOTS, step.slots, step.slot_capacity},
      {KVC_STEP_COPIES, step.copies, step.copy_capacity},
      {KVC_STEP_CHANGES, step.changes, step.change_capacity}};
  for (const auto& room : rooms) {
    if (const kvc_status status = check_room(step, room.array, room.used, room.count); status != KVC_OK)
      return status;
  }
  return KVC_OK;
}

kvc_status check_extensions(kvc_step& step) {
  if (const kvc_status status = check_offsets(step.commit_offsets, step.num_requests, "commit_offsets");
      status != KVC_OK)
    return status;
  if (const kvc_status status = check_offsets(step.extend_offsets, step.num_requests, "extend_offsets");
      status != KVC_OK)
    return status;
  if (step.commit_offsets != nullptr) {
    const uint64_t tokens = step.commit_offsets[step.num_requests];
    KVC_REQUIRE_ARRAY(step.commit_tokens, step.commit_offsets[step.num_requests]);
    if (const kvc_status status = check_room(step, KVC_STEP_COMMIT_TOKENS, step.commit_tokens, tokens);
        status != KVC_OK)
      return status;
  }
  if (step.extend_offsets == nullptr) return KVC_OK;
  const uint64_t tokens = step.extend_offsets[step.num_requests];
  if (step.slots != nullptr && tokens > step.slot_capacity) {
    step.num_slots = static_cast<size_t>(tokens);
    return kvc::fail(KVC_ERROR_BUFFER_TOO_SMALL,
                     "the step extends by %llu tokens; slots has room for %zu (slot_capacity)",
                     static_cast<unsigned long long>(tokens), step.slot_capacity);
  }
  return check_room(step, KVC_STEP_EXTEND_TOKENS, step.extend_tokens, tokens);
}

kvc_status check_admissions(const Manager& manager, const kvc_step& step, size_t* stride) {
  if (!creates_requests(step)) return KVC_OK;
  KVC_REQUIRE_POINTER(step.admit_offsets);
  if (const kvc_status status = check_offsets(step.admit_offsets, step.num_admissions, "admit_offsets");
      status != KVC_OK)
    return status;
  if (const kvc_status status =
          check_offsets(step.admit_key_offsets, step.num_admissions, "admit_key_offsets");
      status != KVC_OK)
    return status;
  const uint64_t tokens = step.admit_offsets[step.num_admissions];
  KVC_REQUIRE_ARRAY(step.admit_tokens, tokens);
  if (const kvc_status status = check_room(step, KVC_STEP_ADMIT_TOKENS, step.admit_tokens, tokens);
      status != KVC_OK)
    return status;
  if (step.admit_key_offsets != nullptr)
    KVC_REQUIRE_ARRAY(step.admit_keys, step.admit_key_offsets[step.num_admissions]);
  if (step.admit_configs == nullptr) return KVC_OK;
  *stride = step.admit_configs->struct_size;
  for (size_t i = 0; i < step.num_admissions; ++i) {
    if (step.admit_requests != nullptr && step.admit_requests[i] != 0) continue;
    const auto* config = reinterpret_cast<const kvc_request_config*>(
        reinterpret_cast<const char*>(step.admit_configs) + i * *stride);
    if (const kvc_status status = kvc::check_size<kvc_request_config>(*stride, "kvc_request_config");
        status != KVC_OK)
      return status;
    if (config->struct_size != *stride) {
      return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                       "admit_configs[%zu].struct_size is %zu, that of the first %zu", i, config->struct_size,
                       *stride);
    }
    kvc_request_config own;
    if (const kvc_status status = kvc::read_request_config(manager.shape(), config, *stride, &own);
        status != KVC_OK)
      return status;
  }
  return KVC_OK;
}

kvc_status check_rows(const kvc_step& step) {
  const size_t items = step.num_requests + step.num_admissions;
  if (step.block_tables == nullptr) return KVC_OK;
  if (step.num_rows > INT32_MAX || step.row_stride > INT32_MAX) {
    return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "%zu rows of %zu entries; at most 2^31 - 1 each",
                     step.num_rows, step.row_stride);
  }
  if (const kvc_status status =
          check_room(step, KVC_STEP_BLOCK_TABLES, step.block_tables, step.num_rows * step.row_stride);
      status != KVC_OK)
    return status;
  const auto bad_row = [&](size_t i) {
    if (step.rows[i] == kvc::kUnsetRow) {
      return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                       "rows[%zu] is %d, which means not set: set a row below %zu, or -1 to write none; "
                       "without `rows`, item i writes row i",
                       i, kvc::kUnsetRow, step.num_rows);
    }
    return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                     "rows[%zu] is %d; it must be a row below %zu, or -1 to write none", i, step.rows[i],
                     step.num_rows);
  };
  if (step.rows == nullptr) {
    if (items <= step.num_rows) return KVC_OK;
    return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                     "without `rows`, %zu items need %zu rows; block_tables has %zu", items, items,
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

kvc_status run_step(Manager& manager, kvc_step* step) {
  KVC_REQUIRE_POINTER(step);
  if (const kvc_status status = kvc::check_size<kvc_step>(step->struct_size, "kvc_step"); status != KVC_OK)
    return status;
  kvc_step unused;
  if (step->struct_size != sizeof unused) {
    if (const kvc_status status = kvc::read_struct(step, step->struct_size, "kvc_step", &unused);
        status != KVC_OK)
      return status;
  }
  if ((step->flags & ~uint32_t{KVC_STEP_WHOLE_ROWS | KVC_STEP_ADMIT_PAST_REFUSAL}) != 0) {
    return kvc::fail(KVC_ERROR_UNSUPPORTED, "step flags %#x are not supported", step->flags);
  }
  if (step->internal != nullptr && static_cast<const MadeStep*>(step->internal)->manager != &manager) {
    return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                     "this step was made for another manager; make one for this manager by kvc_step_create");
  }
  if (const kvc_status status = check_items(manager, *step); status != KVC_OK) return status;
  if (const kvc_status status = check_extensions(*step); status != KVC_OK) return status;
  size_t stride = 0;
  if (const kvc_status status = check_admissions(manager, *step, &stride); status != KVC_OK) return status;
  if (const kvc_status status = check_rows(*step); status != KVC_OK) return status;
  if (step->copies == nullptr && step->copy_capacity != 0) {
    return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "copies is NULL and copy_capacity is %zu",
                     step->copy_capacity);
  }
  const bool creates = creates_requests(*step);
  kvc::StepPlan plan{*step, stride};
  const kvc_status status = manager.step(plan);
  if (status == KVC_OK && step->internal != nullptr) unset_inputs(*step, creates);
  return status;
}

}  // namespace

extern "C" {

kvc_status kvc_step_create(kvc_manager* m, const kvc_step_limits* limits, kvc_step** step) {
  return kvc::on_manager(m, [&](Manager& manager) -> kvc_status {
    KVC_REQUIRE_POINTER(limits);
    KVC_REQUIRE_POINTER(step);
    kvc_step_limits own;
    if (const kvc_status status = kvc::read_struct(limits, limits->struct_size, "kvc_step_limits", &own);
        status != KVC_OK)
      return status;
    constexpr uint64_t kMost = uint64_t{1} << 40;  // so that sums and products below cannot wrap unseen
    for (const uint64_t value : {own.max_frees, own.max_requests, own.max_admissions, own.max_tokens,
                                 own.max_prompt_tokens, own.max_rows, own.row_stride, own.max_changes}) {
      if (value > kMost)
        return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "a step limit is %llu; at most 2^40",
                         static_cast<unsigned long long>(value));
    }
    const uint64_t groups = manager.shape().num_groups;
    uint64_t changes = own.max_changes;
    MadeStep made = {};
    size_t size = (sizeof(MadeStep) + 63) & ~size_t{63};
    size_t offsets[kNumArrays];
    bool fits = changes != 0 ||
                kvc::checked_mul(groups * (own.max_requests + own.max_admissions), own.row_stride, &changes);
    fill_shapes(own, groups, changes, made.shapes);
    for (int i = 0; i < kNumArrays && fits; ++i) {
      size_t bytes;
      offsets[i] = size;
      fits = bytes_of(i, made.shapes[i], &bytes) &&
             kvc::checked_add(size, (bytes + 63) & ~size_t{63}, &size) && size <= PTRDIFF_MAX;
    }
    if (!fits)
      return kvc::fail(KVC_ERROR_INVALID_ARGUMENT,
                       "the arrays of this step are larger than the address space");
    auto* memory = static_cast<char*>(manager.allocate_for_caller(size));
    if (memory == nullptr)
      return kvc::fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a step of %zu bytes", size);
    std::memset(memory, 0, size);
    made.manager = &manager;
    made.size = size;
    for (int i = 0; i < kNumArrays; ++i) made.arrays[i] = memory + offsets[i];
    std::memset(made.arrays[KVC_STEP_BLOCK_TABLES], 0xff,
                offsets[KVC_STEP_SLOTS] - offsets[KVC_STEP_BLOCK_TABLES]);
    fill_unset(made);
    made.step.struct_size = sizeof(kvc_step);
    made.step.fill_id = -1;
    made.step.num_rows = static_cast<size_t>(own.max_rows);
    made.step.row_stride = static_cast<size_t>(own.row_stride);
    made.step.slot_capacity = static_cast<size_t>(own.max_tokens);
    made.step.copy_capacity = static_cast<size_t>(groups * own.max_requests);
    made.step.change_capacity = static_cast<size_t>(changes);
    point_arrays(made);
    auto* result = reinterpret_cast<MadeStep*>(memory);
    std::memcpy(memory, &made, sizeof made);
    result->step.internal = result;
    *step = &result->step;
    return KVC_OK;
  });
}

void kvc_step_destroy(kvc_step* step) {
  if (step == nullptr || step->internal == nullptr) return;
  auto* made = static_cast<MadeStep*>(step->internal);
  made->manager->release_for_caller(made, made->size);
}

kvc_status kvc_step_view(const kvc_step* step, int32_t array, kvc_view* view) {
  return kvc::guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(step);
    KVC_REQUIRE_POINTER(view);
    if (step->internal == nullptr)
      return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "this step was not made by kvc_step_create");
    if (array < 0 || array >= kNumArrays)
      return kvc::fail(KVC_ERROR_INVALID_ARGUMENT, "no array %d; 0 to %d", array, kNumArrays - 1);
    const auto* made = static_cast<const MadeStep*>(step->internal);
    const ArrayShape& shape = made->shapes[array];
    kvc_view out = {};
    out.data = made->arrays[array];
    out.dtype = shape.dtype;
    if (array > KVC_STEP_NUM_BLOCKS) out.shape[out.ndim++] = static_cast<int64_t>(shape.outer);
    if (array == KVC_STEP_BLOCK_TABLES) out.shape[out.ndim++] = static_cast<int64_t>(shape.middle);
    out.shape[out.ndim++] = static_cast<int64_t>(shape.inner);
    int64_t stride = int64_t{kvc::dtype_bits(shape.dtype)} / 8;
    for (int32_t d = out.ndim; d-- > 0;) {
      out.strides[d] = stride;
      stride *= out.shape[d];
    }
    *view = out;
    return KVC_OK;
  });
}

kvc_status kvc_manager_step(kvc_manager* m, kvc_step* step) {
  return kvc::on_manager(m, [&](Manager& manager) { return run_step(manager, step); });
}

kvc_status kvc_manager_retire_step(kvc_manager* m, uint64_t step_id) {
  return kvc::on_manager(m, [&](Manager& manager) { return manager.retire_step(step_id); });
}

}  // extern "C"
