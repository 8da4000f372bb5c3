// SPDX-License-Identifier: Apache-2.0
#include "api/made_step.h"

#include <algorithm>

#include "api/guard.h"
#include "base/dtype.h"
#include "manager/step.h"

namespace kvc {
namespace {

// One array of a made step: where it lies in the allocation, and its shape.
struct ArrayShape {
  int32_t dtype;
  uint64_t outer, middle, inner;  // 0 in outer or middle = no such dimension
};

constexpr int kNumArrays = KVC_STEP_ADMIT_NAMESPACES + 1;
// By KVC_STEP_*.
constexpr const char* kArrayNames[] = {
    "frees",          "preempts",      "truncates",       "truncate_lengths",
    "requests",       "committed",     "commit_offsets",  "commit_tokens",
    "extend_offsets", "extend_tokens", "admit_requests",  "admit_offsets",
    "admit_tokens",   "rows",          "status",          "admitted",
    "cached",         "num_blocks",    "block_tables",    "slots",
    "copies",         "changes",       "admit_namespaces"};
static_assert(sizeof kArrayNames / sizeof *kArrayNames == kNumArrays);

struct MadeStep {
  kvc_step step;
  Manager* manager;
  size_t size;
  kvc_step_limits limits;
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
  set(KVC_STEP_ADMIT_NAMESPACES, KVC_UINT64, 0, 0, admissions);
}

constexpr bool has_outer(int array) { return array >= KVC_STEP_BLOCK_TABLES && array <= KVC_STEP_CHANGES; }

[[nodiscard]] bool bytes_of(int array, const ArrayShape& shape, size_t* bytes) {
  const bool has_middle = array == KVC_STEP_BLOCK_TABLES;
  *bytes = dtype_bits(shape.dtype) / 8;
  return checked_mul(*bytes, shape.inner, bytes) &&
         (!has_middle || checked_mul(*bytes, shape.middle, bytes)) &&
         (!has_outer(array) || checked_mul(*bytes, shape.outer, bytes)) && *bytes <= PTRDIFF_MAX;
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
  point(step.admit_namespaces, arrays[KVC_STEP_ADMIT_NAMESPACES]);
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
  const size_t width = dtype_bits(made.shapes[array].dtype) / 8;
  std::memset(made.arrays[array] + first * width, 0xff, count * width);
}

void fill_unset(const MadeStep& made) {
  for (const int array : kUnsetArrays) unset(made, array, 0, made.shapes[array].inner);
  *reinterpret_cast<uint64_t*>(made.arrays[KVC_STEP_ADMIT_OFFSETS]) = 0;  // where all offsets begin
  auto* rows = reinterpret_cast<int32_t*>(made.arrays[KVC_STEP_ROWS]);
  std::fill_n(rows, made.shapes[KVC_STEP_ROWS].inner, kUnsetRow);  // -1 would be a value
}

}  // namespace

kvc_status check_room(const kvc_step& step, int array, const void* used_array, uint64_t used) {
  if (step.internal == nullptr) return KVC_OK;
  const auto& made = *static_cast<const MadeStep*>(step.internal);
  const ArrayShape& shape = made.shapes[array];
  const uint64_t room = array == KVC_STEP_BLOCK_TABLES                          ? shape.middle * shape.inner
                        : array == KVC_STEP_COPIES || array == KVC_STEP_CHANGES ? shape.outer
                                                                                : shape.inner;
  if (used <= room || used_array != made.arrays[array]) return KVC_OK;
  return invalid("the step needs %llu entries of %s; kvc_step_create made %llu: give it larger limits",
                 ull(used), kArrayNames[array], ull(room));
}

kvc_status check_made_step(const Manager& manager, const kvc_step& step) {
  if (step.internal == nullptr) return KVC_OK;
  const auto& made = *static_cast<const MadeStep*>(step.internal);
  if (made.manager != &manager)
    return invalid("this step was made for another manager; make one for this manager by kvc_step_create");
  const kvc_step_limits& limits = made.limits;
  const bool within = step.num_frees <= limits.max_frees && step.num_preempts <= limits.max_frees &&
                      step.num_truncates <= limits.max_frees && step.num_requests <= limits.max_requests &&
                      step.num_admissions <= limits.max_admissions &&
                      step.slot_capacity <= limits.max_tokens &&
                      step.copy_capacity <= made.shapes[KVC_STEP_COPIES].outer &&
                      step.change_capacity <= made.shapes[KVC_STEP_CHANGES].outer;
  if (within) return KVC_OK;
  // More than was asked for: all right where the caller has put larger arrays of its own.
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
      {KVC_STEP_CHANGES, step.changes, step.change_capacity},
      {KVC_STEP_ADMIT_NAMESPACES, step.admit_namespaces, step.num_admissions}};
  for (const auto& room : rooms) {
    KVC_TRY(check_room(step, room.array, room.used, room.count));
  }
  return KVC_OK;
}

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
  if (step.admit_namespaces == reinterpret_cast<uint64_t*>(made.arrays[KVC_STEP_ADMIT_NAMESPACES]))
    std::fill_n(made.arrays[KVC_STEP_ADMIT_NAMESPACES], step.num_admissions * sizeof(uint64_t), char{0});
}

}  // namespace kvc

using namespace kvc;

extern "C" {

kvc_status kvc_step_create(kvc_manager* m, const kvc_step_limits* limits, kvc_step** step) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    KVC_REQUIRE_POINTER(limits);
    KVC_REQUIRE_POINTER(step);
    kvc_step_limits own;
    KVC_TRY(read_struct(limits, &own));
    constexpr uint64_t kMost = uint64_t{1} << 40;  // so that sums and products below cannot wrap unseen
    for (const uint64_t value : {own.max_frees, own.max_requests, own.max_admissions, own.max_tokens,
                                 own.max_prompt_tokens, own.max_rows, own.row_stride, own.max_changes}) {
      if (value > kMost) return invalid("a step limit is %llu; at most 2^40", ull(value));
    }
    const uint64_t groups = manager.shape().num_groups;
    uint64_t changes = own.max_changes;
    MadeStep made = {};
    size_t size = (sizeof(MadeStep) + 63) & ~size_t{63};
    size_t offsets[kNumArrays];
    bool fits = changes != 0 ||
                checked_mul(groups * (own.max_requests + own.max_admissions), own.row_stride, &changes);
    fill_shapes(own, groups, changes, made.shapes);
    for (int i = 0; i < kNumArrays && fits; ++i) {
      size_t bytes;
      offsets[i] = size;
      fits = bytes_of(i, made.shapes[i], &bytes) && checked_add(size, (bytes + 63) & ~size_t{63}, &size) &&
             size <= PTRDIFF_MAX;
    }
    if (!fits) return invalid("the arrays of this step are larger than the address space");
    auto* memory = static_cast<char*>(manager.allocate_for_caller(size));
    if (memory == nullptr) return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for a step of %zu bytes", size);
    std::memset(memory, 0, size);
    made.manager = &manager;
    made.size = size;
    made.limits = own;
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
  return guarded([&]() -> kvc_status {
    KVC_REQUIRE_POINTER(step);
    KVC_REQUIRE_POINTER(view);
    if (step->internal == nullptr) return invalid("this step was not made by kvc_step_create");
    if (array < 0 || array >= kNumArrays) return invalid("no array %d; 0 to %d", array, kNumArrays - 1);
    const auto* made = static_cast<const MadeStep*>(step->internal);
    const ArrayShape& shape = made->shapes[array];
    kvc_view out = {};
    out.data = made->arrays[array];
    out.dtype = shape.dtype;
    if (has_outer(array)) out.shape[out.ndim++] = static_cast<int64_t>(shape.outer);
    if (array == KVC_STEP_BLOCK_TABLES) out.shape[out.ndim++] = static_cast<int64_t>(shape.middle);
    out.shape[out.ndim++] = static_cast<int64_t>(shape.inner);
    int64_t stride = int64_t{dtype_bits(shape.dtype)} / 8;
    for (int32_t d = out.ndim; d-- > 0;) {
      out.strides[d] = stride;
      stride *= out.shape[d];
    }
    *view = out;
    return KVC_OK;
  });
}

}  // extern "C"
