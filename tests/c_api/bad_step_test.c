/* SPDX-License-Identifier: Apache-2.0 */
/* Structural faults of a step: missing pointers, offsets, rows, flags, retired_step. The call fails as a
 * whole before any change: nothing is written to any output array, and the state stays. Faults of single
 * items are the items' own. */
#include <kvcache/step.h>

#include "check.h"

static kvc_manager* m;
static int32_t tokens_[32];
static uint64_t running_[2], waiting_[1], frees_[1];

/* All arrays of a step of two running requests, one waiting and one new one. */
static uint64_t committed_[2] = {9, 9}, no_commits_[3], extend_[3] = {0, 1, 3}, admit_[3] = {0, 0, 9},
                length_[1] = {4};
static uint64_t admit_requests_[2], key_offsets_[3] = {0, 0, 1};
static kvc_extra_key keys_[1] = {{.first_token = 1, .num_tokens = 2}};
static int32_t rows_[4] = {0, 1, 2, 3};
static kvc_status status_[8];
static uint64_t admitted_[2], cached_[2], num_blocks_[4];
static int32_t tables_[4][8];
static int64_t slots_[4];
static kvc_block_copy copies_[4];
static kvc_table_change changes_[64];

static kvc_step good_step(void) {
  return (kvc_step){.struct_size = sizeof(kvc_step),
                    .fill_id = -1,
                    .num_requests = 2,
                    .num_admissions = 2,
                    .num_rows = 4,
                    .row_stride = 8,
                    .slot_capacity = 4,
                    .copy_capacity = 4,
                    .change_capacity = 64,
                    .requests = running_,
                    .committed = committed_,
                    .commit_offsets = no_commits_,
                    .commit_tokens = tokens_,
                    .extend_offsets = extend_,
                    .extend_tokens = tokens_,
                    .admit_requests = admit_requests_,
                    .admit_offsets = admit_,
                    .admit_tokens = tokens_,
                    .admit_key_offsets = key_offsets_,
                    .admit_keys = keys_,
                    .rows = rows_,
                    .status = status_,
                    .admitted = admitted_,
                    .cached = cached_,
                    .num_blocks = num_blocks_,
                    .block_tables = tables_[0],
                    .slots = slots_,
                    .copies = copies_,
                    .changes = changes_};
}

static void poison_outputs(void) {
  memset(status_, POISON_BYTE, sizeof status_);
  memset(admitted_, POISON_BYTE, sizeof admitted_);
  memset(cached_, POISON_BYTE, sizeof cached_);
  memset(num_blocks_, POISON_BYTE, sizeof num_blocks_);
  memset(tables_, POISON_BYTE, sizeof tables_);
  memset(slots_, POISON_BYTE, sizeof slots_);
  memset(copies_, POISON_BYTE, sizeof copies_);
  memset(changes_, POISON_BYTE, sizeof changes_);
}

static void expect_poison(const void* memory, size_t size) {
  const unsigned char* bytes = memory;
  for (size_t i = 0; i < size; ++i) CHECK_EQ(bytes[i], POISON_BYTE);
}

static void refuse(kvc_step* step, kvc_status status, const char* value, const char* limit) {
  poison_outputs();
  const kvc_step before = *step;
  REFUSED_SAYING(m, status, kvc_manager_step(m, step), value, limit);
  expect_poison(status_, sizeof status_);
  expect_poison(admitted_, sizeof admitted_);
  expect_poison(cached_, sizeof cached_);
  expect_poison(num_blocks_, sizeof num_blocks_);
  expect_poison(tables_, sizeof tables_);
  expect_poison(slots_, sizeof slots_);
  expect_poison(copies_, sizeof copies_);
  expect_poison(changes_, sizeof changes_);
  if (status != KVC_ERROR_BUFFER_TOO_SMALL) CHECK(memcmp(step, &before, sizeof before) == 0);
}

static void test_missing_pointers(void) {
  const kvc_status bad = KVC_ERROR_INVALID_ARGUMENT;
  kvc_step s;
  s = good_step(), s.requests = NULL, refuse(&s, bad, "", "");
  s = good_step(), s.commit_tokens = NULL, s.commit_offsets = extend_, refuse(&s, bad, "", "");
  s = good_step(), s.admit_offsets = NULL, refuse(&s, bad, "", ""); /* one admission is new */
  s = good_step(), s.admit_tokens = NULL, refuse(&s, bad, "", "");
  s = good_step(), s.admit_keys = NULL, refuse(&s, bad, "", "");
  s = good_step(), s.status = NULL, refuse(&s, bad, "", "");
  s = good_step(), s.admitted = NULL, refuse(&s, bad, "", "");
  s = good_step(), s.cached = NULL, refuse(&s, bad, "", "");
  s = good_step(), s.copies = NULL, refuse(&s, bad, "", "");
  s = good_step(), s.num_frees = 1, refuse(&s, bad, "", "");
  s = good_step(), s.num_preempts = 1, refuse(&s, bad, "", "");
  s = good_step(), s.num_truncates = 1, s.truncate_lengths = length_, refuse(&s, bad, "", "");
  s = good_step(), s.num_truncates = 1, s.truncates = frees_, refuse(&s, bad, "", "");
}

static void test_offsets(void) {
  static const uint64_t wrong[][3] = {
      {1, 2, 3}, {0, 2, 1}, {0, UINT64_MAX, 0}, {UINT64_MAX, 0, 1}, {0, (uint64_t)1 << 63, 1}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    kvc_step s;
    s = good_step(), s.extend_offsets = wrong[i], refuse(&s, KVC_ERROR_INVALID_ARGUMENT, "", "");
    s = good_step(), s.commit_offsets = wrong[i], refuse(&s, KVC_ERROR_INVALID_ARGUMENT, "", "");
    s = good_step(), s.admit_offsets = wrong[i], refuse(&s, KVC_ERROR_INVALID_ARGUMENT, "", "");
    s = good_step(), s.admit_key_offsets = wrong[i], refuse(&s, KVC_ERROR_INVALID_ARGUMENT, "", "");
  }
}

static void test_rows_and_numbers(void) {
  const kvc_status bad = KVC_ERROR_INVALID_ARGUMENT;
  static const int32_t wrong[] = {4, -2, INT32_MAX, INT32_MIN};
  static const char* const names[] = {"4", "-2", "2147483647", "-2147483648"};
  kvc_step s;
  for (int i = 0; i < 4; ++i) {
    for (int at = 0; at < 4; ++at) {
      const int32_t kept = rows_[at];
      rows_[at] = wrong[i];
      s = good_step(), refuse(&s, bad, names[i], "4");
      rows_[at] = kept;
    }
  }
  s = good_step(), s.num_rows = 3, refuse(&s, bad, "3", "3"); /* row 3 of 3 */
  s = good_step(), s.num_rows = 3, s.rows = NULL, refuse(&s, bad, "3", "3");
  s = good_step(), s.row_stride = SIZE_MAX, refuse(&s, bad, "", "");
  s = good_step(), s.num_rows = SIZE_MAX, s.row_stride = SIZE_MAX, refuse(&s, bad, "", "");
  s = good_step(), s.retired_step = 1, refuse(&s, bad, "1", "0"); /* none was issued */
  s = good_step(), s.retired_step = UINT64_MAX, refuse(&s, bad, "18446744073709551615", "0");
  s = good_step(), s.flags = KVC_STEP_ADMIT_ALL_OR_NONE, s.admit_requests = s.admitted;
  refuse(&s, bad, "one array", "two");
  for (int bit = 3; bit < 32; ++bit)
    s = good_step(), s.flags = 1u << bit, refuse(&s, KVC_ERROR_UNSUPPORTED, "", "");
}

static void test_configs(void) {
  kvc_request_config configs[2] = {{.struct_size = sizeof *configs}, {.struct_size = sizeof *configs}};
  const uint64_t kept = admit_requests_[0];
  admit_requests_[0] = 0; /* both are new */
  kvc_step s;
  configs[1].struct_size += 8;
  s = good_step(), s.admit_configs = configs, refuse(&s, KVC_ERROR_INVALID_ARGUMENT, "120", "112");
  configs[1].struct_size = sizeof *configs, configs[1].flags = 1u << 31;
  s = good_step(), s.admit_configs = configs, refuse(&s, KVC_ERROR_UNSUPPORTED, "0x80000000", "");
  configs[0].struct_size = 8;
  s = good_step(), s.admit_configs = configs, refuse(&s, KVC_ERROR_INVALID_ARGUMENT, "8", "112");
  admit_requests_[0] = kept;
}

static void test_buffers(void) {
  kvc_step s = good_step();
  s.slot_capacity = 2;
  refuse(&s, KVC_ERROR_BUFFER_TOO_SMALL, "2", "3");
  CHECK_EQ(s.num_slots, 3);
  s = good_step(), s.slot_capacity = 0,
  s.slots = NULL; /* not wanted at all is fine: see the good step below */
  s.change_capacity = 1;
  refuse(&s, KVC_ERROR_BUFFER_TOO_SMALL, "1", "");
  CHECK(s.num_changes > 1);
}

/* A wrong item does not hold up the others. */
static void test_item_faults(void) {
  int32_t wrong[3] = {5, 1000, 5}; /* the second request's first token is out of range */
  kvc_step s = good_step();
  poison_outputs();
  s.extend_tokens = wrong;
  committed_[0] = 10;               /* more than is known */
  admit_requests_[0] = running_[0]; /* admitted already */
  OK(kvc_manager_step(m, &s));
  CHECK_EQ(status_[0], KVC_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(status_[1], KVC_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(status_[2], KVC_ERROR_BUSY);
  CHECK_EQ(status_[3], KVC_OK);
  CHECK(admitted_[0] == 0 && admitted_[1] != 0);
  CHECK_EQ(request_info(m, running_[0]).num_tokens, 9); /* the commit failed, so nothing is extended */
  CHECK_EQ(request_info(m, running_[1]).num_tokens, 9);
  CHECK_EQ(request_info(m, running_[1]).num_committed, 9); /* its commit stands */
  CHECK(slots_[0] == -1 && slots_[1] == -1 && slots_[2] == -1);
  OK(kvc_manager_retire_step(m, s.step_id));
  OK(kvc_manager_free_request(m, admitted_[1]));
}

/* Counts and offsets past the arrays of a made step are refused before anything of them is read. */
static void test_room_of_a_made_step(void) {
  const kvc_step_limits limits = {.struct_size = sizeof limits,
                                  .max_frees = 2,
                                  .max_requests = 3,
                                  .max_admissions = 4,
                                  .max_tokens = 5,
                                  .max_prompt_tokens = 6,
                                  .max_rows = 7,
                                  .row_stride = 8};
  kvc_step* s;
  OK(kvc_step_create(m, &limits, &s));
  s->rows = NULL;
  size_t* const counts[] = {&s->num_frees, &s->num_preempts, &s->num_truncates, &s->num_requests,
                            &s->num_admissions};
  const char* const rooms[] = {"2", "2", "2", "3", "4"};
  for (int i = 0; i < 5; ++i) {
    *counts[i] = 9;
    REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), "9", rooms[i]);
    *counts[i] = 0;
  }
  kvc_view view;
  const uint64_t own_ids[9] = {0};
  OK(kvc_step_view(s, KVC_STEP_TRUNCATES, &view));
  s->truncates = own_ids, s->num_truncates = 9; /* their lengths are still those of the made step */
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), "9", "2");
  s->truncates = view.data, s->num_truncates = 0;
  s->num_requests = 1, s->committed = NULL, s->slots = NULL;
  OK(kvc_step_view(s, KVC_STEP_COMMIT_OFFSETS, &view));
  ((uint64_t*)view.data)[1] = 19;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), "19", "5");
  ((uint64_t*)view.data)[1] = 0;
  OK(kvc_step_view(s, KVC_STEP_EXTEND_OFFSETS, &view));
  ((uint64_t*)view.data)[1] = 18;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), "18", "5");
  ((uint64_t*)view.data)[1] = 0;
  s->num_requests = 0, s->num_admissions = 1;
  OK(kvc_step_view(s, KVC_STEP_ADMIT_OFFSETS, &view));
  ((uint64_t*)view.data)[1] = 17;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), "17", "6");
  ((uint64_t*)view.data)[1] = 0;
  size_t* const capacities[] = {&s->num_rows, &s->row_stride, &s->copy_capacity, &s->change_capacity};
  const char* const used[] = {"128", "112", "16", "72"}; /* 7 rows of 8 entries, copies of 3 requests, */
  const char* const made[] = {"56", "56", "3", "56"};    /* changes of 3 + 4 rows */
  for (int i = 0; i < 4; ++i) {
    const size_t kept = *capacities[i];
    *capacities[i] = i == 3 ? 72 : 16;
    REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), used[i], made[i]);
    *capacities[i] = kept;
  }
  OK(kvc_step_view(s, KVC_STEP_SLOTS, &view));
  s->slots = view.data, s->slot_capacity = 6;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), "6", "5");
  s->slot_capacity = 5, s->num_rows = 8, s->row_stride = 7; /* the same room, otherwise cut */
  OK(kvc_step_view(s, KVC_STEP_ADMIT_OFFSETS, &view));
  ((uint64_t*)view.data)[1] = 17;
  int32_t own[17] = {0}; /* an array of the caller's own has the caller's length */
  s->admit_tokens = own;
  OK(kvc_manager_step(m, s));
  OK(kvc_manager_free_request(m, s->admitted[0]));
  kvc_step_destroy(s);
}

/* Of a made step whose arrays are the caller's own but for one, that one still bounds the counts. */
static void test_one_array_of_a_made_step(void) {
  const kvc_step_limits limits = {.struct_size = sizeof limits,
                                  .max_frees = 2,
                                  .max_requests = 3,
                                  .max_admissions = 4,
                                  .max_tokens = 5,
                                  .max_prompt_tokens = 6,
                                  .max_rows = 32,
                                  .row_stride = 8};
  kvc_step* s;
  OK(kvc_step_create(m, &limits, &s));
  uint64_t own[33] = {0};
  int32_t own_rows[33];
  kvc_status own_status[33];
  uint64_t own_admitted[33], own_cached[33], own_blocks[33];
  for (int i = 0; i < 33; ++i) own_rows[i] = i % 32;
  const kvc_step made = *s;
  s->frees = s->preempts = s->truncates = s->truncate_lengths = s->requests = s->committed = own;
  s->commit_offsets = s->extend_offsets = s->admit_requests = s->admit_offsets = own;
  s->rows = own_rows, s->status = own_status, s->admitted = own_admitted, s->cached = own_cached;
  s->num_blocks = own_blocks;
  const kvc_step mine = *s;
#define ONE(field, count, number, used, room)                                          \
  do {                                                                                 \
    s->field = made.field, s->count = number;                                          \
    REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), used, room); \
    s->field = mine.field, s->count = 0;                                               \
  } while (0)
  ONE(frees, num_frees, 9, "9", "2");
  ONE(preempts, num_preempts, 9, "9", "2");
  ONE(truncates, num_truncates, 9, "9", "2");
  ONE(truncate_lengths, num_truncates, 9, "9", "2");
  ONE(requests, num_requests, 9, "9", "3");
  ONE(committed, num_requests, 9, "9", "3");
  ONE(commit_offsets, num_requests, 9, "10", "4");
  ONE(extend_offsets, num_requests, 9, "10", "4");
  ONE(admit_requests, num_admissions, 9, "9", "4");
  ONE(admit_offsets, num_admissions, 9, "10", "5");
  ONE(admitted, num_admissions, 9, "9", "4");
  ONE(cached, num_admissions, 9, "9", "4");
  ONE(rows, num_requests, 9, "9", "7");
  ONE(rows, num_admissions, 9, "9", "7");
  ONE(status, num_frees, 19, "19", "13");
  ONE(status, num_requests, 19, "19", "13");
  ONE(num_blocks, num_requests, 9, "9", "7");
#undef ONE
  s->num_requests = s->num_admissions =
      9; /* all arrays are the caller's own: they have the caller's length */
  for (int i = 0; i < 9; ++i) own_rows[i] = -1;
  s->num_admissions = 0;
  OK(kvc_manager_step(m, s));
  for (int i = 0; i < 9; ++i) CHECK_EQ(own_status[i], KVC_ERROR_NOT_FOUND);
  kvc_step_destroy(s);
}

/* The arrays of a made step are as large as the groups of its manager ask for. */
static void test_step_of_another_manager(void) {
  const kvc_step_limits limits = {.struct_size = sizeof limits, .max_requests = 3, .max_tokens = 5};
  kvc_manager* other = small_manager(64);
  kvc_step* s;
  OK(kvc_step_create(other, &limits, &s));
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), "another manager", "kvc_step_create");
  OK(kvc_manager_step(other, s));
  kvc_step_destroy(s);
  end_manager(other);
}

/* A namespace that is not set again is the default one, not that of the step before. */
static void test_namespaces_are_consumed(void) {
  const kvc_step_limits limits = {.struct_size = sizeof limits, .max_admissions = 1, .max_prompt_tokens = 8};
  const kvc_namespace_config tenant = {.struct_size = sizeof tenant, .tenant = "t", .tenant_size = 1};
  kvc_manager* own = small_manager(64);
  uint64_t ns = 0;
  kvc_step* s;
  OK(kvc_manager_open_namespace(own, &tenant, &ns));
  OK(kvc_step_create(own, &limits, &s));
  s->block_tables = NULL, s->num_admissions = 1;
  for (int i = 0; i < 2; ++i) {
    ((uint64_t*)s->admit_offsets)[1] = 8;
    for (int t = 0; t < 8; ++t) ((int32_t*)s->admit_tokens)[t] = t;
    if (i == 0) ((uint64_t*)s->admit_namespaces)[0] = ns;
    OK(kvc_manager_step(own, s));
    CHECK_EQ(s->status[0], KVC_OK);
    CHECK_EQ(request_info(own, s->admitted[0]).namespace_id, i == 0 ? ns : 0);
    CHECK_EQ(s->admit_namespaces[0], 0);
    s->retired_step = s->step_id;
    OK(kvc_manager_free_request(own, s->admitted[0]));
  }
  kvc_step_destroy(s);
  OK(kvc_manager_close_namespace(own, ns));
  end_manager(own);
}

/* Ids may come back in the array that asked for admissions: what the step reads is decided before. */
static void test_admissions_in_place(void) {
  const kvc_step_limits limits = {.struct_size = sizeof limits, .max_admissions = 2, .max_prompt_tokens = 8};
  kvc_step* s;
  OK(kvc_step_create(m, &limits, &s));
  uint64_t ids[2] = {running_[0], running_[0]}; /* refused: 0 is written over both */
  s->block_tables = NULL, s->admit_requests = s->admitted = ids, s->num_admissions = 2;
  OK(kvc_manager_step(m, s));
  CHECK_EQ(s->status[0], KVC_ERROR_BUSY);
  CHECK(ids[0] == 0 && ids[1] == 0);
  kvc_step_destroy(s);
}

int main(void) {
  m = small_manager(64);
  fill_tokens(tokens_, 32, 1);
  for (int i = 0; i < 2; ++i) running_[i] = allocate(m, tokens_ + i, 9, 0);
  OK(kvc_manager_create_request(m, PROMPT(0, tokens_, 12, NULL, 0), NULL, waiting_));
  frees_[0] = running_[0];
  admit_requests_[0] = waiting_[0];

  test_missing_pointers();
  test_offsets();
  test_rows_and_numbers();
  test_configs();
  test_buffers();
  test_item_faults();
  test_room_of_a_made_step();
  test_one_array_of_a_made_step();
  test_step_of_another_manager();
  test_namespaces_are_consumed();
  test_admissions_in_place();
  committed_[0] = 9, admit_requests_[0] = waiting_[0];
  kvc_step s = good_step();
  kvc_step_destroy(&s); /* of the caller's own: nothing to destroy */
  /* The step that all of these were made from has no fault. */
  OK(kvc_manager_step(m, &s));
  for (int i = 0; i < 4; ++i) CHECK_EQ(status_[i], KVC_OK);
  end_manager(m);
  return 0;
}
