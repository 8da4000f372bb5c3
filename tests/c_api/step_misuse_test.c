/* SPDX-License-Identifier: Apache-2.0 */
/* What a step refuses: entries that nobody has set, a request or a row that two items name. */
#include "step_engine.h"

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

/* The text is that of the first item that failed, in the order of the phases, whatever failed later. */
static void test_the_first_failure_is_told(void) {
  kvc_manager* m = small_manager(8);
  static const uint64_t none[2] = {4294967296000, 77};
  int32_t tokens[9], tables[3 * 2];
  fill_tokens(tokens, 9, 1);
  const uint64_t r = allocate(m, tokens, 6, 0);
  const uint64_t frees[] = {r, none[0]}, offsets[] = {0, 1, 2}, admit_offsets[] = {0, 9}, tokens_kept[] = {9};
  uint64_t admitted[1], cached[1];
  kvc_status status[6];
  kvc_step step = {.struct_size = sizeof step,
                   .num_frees = 2,
                   .frees = frees,
                   .num_truncates = 1,
                   .truncates = none + 1,
                   .truncate_lengths = tokens_kept,
                   .num_requests = 2,
                   .requests = none,
                   .extend_offsets = offsets,
                   .num_admissions = 1,
                   .admit_offsets = admit_offsets,
                   .admit_tokens = tokens,
                   .admitted = admitted,
                   .cached = cached,
                   .block_tables = tables,
                   .num_rows = 3,
                   .row_stride = 2,
                   .status = status};
  OK(kvc_manager_step(m, &step));
  static const kvc_status expected[] = {KVC_OK,
                                        KVC_ERROR_NOT_FOUND,
                                        KVC_ERROR_NOT_FOUND,
                                        KVC_ERROR_NOT_FOUND,
                                        KVC_ERROR_NOT_FOUND,
                                        KVC_ERROR_BUFFER_TOO_SMALL};
  CHECK(memcmp(status, expected, sizeof expected) == 0);
  CHECK_EQ(step.num_refused, 1);                               /* three blocks in rows of two */
  const char* text = "requests[0]: no request 4294967296000:"; /* decimal, as the caller has it */
  CHECK(strncmp(kvc_last_error(), text, strlen(text)) == 0);

  step.num_requests = 0; /* commits come first: without them the frees do */
  OK(kvc_manager_step(m, &step));
  CHECK(strstr(kvc_last_error(), "frees[0]: no request ") == kvc_last_error());
  step.num_frees = 0;
  step.frees = NULL;
  OK(kvc_manager_step(m, &step));
  CHECK(strstr(kvc_last_error(), "truncates[0]: no request 77") == kvc_last_error());
  step.num_truncates = 0;
  OK(kvc_manager_step(m, &step));
  CHECK(strstr(kvc_last_error(), "admissions[0]: the request may need 3 blocks, row_stride is 2") != NULL);
  CHECK_EQ(step.num_refused, 1);
  step.num_frees = 1; /* arrays by the names of their fields */
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, &step));
  CHECK(strcmp(kvc_last_error(), "frees is NULL and num_frees is not 0") == 0);
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
  test_entries_that_are_not_set();
  test_request_twice();
  test_the_first_failure_is_told();
  test_row_twice();
  return 0;
}
