// SPDX-License-Identifier: Apache-2.0
#include "api/made_step.h"

#include <algorithm>

#include "api/guard.h"
#include "base/dtype.h"
#include "manager/step.h"

namespace kvc {
namespace {

struct ArrayShape {
  int32_t dtype;
  uint64_t outer, middle, inner;  // see has_outer() for arrays without the outer dimensions
};

// By KVC_STEP_*: the array's name, and where its pointer lies in a kvc_step.
struct StepArray {
  const char* name;
  size_t field;
};
#define KVC_ARRAY(name) \
  { #name, offsetof(kvc_step, name) }
constexpr StepArray kArrays[] = {KVC_ARRAY(frees),
                                 KVC_ARRAY(preempts),
                                 KVC_ARRAY(truncates),
                                 KVC_ARRAY(truncate_lengths),
                                 KVC_ARRAY(requests),
                                 KVC_ARRAY(committed),
                                 KVC_ARRAY(commit_offsets),
                                 KVC_ARRAY(commit_tokens),
                                 KVC_ARRAY(extend_offsets),
                                 KVC_ARRAY(extend_tokens),
                                 KVC_ARRAY(admit_requests),
                                 KVC_ARRAY(admit_offsets),
                                 KVC_ARRAY(admit_tokens),
                                 KVC_ARRAY(rows),
                                 KVC_ARRAY(status),
                                 KVC_ARRAY(admitted),
                                 KVC_ARRAY(cached),
                                 KVC_ARRAY(num_blocks),
                                 KVC_ARRAY(block_tables),
                                 KVC_ARRAY(slots),
                                 KVC_ARRAY(copies),
                                 KVC_ARRAY(changes),
                                 KVC_ARRAY(admit_namespaces),
                                 KVC_ARRAY(admit_slots)};
#undef KVC_ARRAY
constexpr int kNumArrays = KVC_STEP_ADMIT_SLOTS + 1;
static_assert(sizeof kArrays / sizeof *kArrays == kNumArrays);

// What kvc_step_create makes room for, or what a step uses.
struct Counts {
  uint64_t groups, frees, preempts, truncates, requests, admissions, slots, copies, changes;
  uint64_t tokens, prompt_tokens, rows, row_stride;
};

struct MadeStep {
  kvc_step step;
  Manager* manager;
  size_t size;
  Counts room;
  ArrayShape shapes[kNumArrays];
  char* arrays[kNumArrays];
};

const MadeStep& made_of(const kvc_step& step) { return *static_cast<const MadeStep*>(step.internal); }

// Whether the step uses the array that was made for it, and none of the caller's own.
bool uses_made(const kvc_step& step, int array) {
  return std::memcmp(reinterpret_cast<const char*>(&step) + kArrays[array].field,
                     &made_of(step).arrays[array], sizeof(char*)) == 0;
}

void fill_shapes(const Counts& n, ArrayShape* shapes) {
  const auto set = [&](int array, int32_t dtype, uint64_t inner, uint64_t outer = 0, uint64_t middle = 0) {
    shapes[array] = {dtype, outer, middle, inner};
  };
  const uint64_t items = n.requests + n.admissions;
  set(KVC_STEP_FREES, KVC_UINT64, n.frees);
  set(KVC_STEP_PREEMPTS, KVC_UINT64, n.preempts);
  set(KVC_STEP_TRUNCATES, KVC_UINT64, n.truncates);
  set(KVC_STEP_TRUNCATE_LENGTHS, KVC_UINT64, n.truncates);
  set(KVC_STEP_REQUESTS, KVC_UINT64, n.requests);
  set(KVC_STEP_COMMITTED, KVC_UINT64, n.requests);
  set(KVC_STEP_COMMIT_OFFSETS, KVC_UINT64, n.requests + 1);
  set(KVC_STEP_COMMIT_TOKENS, KVC_INT32, n.tokens);
  set(KVC_STEP_EXTEND_OFFSETS, KVC_UINT64, n.requests + 1);
  set(KVC_STEP_EXTEND_TOKENS, KVC_INT32, n.tokens);
  set(KVC_STEP_ADMIT_REQUESTS, KVC_UINT64, n.admissions);
  set(KVC_STEP_ADMIT_OFFSETS, KVC_UINT64, n.admissions + 1);
  set(KVC_STEP_ADMIT_TOKENS, KVC_INT32, n.prompt_tokens);
  set(KVC_STEP_ROWS, KVC_INT32, items);
  set(KVC_STEP_STATUS, KVC_INT32, n.frees + n.preempts + n.truncates + items);
  set(KVC_STEP_ADMITTED, KVC_UINT64, n.admissions);
  set(KVC_STEP_CACHED, KVC_UINT64, n.admissions);
  set(KVC_STEP_NUM_BLOCKS, KVC_UINT64, n.groups * items);
  set(KVC_STEP_BLOCK_TABLES, KVC_INT32, n.row_stride, n.groups, n.rows);
  set(KVC_STEP_SLOTS, KVC_INT64, n.slots, n.groups);
  set(KVC_STEP_COPIES, KVC_INT32, 2, n.copies);
  set(KVC_STEP_CHANGES, KVC_INT32, 4, n.changes);
  set(KVC_STEP_ADMIT_NAMESPACES, KVC_UINT64, n.admissions);
  set(KVC_STEP_ADMIT_SLOTS, KVC_UINT64, n.admissions);
}

// Entries as capacities count them: of one group, and whole copies and changes.
uint64_t entries(int array, const ArrayShape& shape) {
  if (array == KVC_STEP_BLOCK_TABLES) return shape.middle * shape.inner;
  return array == KVC_STEP_COPIES || array == KVC_STEP_CHANGES ? shape.outer : shape.inner;
}

constexpr bool has_outer(int array) { return array >= KVC_STEP_BLOCK_TABLES && array <= KVC_STEP_CHANGES; }

[[nodiscard]] bool bytes_of(int array, const ArrayShape& shape, size_t* bytes) {
  const bool has_middle = array == KVC_STEP_BLOCK_TABLES;
  *bytes = dtype_bits(shape.dtype) / 8;
  return checked_mul(*bytes, shape.inner, bytes) &&
         (!has_middle || checked_mul(*bytes, shape.middle, bytes)) &&
         (!has_outer(array) || checked_mul(*bytes, shape.outer, bytes)) && *bytes <= PTRDIFF_MAX;
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

kvc_status check_room(const kvc_step& step, int array, uint64_t used) {
  if (step.internal == nullptr) return KVC_OK;
  const uint64_t room = entries(array, made_of(step).shapes[array]);
  if (used <= room || !uses_made(step, array)) return KVC_OK;
  return invalid("the step needs %llu entries of %s; kvc_step_create made %llu: give it larger limits",
                 ull(used), kArrays[array].name, ull(room));
}

kvc_status check_made_step(const Manager& manager, const kvc_step& step) {
  if (step.internal == nullptr) return KVC_OK;
  if (made_of(step).manager != &manager)
    return invalid("this step was made for another manager; make one for this manager by kvc_step_create");
  const Counts& room = made_of(step).room;
  const bool within = step.num_frees <= room.frees && step.num_preempts <= room.preempts &&
                      step.num_truncates <= room.truncates && step.num_requests <= room.requests &&
                      step.num_admissions <= room.admissions && step.slot_capacity <= room.slots &&
                      step.copy_capacity <= room.copies && step.change_capacity <= room.changes;
  if (within) return KVC_OK;
  // More than was asked for: all right where the caller has put larger arrays of its own. Those of tokens and
  // block tables are checked with their offsets and rows.
  const Counts used = {room.groups,
                       step.num_frees,
                       step.num_preempts,
                       step.num_truncates,
                       step.num_requests,
                       step.num_admissions,
                       step.slot_capacity,
                       step.copy_capacity,
                       step.change_capacity,
                       0,
                       0,
                       0,
                       0};
  ArrayShape shapes[kNumArrays];
  fill_shapes(used, shapes);
  for (int array = 0; array < kNumArrays; ++array) {
    KVC_TRY(check_room(step, array, entries(array, shapes[array])));
  }
  return KVC_OK;
}

void unset_inputs(const kvc_step& step, bool created) {
  const MadeStep& made = made_of(step);
  const auto taken = [&](int array, size_t first, uint64_t count) {
    if (uses_made(step, array)) unset(made, array, first, static_cast<size_t>(count));
  };
  taken(KVC_STEP_TRUNCATE_LENGTHS, 0, step.num_truncates);
  if (step.commit_offsets != nullptr)
    taken(KVC_STEP_COMMIT_TOKENS, 0, step.commit_offsets[step.num_requests]);
  if (step.extend_offsets != nullptr)
    taken(KVC_STEP_EXTEND_TOKENS, 0, step.extend_offsets[step.num_requests]);
  if (uses_made(step, KVC_STEP_ADMIT_SLOTS))
    std::memset(made.arrays[KVC_STEP_ADMIT_SLOTS], 0, step.num_admissions * sizeof(uint64_t));
  if (!created) return;
  taken(KVC_STEP_ADMIT_TOKENS, 0, step.admit_offsets[step.num_admissions]);
  taken(KVC_STEP_ADMIT_OFFSETS, 1, step.num_admissions);
  if (uses_made(step, KVC_STEP_ADMIT_NAMESPACES))
    std::memset(made.arrays[KVC_STEP_ADMIT_NAMESPACES], 0, step.num_admissions * sizeof(uint64_t));
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
    const uint64_t copying = own.max_requests + (manager.shape().reuses_heads() ? own.max_admissions : 0);
    MadeStep made = {};
    made.room = {groups,           own.max_frees,      own.max_frees,         own.max_frees,
                 own.max_requests, own.max_admissions, own.max_tokens,        groups * copying,
                 own.max_changes,  own.max_tokens,     own.max_prompt_tokens, own.max_rows,
                 own.row_stride};
    const uint64_t items = own.max_requests + own.max_admissions;
    size_t size = (sizeof(MadeStep) + 63) & ~size_t{63};
    size_t offsets[kNumArrays];
    bool fits = own.max_changes != 0 || checked_mul(groups * items, own.row_stride, &made.room.changes);
    fill_shapes(made.room, made.shapes);
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
    for (int i = 0; i < kNumArrays; ++i) {
      made.arrays[i] = memory + offsets[i];
      std::memcpy(reinterpret_cast<char*>(&made.step) + kArrays[i].field, &made.arrays[i], sizeof(char*));
    }
    std::memset(made.arrays[KVC_STEP_BLOCK_TABLES], 0xff,
                offsets[KVC_STEP_SLOTS] - offsets[KVC_STEP_BLOCK_TABLES]);
    fill_unset(made);
    made.step.struct_size = sizeof(kvc_step);
    made.step.fill_id = -1;
    made.step.num_rows = static_cast<size_t>(own.max_rows);
    made.step.row_stride = static_cast<size_t>(own.row_stride);
    made.step.slot_capacity = static_cast<size_t>(own.max_tokens);
    made.step.copy_capacity = static_cast<size_t>(made.room.copies);
    made.step.change_capacity = static_cast<size_t>(made.room.changes);
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
    const MadeStep& made = made_of(*step);
    const ArrayShape& shape = made.shapes[array];
    kvc_view out = {};
    out.data = made.arrays[array];
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
