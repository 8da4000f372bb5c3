/* SPDX-License-Identifier: Apache-2.0 */
/* kvc_step_create and its views, late ids and copies of a step; tests/conformance/steps_test.cc has its
 * phases. */
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
  test_late_tokens();
  test_copies();
  return 0;
}
