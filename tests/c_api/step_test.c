/* SPDX-License-Identifier: Apache-2.0 */
/* kvc_step_create and its views, and what a step does phase by phase: numbers follow docs/SEMANTICS.md. */
#include "check.h"

static void* array(const kvc_step* step, int32_t which) {
  kvc_view view;
  OK(kvc_step_view(step, which, &view));
  return view.data;
}

/* Every array: its type and shape, in the struct where the manual says, writable to its end, overlapping no
 * other. */
static void test_views(void) {
  kvc_manager* m = small_manager(8);
  const kvc_step_limits limits = {.struct_size = sizeof limits,
                                  .max_frees = 3,
                                  .max_requests = 5,
                                  .max_admissions = 2,
                                  .max_tokens = 7,
                                  .max_prompt_tokens = 11,
                                  .max_rows = 6,
                                  .row_stride = 9,
                                  .max_changes = 13};
  const struct {
    int64_t shape[3];
    int32_t dtype, ndim;
  } expected[] = {
      {{3}, KVC_UINT64, 1},   {{3}, KVC_UINT64, 1},   {{3}, KVC_UINT64, 1},      {{3}, KVC_UINT64, 1},
      {{5}, KVC_UINT64, 1},   {{5}, KVC_UINT64, 1},   {{6}, KVC_UINT64, 1},      {{7}, KVC_INT32, 1},
      {{6}, KVC_UINT64, 1},   {{7}, KVC_INT32, 1},    {{2}, KVC_UINT64, 1},      {{3}, KVC_UINT64, 1},
      {{11}, KVC_INT32, 1},   {{7}, KVC_INT32, 1},    {{16}, KVC_INT32, 1},      {{2}, KVC_UINT64, 1},
      {{2}, KVC_UINT64, 1},   {{7}, KVC_UINT64, 1},   {{1, 6, 9}, KVC_INT32, 3}, {{1, 7}, KVC_INT64, 2},
      {{5, 2}, KVC_INT32, 2}, {{13, 4}, KVC_INT32, 2}};
  kvc_step* step = NULL;
  OK(kvc_step_create(m, &limits, &step));
  CHECK_EQ(step->struct_size, sizeof *step);
  CHECK_EQ(
      step->num_frees + step->num_preempts + step->num_truncates + step->num_requests + step->num_admissions,
      0);
  CHECK(step->num_rows == 6 && step->row_stride == 9 && step->slot_capacity == 7 && step->copy_capacity == 5);
  CHECK(step->change_capacity == 13 && step->fill_id == -1 && step->flags == 0);
  const void* fields[] = {
      step->frees,          step->preempts,      step->truncates,      step->truncate_lengths,
      step->requests,       step->committed,     step->commit_offsets, step->commit_tokens,
      step->extend_offsets, step->extend_tokens, step->admit_requests, step->admit_offsets,
      step->admit_tokens,   step->rows,          step->status,         step->admitted,
      step->cached,         step->num_blocks,    step->block_tables,   step->slots,
      step->copies,         step->changes};
  for (size_t i = 0; i < 6 * 9; ++i) CHECK_EQ(step->block_tables[i], -1);

  kvc_view views[KVC_STEP_CHANGES + 1];
  size_t bytes[KVC_STEP_CHANGES + 1];
  for (int32_t a = 0; a <= KVC_STEP_CHANGES; ++a) {
    kvc_view* v = &views[a];
    OK(kvc_step_view(step, a, v));
    CHECK(v->data == fields[a]);
    CHECK_EQ(v->dtype, expected[a].dtype);
    CHECK_EQ(v->ndim, expected[a].ndim);
    bytes[a] = v->dtype == KVC_INT32 ? 4 : 8;
    for (int32_t d = v->ndim; d-- > 0;) {
      CHECK_EQ(v->shape[d], expected[a].shape[d]);
      CHECK_EQ(v->strides[d], bytes[a]);
      bytes[a] *= (size_t)v->shape[d];
    }
    memset(v->data, a + 1, bytes[a]);
  }
  for (int32_t a = 0; a <= KVC_STEP_CHANGES; ++a) {
    const unsigned char* data = views[a].data;
    for (size_t i = 0; i < bytes[a]; ++i) CHECK_EQ(data[i], a + 1);
  }
  kvc_step_destroy(step);

  const kvc_step_limits none = {.struct_size = sizeof none};
  OK(kvc_step_create(m, &none, &step));
  OK(kvc_manager_step(m, step)); /* an empty step is one */
  CHECK_EQ(step->step_id, 1);
  kvc_step_destroy(step);
  end_manager(m);
}

typedef struct Engine {
  kvc_manager* m;
  kvc_step* step;
  uint64_t *frees, *preempts, *truncates, *lengths, *requests, *committed, *commit_offsets, *extend_offsets,
      *admit_requests, *admit_offsets;
  int32_t *commit_tokens, *extend_tokens, *admit_tokens, *rows;
} Engine;

static Engine make_engine(kvc_manager* m) {
  const kvc_step_limits limits = {.struct_size = sizeof limits,
                                  .max_frees = 4,
                                  .max_requests = 4,
                                  .max_admissions = 4,
                                  .max_tokens = 16,
                                  .max_prompt_tokens = 128,
                                  .max_rows = 4,
                                  .row_stride = 6};
  Engine e = {.m = m};
  OK(kvc_step_create(m, &limits, &e.step));
  e.frees = array(e.step, KVC_STEP_FREES);
  e.preempts = array(e.step, KVC_STEP_PREEMPTS);
  e.truncates = array(e.step, KVC_STEP_TRUNCATES);
  e.lengths = array(e.step, KVC_STEP_TRUNCATE_LENGTHS);
  e.requests = array(e.step, KVC_STEP_REQUESTS);
  e.committed = array(e.step, KVC_STEP_COMMITTED);
  e.commit_offsets = array(e.step, KVC_STEP_COMMIT_OFFSETS);
  e.extend_offsets = array(e.step, KVC_STEP_EXTEND_OFFSETS);
  e.admit_requests = array(e.step, KVC_STEP_ADMIT_REQUESTS);
  e.admit_offsets = array(e.step, KVC_STEP_ADMIT_OFFSETS);
  e.commit_tokens = array(e.step, KVC_STEP_COMMIT_TOKENS);
  e.extend_tokens = array(e.step, KVC_STEP_EXTEND_TOKENS);
  e.admit_tokens = array(e.step, KVC_STEP_ADMIT_TOKENS);
  e.rows = array(e.step, KVC_STEP_ROWS);
  return e;
}

static void clear(Engine* e) {
  kvc_step* s = e->step;
  s->num_frees = s->num_preempts = s->num_truncates = s->num_requests = s->num_admissions = 0;
  s->flags = 0;
  e->commit_offsets[0] = e->extend_offsets[0] = e->admit_offsets[0] = 0;
}

/* Requests go before admissions, as `rows` has them in this order. */
static void add_request(Engine* e, uint64_t id, uint64_t committed, uint64_t extend, uint64_t seed,
                        int32_t row) {
  const size_t i = e->step->num_requests++;
  e->requests[i] = id;
  e->committed[i] = committed;
  e->commit_offsets[i + 1] = e->commit_offsets[i];
  e->extend_offsets[i + 1] = e->extend_offsets[i] + extend;
  fill_tokens(e->extend_tokens + e->extend_offsets[i], extend, seed);
  e->rows[i] = row;
}

static void add_new(Engine* e, uint64_t prompt, uint64_t seed, int32_t row) {
  const size_t i = e->step->num_admissions++;
  e->admit_requests[i] = 0;
  e->admit_offsets[i + 1] = e->admit_offsets[i] + prompt;
  fill_tokens(e->admit_tokens + e->admit_offsets[i], prompt, seed);
  e->rows[e->step->num_requests + i] = row;
}

static void add_waiting(Engine* e, uint64_t id, int32_t row) {
  const size_t i = e->step->num_admissions++;
  e->admit_requests[i] = id;
  e->admit_offsets[i + 1] = e->admit_offsets[i];
  e->rows[e->step->num_requests + i] = row;
}

static void run(Engine* e, uint64_t retired, uint64_t expected_id) {
  e->step->retired_step = retired;
  OK(kvc_manager_step(e->m, e->step));
  CHECK_EQ(e->step->step_id, expected_id);
}

static void expect_row(const Engine* e, size_t row, const int32_t* expected) {
  for (size_t i = 0; i < 6; ++i) CHECK_EQ(e->step->block_tables[row * 6 + i], expected[i]);
}

static void test_phases(void) {
  kvc_manager* m = small_manager(8);
  Engine e = make_engine(m);
  kvc_step* s = e.step;
  clear(&e);
  add_new(&e, 9, 1, 0);
  add_new(&e, 5, 2, 2);
  run(&e, 0, 1);
  CHECK(s->status[0] == KVC_OK && s->status[1] == KVC_OK);
  const uint64_t a = s->admitted[0], b = s->admitted[1];
  CHECK(a != 0 && b != 0 && a != b);
  CHECK(s->cached[0] == 0 && s->cached[1] == 0 && s->num_blocks[0] == 3 && s->num_blocks[1] == 2);
  expect_row(&e, 0, (const int32_t[]){0, 1, 2, -1, -1, -1});
  expect_row(&e, 1, (const int32_t[]){-1, -1, -1, -1, -1, -1});
  expect_row(&e, 2, (const int32_t[]){3, 4, -1, -1, -1, -1});
  CHECK(s->num_slots == 0 && s->num_copies == 0 && s->num_refused == 0 && s->num_changes == 5);

  clear(&e);
  add_request(&e, a, 9, 1, 3, 0);
  add_request(&e, b, 5, 4, 4, 2);
  run(&e, 1, 2);
  CHECK(s->status[0] == KVC_OK && s->status[1] == KVC_OK && s->num_slots == 5);
  CHECK_EQ(s->slots[0], 2 * 4 + 1); /* token 9 of a */
  CHECK(s->slots[1] == 4 * 4 + 1 && s->slots[2] == 4 * 4 + 2 && s->slots[3] == 4 * 4 + 3 &&
        s->slots[4] == 5 * 4);
  CHECK_EQ(s->num_changes, 1);
  CHECK(s->changes[0].group == 0 && s->changes[0].row == 2 && s->changes[0].column == 2 &&
        s->changes[0].block == 5);

  /* b goes, a is cut, and what they give back serves an admission of the same step: retired_step keeps up. */
  clear(&e);
  s->num_frees = s->num_truncates = 1;
  e.frees[0] = b;
  e.truncates[0] = a;
  e.lengths[0] = 6;
  add_new(&e, 5, 2, 2);
  run(&e, 2, 3);
  CHECK(s->status[0] == KVC_OK && s->status[1] == KVC_OK && s->status[2] == KVC_OK);
  const uint64_t c = s->admitted[0];
  CHECK_EQ(s->cached[0], 4); /* the full block of b's prompt */
  expect_row(&e, 2, (const int32_t[]){3, 2, -1, -1, -1, -1});
  CHECK_EQ(request_info(m, a).num_tokens, 6);

  /* A release in step 5 is fenced while step 4 is in flight. */
  clear(&e);
  add_request(&e, a, 6, 0, 0, 0);
  add_request(&e, c, 5, 0, 0, 2);
  run(&e, 3, 4);
  expect_row(&e, 0, (const int32_t[]){0, 1, -1, -1, -1, -1});
  clear(&e);
  s->num_frees = 1;
  e.frees[0] = c;
  add_new(&e, 20, 5, 1);
  add_new(&e, 4, 6, 3);
  run(&e, 3, 5);
  CHECK_EQ(s->status[0], KVC_OK);
  CHECK_EQ(s->status[1], KVC_ERROR_AGAIN); /* five blocks wanted, four free, two fenced */
  CHECK_EQ(s->status[2], KVC_ERROR_SKIPPED);
  CHECK(s->num_refused == 2 && s->shortage_blocks == 1 && s->admitted[0] == 0 && s->admitted[1] == 0);
  CHECK_EQ(block_info(m, 2).state, KVC_BLOCK_FENCED);
  CHECK_EQ(block_info(m, 3).state, KVC_BLOCK_FENCED);
  CHECK_EQ(stats(m).blocks_fenced, 2);
  clear(&e);
  add_new(&e, 20, 5, 1);
  add_new(&e, 24, 6, 3);
  add_new(&e, 4, 7, 2);
  s->flags = KVC_STEP_ADMIT_PAST_REFUSAL;
  run(&e, 4, 6); /* the fence falls first */
  CHECK_EQ(s->status[0], KVC_OK);
  CHECK_EQ(s->status[1], KVC_ERROR_NO_SPACE);
  CHECK_EQ(s->status[2], KVC_OK);
  CHECK(s->num_refused == 1 && s->shortage_blocks == 5 &&
        s->admitted[2] != 0); /* the only free block is left */

  /* Preempt and admit again in one step; the row is new to the request and written whole. */
  const uint64_t d = s->admitted[0];
  clear(&e);
  s->num_frees = s->num_preempts = 1;
  e.frees[0] = s->admitted[2];
  e.preempts[0] = d;
  add_waiting(&e, d, 3);
  run(&e, 6, 7);
  CHECK(s->status[0] == KVC_OK && s->status[1] == KVC_OK && s->status[2] == KVC_OK);
  CHECK(s->admitted[0] == d && s->num_blocks[0] == 5);
  CHECK(s->block_tables[3 * 6 + 4] >= 0 && s->block_tables[3 * 6 + 5] == -1);
  OK(kvc_manager_retire_step(m, 7));
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_manager_retire_step(m, 8));
  kvc_step_destroy(s);
  end_manager(m);
}

/* Slots first, ids later, as an engine does that schedules a step before it has sampled the last one. */
static void test_late_tokens(void) {
  kvc_manager* m = small_manager(8);
  Engine e = make_engine(m);
  kvc_step* s = e.step;
  const int32_t* with_tokens = s->extend_tokens;
  int32_t prompt[6];
  fill_tokens(prompt, 6, 1);
  const uint64_t r = allocate(m, prompt, 6, 0);
  clear(&e);
  add_request(&e, r, 6, 2, 0, 0);
  s->extend_tokens = NULL;
  run(&e, 0, 1);
  CHECK_EQ(s->status[0], KVC_OK);
  CHECK(s->slots[0] == 6 && s->slots[1] == 7);
  CHECK(request_info(m, r).num_tokens == 6 && request_info(m, r).capacity == 8);
  clear(&e);
  add_request(&e, r, 8, 1, 0, 0);
  e.commit_offsets[1] = 2;
  e.commit_tokens[0] = 11;
  e.commit_tokens[1] = 12;
  run(&e, 1, 2);
  CHECK_EQ(s->status[0], KVC_OK);
  CHECK_EQ(s->slots[0], 8);
  CHECK(request_info(m, r).num_tokens == 8 && request_info(m, r).num_committed == 8 &&
        request_info(m, r).capacity == 9);
  s->extend_tokens = with_tokens;
  OK(kvc_manager_free_request(m, r));
  OK(kvc_manager_retire_step(m, 2));
  const int32_t again[9] = {prompt[0], prompt[1], prompt[2], prompt[3], prompt[4], prompt[5], 11, 12, 13};
  OK(kvc_manager_free_request(m, allocate(m, again, 9, 8))); /* found under the late ids */
  kvc_step_destroy(s);
  end_manager(m);
}

/* A fork's first own token makes a copy: reported by the step, its source held until that step is retired. */
static void test_copies(void) {
  kvc_manager* m = small_manager(8);
  Engine e = make_engine(m);
  kvc_step* s = e.step;
  int32_t prompt[6];
  fill_tokens(prompt, 6, 1);
  const uint64_t parent = allocate(m, prompt, 6, 0);
  OK(kvc_manager_commit_tokens(m, parent, 6));
  uint64_t child = 0;
  OK(kvc_manager_fork_request(m, parent, &child));
  OK(kvc_manager_free_request(m, parent)); /* the child has the blocks alone: no copy */
  OK(kvc_manager_fork_request(m, child, &e.requests[3]));
  const uint64_t second = e.requests[3];
  clear(&e);
  add_request(&e, child, 6, 1, 1, 0);
  add_request(&e, second, 6, 1, 2, 1);
  s->copy_capacity = 0;
  const uint64_t before = digest(m);
  EXPECT(KVC_ERROR_BUFFER_TOO_SMALL, kvc_manager_step(m, s));
  CHECK(s->num_copies == 2 && digest(m) == before);
  s->copy_capacity = 4;
  run(&e, 0, 1);
  CHECK(s->status[0] == KVC_OK && s->status[1] == KVC_OK && s->num_copies == 2);
  CHECK(s->copies[0].source == 1 && s->copies[0].destination == 2);
  CHECK(s->copies[1].source == 1 && s->copies[1].destination == 3); /* a source is not written in its step */
  CHECK(s->slots[0] == 2 * 4 + 2 && s->slots[1] == 3 * 4 + 2);
  expect_row(&e, 0, (const int32_t[]){0, 2, -1, -1, -1, -1});
  expect_row(&e, 1, (const int32_t[]){0, 3, -1, -1, -1, -1});
  CHECK_EQ(block_info(m, 1).state, KVC_BLOCK_FENCED);
  OK(kvc_manager_retire_step(m, 1));
  CHECK_EQ(block_info(m, 1).state, KVC_BLOCK_FREE);
  OK(kvc_manager_free_request(m, child));
  OK(kvc_manager_free_request(m, second));
  kvc_step_destroy(s);
  end_manager(m);
}

/* An item whose status says, with a text that names both, that an entry was not set. */
static void refuses_unset(Engine* e, uint64_t retired, const char* array, const char* entry) {
  set_marker_error(e->m);
  run(e, retired, retired + 1);
  CHECK_EQ(e->step->status[0], KVC_ERROR_INVALID_ARGUMENT);
  check_text(array, entry, "a step with an entry that is not set", __FILE__, __LINE__);
}

/* Entries that are not set are refused, at first and after each step that has consumed them. */
static void test_entries_that_are_not_set(void) {
  kvc_manager* m = small_manager(8);
  Engine e = make_engine(m);
  kvc_step* s = e.step;
  for (int i = 0; i < 16; ++i) CHECK(e.commit_tokens[i] == -1 && e.extend_tokens[i] == -1);
  for (int i = 0; i < 128; ++i) CHECK_EQ(e.admit_tokens[i], -1);
  for (int i = 0; i < 4; ++i) CHECK(e.lengths[i] == UINT64_MAX && e.admit_offsets[i + 1] == UINT64_MAX);
  for (int i = 0; i < 8; ++i) CHECK_EQ(e.rows[i], INT32_MIN);
  CHECK_EQ(e.admit_offsets[0], 0);

  s->num_admissions = 1;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), "admit_offsets[1]", "not set");
  e.admit_offsets[1] = 9;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s), "rows[0] is -2147483648", "not set");
  e.rows[0] = 0;
  fill_tokens(e.admit_tokens, 8, 1);
  refuses_unset(&e, 0, "admit_tokens[8]", "not set");
  CHECK(s->admitted[0] == 0 && stats(m).live_requests == 0);
  for (int i = 0; i < 9; ++i) CHECK_EQ(e.admit_tokens[i], -1); /* refused items are read, too */
  CHECK_EQ(e.admit_offsets[1], UINT64_MAX);
  clear(&e);
  add_new(&e, 9, 1, 0);
  e.admit_tokens[9] = 77; /* behind what is read */
  run(&e, 1, 2);
  const uint64_t r = s->admitted[0];
  CHECK(r != 0 && e.admit_tokens[0] == -1 && e.admit_tokens[8] == -1 && e.admit_tokens[9] == 77);

  /* Extensions: one id of two, then those of the step before. The commit stands. */
  clear(&e);
  add_request(&e, r, 9, 2, 1, 0);
  e.extend_tokens[1] = -1;
  refuses_unset(&e, 2, "extend_tokens[1]", "switch extend_tokens off");
  CHECK(request_info(m, r).num_tokens == 9 && request_info(m, r).num_committed == 9 && s->slots[0] == -1);
  clear(&e);
  add_request(&e, r, 9, 1, 1, 0);
  run(&e, 3, 4);
  CHECK(s->status[0] == KVC_OK && e.extend_tokens[0] == -1 && request_info(m, r).num_tokens == 10);
  refuses_unset(&e, 4, "extend_tokens[0]", "not set");
  CHECK_EQ(request_info(m, r).num_tokens, 10);

  /* Commits that bring ids. */
  clear(&e);
  add_request(&e, r, 11, 0, 0, 0);
  e.commit_offsets[1] = 1;
  refuses_unset(&e, 5, "commit_tokens[0]", "not set");
  e.commit_tokens[0] = 5;
  e.committed[0] = 10;
  run(&e, 6, 7);
  CHECK(s->status[0] == KVC_OK && e.commit_tokens[0] == -1 && request_info(m, r).num_tokens == 11);

  /* Truncations: a length that is not set is not 0. */
  clear(&e);
  s->num_truncates = 1;
  e.truncates[0] = r;
  refuses_unset(&e, 7, "truncate_lengths[0]", "not set");
  e.lengths[0] = 10;
  run(&e, 8, 9);
  CHECK(s->status[0] == KVC_OK && e.lengths[0] == UINT64_MAX && request_info(m, r).num_tokens == 10);

  /* A step that fails as a whole has read nothing; arrays of the caller's own are left alone. */
  clear(&e);
  add_request(&e, r, 10, 1, 1, 0);
  s->retired_step = 1000;
  const int32_t id = e.extend_tokens[0], own[1] = {id};
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, s));
  CHECK_EQ(e.extend_tokens[0], id);
  s->extend_tokens = own;
  run(&e, 9, 10);
  CHECK(s->status[0] == KVC_OK && own[0] == id && e.extend_tokens[0] == id);
  OK(kvc_manager_free_request(m, r));
  OK(kvc_manager_retire_step(m, 10));
  kvc_step_destroy(s);
  end_manager(m);
}

/* A request that is named twice would get its tokens twice: the second item is refused, the first one counts.
 */
static void test_request_twice(void) {
  kvc_manager* m = small_manager(8);
  Engine e = make_engine(m);
  int32_t prompt[6];
  fill_tokens(prompt, 6, 1);
  const uint64_t r = allocate(m, prompt, 6, 0);
  /* The row is new to the request; is kept, which is the short way; is moved by the item that counts. */
  static const int32_t rows[3][2] = {{0, 0}, {0, 1}, {2, 0}};
  for (int i = 0; i < 3; ++i) {
    const uint64_t known = 6 + (uint64_t)i;
    clear(&e);
    add_request(&e, r, known, 1, 1, rows[i][0]);
    add_request(&e, r, known, 1, 2, rows[i][1]);
    OK(kvc_manager_step(m, e.step));
    CHECK_EQ(e.step->status[0], KVC_OK);
    CHECK_EQ(e.step->status[1], KVC_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(kvc_last_error(), "requests[1]") != NULL && strstr(kvc_last_error(), "once") != NULL);
    CHECK_EQ(request_info(m, r).num_tokens, known + 1);
    CHECK_EQ(request_info(m, r).num_committed, known);
    CHECK(e.step->slots[0] >= 0 && e.step->slots[1] == -1);
    CHECK(e.step->num_blocks[0] == (known + 4) / 4 && e.step->num_blocks[1] == 0);
    expect_row(&e, 1, (const int32_t[]){-1, -1, -1, -1, -1, -1});
    OK(kvc_manager_check(m));
  }
  OK(kvc_manager_free_request(m, r));
  kvc_step_destroy(e.step);
  end_manager(m);
}

static void expect_row_twice(Engine* e) {
  const uint64_t before = digest(e->m);
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(e->m, e->step));
  CHECK(strstr(kvc_last_error(), "both write row") != NULL);
  CHECK_EQ(digest(e->m), before);
}

/* Two requests in one row would overwrite each other's tables. */
static void test_row_twice(void) {
  kvc_manager* m = small_manager(16);
  Engine e = make_engine(m);
  int32_t prompt[6];
  fill_tokens(prompt, 6, 1);
  const uint64_t a = allocate(m, prompt, 6, 0), b = allocate(m, prompt, 6, 0);
  clear(&e);
  add_new(&e, 5, 2, 3);
  add_new(&e, 5, 3, 3);
  expect_row_twice(&e);
  clear(&e);
  add_request(&e, a, 6, 1, 1, 1);
  add_request(&e, b, 6, 1, 1, 1);
  expect_row_twice(&e);
  clear(&e);
  add_request(&e, a, 6, 1, 1, 2);
  add_request(&e, b, 6, 1, 1, 0);
  add_new(&e, 5, 2, 2);
  expect_row_twice(&e);

  /* A request that leaves in the same step writes no row, so another may use its row. */
  clear(&e);
  add_request(&e, a, 6, 0, 0, 1);
  add_request(&e, b, 6, 0, 0, 0);
  e.step->num_frees = e.step->num_preempts = 1;
  e.frees[0] = a;
  e.preempts[0] = b;
  add_new(&e, 5, 2, 1);
  add_waiting(&e, b, 0);
  OK(kvc_manager_step(m, e.step));
  for (int i = 0; i < 6; ++i) CHECK_EQ(e.step->status[i], KVC_OK);
  CHECK(e.step->block_tables[6] >= 0 && e.step->block_tables[0] >= 0);

  /* Items without a row, and stale ones, write none. */
  const uint64_t c = e.step->admitted[0];
  clear(&e);
  add_request(&e, a, 6, 0, 0, 1);
  add_request(&e, c, 5, 0, 0, 1);
  add_request(&e, b, 6, 0, 0, -1);
  add_new(&e, 5, 4, -1);
  OK(kvc_manager_step(m, e.step));
  CHECK_EQ(e.step->status[0], KVC_ERROR_NOT_FOUND);
  CHECK_EQ(e.step->status[1], KVC_OK);
  OK(kvc_manager_free_request(m, b));
  OK(kvc_manager_free_request(m, c));
  OK(kvc_manager_free_request(m, e.step->admitted[0]));
  kvc_step_destroy(e.step);
  end_manager(m);
}

int main(void) {
  test_views();
  test_phases();
  test_late_tokens();
  test_copies();
  test_entries_that_are_not_set();
  test_request_twice();
  test_row_twice();
  return 0;
}
