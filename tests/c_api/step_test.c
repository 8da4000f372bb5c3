/* SPDX-License-Identifier: Apache-2.0 */
/* kvc_step_create and its views, and what a step does phase by phase: numbers follow docs/SEMANTICS.md. */
#include "step_engine.h"

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

int main(void) {
  test_views();
  test_phases();
  test_late_tokens();
  test_copies();
  return 0;
}
