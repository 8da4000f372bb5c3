/* SPDX-License-Identifier: Apache-2.0 */
/* The struct_size protocol in each call that takes a struct, with every size from 0 to beyond 4096: too small
 * or too large is INVALID_ARGUMENT, zeros behind the known fields are fine, anything else there is
 * UNSUPPORTED. Structs that calls fill have tests/api/struct_size_test.cc. */
#include <kvcache/model.h>
#include <kvcache/prefix.h>
#include <kvcache/sizing.h>
#include <kvcache/step.h>

#include "check.h"

enum { kMaxSize = 4096, kRoom = kMaxSize + 64 };

typedef union Room {
  uint64_t align[kRoom / 8];
  unsigned char bytes[kRoom];
} Room;

typedef kvc_status (*Call)(kvc_manager* m, void* object);

static int32_t tokens_[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void put_size(Room* room, size_t size) { memcpy(room->bytes, &size, sizeof size); }

static void load(Room* room, const void* object, size_t known, size_t size) {
  memset(room, 0, sizeof *room);
  memcpy(room->bytes, object, known);
  put_size(room, size);
}

/* `undo` gives back what a successful call made. */
static void check_input(const char* name, kvc_manager* m, const void* object, size_t known, Call call,
                        void (*undo)(kvc_manager*)) {
  static Room room;
  static const size_t too_large[] = {kMaxSize + 1,    kMaxSize + 8, (size_t)1 << 31,
                                     (size_t)1 << 32, SIZE_MAX / 2, SIZE_MAX};
  for (size_t i = 0; i < sizeof too_large / sizeof *too_large; ++i) {
    load(&room, object, known, too_large[i]);
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, call(m, room.bytes));
  }
  for (size_t size = 0; size <= kMaxSize; ++size) {
    load(&room, object, known, size);
    if (size < known) {
      REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, call(m, room.bytes));
      continue;
    }
    memset(room.bytes + size, 0xff, kRoom - size); /* not the struct's any more */
    if (size < known + 32 || size % 256 == 0) {
      OK(call(m, room.bytes));
      undo(m);
    }
    const size_t places[] = {known, (known + size) / 2, size - 1};
    for (size_t i = 0; i < 3 && size > known; ++i) {
      room.bytes[places[i]] = 1;
      REFUSED(m, KVC_ERROR_UNSUPPORTED, call(m, room.bytes));
      room.bytes[places[i]] = 0;
    }
  }
  printf("input  %s\n", name);
}

static kvc_manager* made_;
static kvc_step* made_step_;
static uint64_t made_id_;

static kvc_status create_manager(kvc_manager* m, void* object) {
  (void)m;
  return kvc_manager_create(object, &made_);
}
static kvc_status create_with_allocator(kvc_manager* m, void* object) {
  (void)m;
  kvc_manager_config config = small_config(4);
  config.allocator = object;
  return kvc_manager_create(&config, &made_);
}
static kvc_status create_with_group(kvc_manager* m, void* object) {
  (void)m;
  kvc_manager_config config = small_config(4);
  config.groups = object;
  config.num_groups = 1;
  return kvc_manager_create(&config, &made_);
}
static kvc_status create_with_pool(kvc_manager* m, void* object) {
  (void)m;
  kvc_manager_config config = small_config(0);
  config.pools = object;
  config.num_pools = 1;
  return kvc_manager_create(&config, &made_);
}
static void destroy_made(kvc_manager* m) {
  (void)m;
  kvc_manager_destroy(made_);
}
static kvc_status open_namespace(kvc_manager* m, void* object) {
  return kvc_manager_open_namespace(m, object, &made_id_);
}
static void close_namespace(kvc_manager* m) { OK(kvc_manager_close_namespace(m, made_id_)); }
static kvc_status create_request(kvc_manager* m, void* object) {
  return kvc_manager_create_request(m, PROMPT(0, tokens_, 8, NULL, 0), object, &made_id_);
}
static kvc_status allocate_request(kvc_manager* m, void* object) {
  return kvc_manager_allocate_request(m, PROMPT(0, tokens_, 8, NULL, 0), object, &made_id_, NULL);
}
static void free_request(kvc_manager* m) { OK(kvc_manager_free_request(m, made_id_)); }
static kvc_status create_step(kvc_manager* m, void* object) {
  return kvc_step_create(m, object, &made_step_);
}
static void destroy_step(kvc_manager* m) {
  (void)m;
  kvc_step_destroy(made_step_);
}
static kvc_status run_step(kvc_manager* m, void* object) { return kvc_manager_step(m, object); }
static kvc_status admit_in_step(kvc_manager* m, void* object) {
  const uint64_t offsets[2] = {0, 8};
  uint64_t cached = 0;
  kvc_status status = KVC_OK;
  kvc_step step = {
      .struct_size = sizeof step, .num_admissions = 1, .admit_offsets = offsets, .admit_tokens = tokens_};
  step.admit_configs = object;
  step.admitted = &made_id_;
  step.cached = &cached;
  step.status = &status;
  const kvc_status whole = kvc_manager_step(m, &step);
  if (whole != KVC_OK) return whole;
  OK(kvc_manager_retire_step(m, step.step_id));
  return status;
}
static void nothing(kvc_manager* m) { (void)m; }

static kvc_status estimate(kvc_manager* m, void* object) {
  (void)m;
  kvc_memory_estimate out = {.struct_size = sizeof out};
  return kvc_estimate_memory(object, &out);
}
static kvc_status estimate_of_model(kvc_manager* m, void* object) {
  kvc_memory_query query = {.struct_size = sizeof query, .model = object, .tokens = 100};
  return estimate(m, &query);
}
static kvc_workload* workload_;
static kvc_sizer* sizer_;
static kvc_status open_curve(kvc_manager* m, void* object) {
  return kvc_manager_open_curve(m, KVC_ALL_NAMESPACES, object);
}
static void close_curve(kvc_manager* m) { OK(kvc_manager_close_curve(m, KVC_ALL_NAMESPACES)); }
static kvc_status make_workload(kvc_manager* m, void* object) {
  (void)m;
  return kvc_workload_create(object, &workload_);
}
static void end_workload(kvc_manager* m) {
  (void)m;
  kvc_workload_destroy(workload_);
}
static kvc_status make_sizer(kvc_manager* m, void* object) {
  (void)m;
  return kvc_sizer_create(object, &sizer_);
}
static void end_sizer(kvc_manager* m) {
  (void)m;
  kvc_sizer_destroy(sizer_);
}
static void* take(void* user_data, size_t size, size_t alignment) {
  (void)user_data;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
static void give_back(void* user_data, void* memory, size_t size, size_t alignment) {
  (void)user_data, (void)size, (void)alignment;
  free(memory);
}

/* In an array the first element's struct_size is the stride, and every element must have it. */
static void check_arrays(kvc_manager* m) {
  static Room room;
  const size_t stride = sizeof(kvc_group_config) + 24;
  kvc_manager_config config = small_config(4);
  config.groups = (const kvc_group_config*)(const void*)room.bytes;
  config.num_groups = 2;
  const kvc_group_config full = {.struct_size = stride};
  const kvc_group_config window = {
      .struct_size = stride, .kind = KVC_GROUP_SLIDING_WINDOW, .window_tokens = 8};
  memset(&room, 0, sizeof room);
  memcpy(room.bytes, &full, sizeof full);
  memcpy(room.bytes + stride, &window, sizeof window);
  OK(kvc_manager_create(&config, &made_));
  kvc_properties p = {.struct_size = sizeof p};
  OK(kvc_manager_properties(made_, &p));
  CHECK_EQ(p.num_groups, 2);
  kvc_manager_destroy(made_);

  const size_t other = stride + 8;
  memcpy(room.bytes + stride, &other, sizeof other);
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_create(&config, &made_));
  memcpy(room.bytes + stride, &stride, sizeof stride);
  room.bytes[2 * stride - 1] = 1;
  REFUSED(m, KVC_ERROR_UNSUPPORTED, kvc_manager_create(&config, &made_));
}

int main(void) {
  kvc_manager* m = small_manager(8);

  const kvc_manager_config manager = small_config(4);
  const kvc_allocator allocator = {.struct_size = sizeof allocator, .allocate = take, .release = give_back};
  const kvc_group_config group = {.struct_size = sizeof group};
  const kvc_pool_config pool = {.struct_size = sizeof pool, .num_blocks = 4};
  const kvc_namespace_config space = {.struct_size = sizeof space, .tenant = "a", .tenant_size = 1};
  const kvc_request_config request = {.struct_size = sizeof request};
  const kvc_step_limits limits = {.struct_size = sizeof limits, .max_requests = 1};
  const kvc_step step = {.struct_size = sizeof step, .fill_id = -1};
  check_input("kvc_manager_config", m, &manager, sizeof manager, create_manager, destroy_made);
  check_input("kvc_allocator", m, &allocator, sizeof allocator, create_with_allocator, destroy_made);
  check_input("kvc_group_config", m, &group, sizeof group, create_with_group, destroy_made);
  check_input("kvc_pool_config", m, &pool, sizeof pool, create_with_pool, destroy_made);
  check_input("kvc_namespace_config", m, &space, sizeof space, open_namespace, close_namespace);
  check_input("kvc_request_config", m, &request, sizeof request, create_request, free_request);
  check_input("kvc_request_config", m, &request, sizeof request, allocate_request, free_request);
  check_input("kvc_request_config in a step", m, &request, sizeof request, admit_in_step, free_request);
  check_input("kvc_step_limits", m, &limits, sizeof limits, create_step, destroy_step);
  check_input("kvc_step", m, &step, sizeof step, run_step, nothing);
  const kvc_model model = {.struct_size = sizeof model, .num_layers = 1, .num_kv_heads = 1, .head_dim = 8};
  const kvc_memory_query query = {.struct_size = sizeof query, .model = &model, .tokens = 100};
  check_input("kvc_model", m, &model, sizeof model, estimate_of_model, nothing);
  check_input("kvc_memory_query", m, &query, sizeof query, estimate, nothing);
  const kvc_curve_config curve = {.struct_size = sizeof curve, .sample_rate = 1, .max_blocks = 10};
  const kvc_workload_config workload = {.struct_size = sizeof workload, .window = 2};
  const kvc_sizer_config sizer = {.struct_size = sizeof sizer, .window = 2, .log_capacity = 2};
  check_input("kvc_curve_config", m, &curve, sizeof curve, open_curve, close_curve);
  check_input("kvc_workload_config", m, &workload, sizeof workload, make_workload, end_workload);
  check_input("kvc_sizer_config", m, &sizer, sizeof sizer, make_sizer, end_sizer);
  check_arrays(m);

  end_manager(m);
  return 0;
}
