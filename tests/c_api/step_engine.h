/* SPDX-License-Identifier: Apache-2.0 */
/* An engine's side of a made step: its input arrays, and items put into them one by one. */
#ifndef KVCACHE_TESTS_STEP_ENGINE_H_
#define KVCACHE_TESTS_STEP_ENGINE_H_

#include <kvcache/step.h>

#include "check.h"

static inline void* array(const kvc_step* step, int32_t which) {
  kvc_view view;
  OK(kvc_step_view(step, which, &view));
  return view.data;
}

typedef struct Engine {
  kvc_manager* m;
  kvc_step* step;
  uint64_t *frees, *preempts, *truncates, *lengths, *requests, *committed, *commit_offsets, *extend_offsets,
      *admit_requests, *admit_offsets;
  int32_t *commit_tokens, *extend_tokens, *admit_tokens, *rows;
} Engine;

static inline Engine make_engine(kvc_manager* m) {
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

static inline void clear(Engine* e) {
  kvc_step* s = e->step;
  s->num_frees = s->num_preempts = s->num_truncates = s->num_requests = s->num_admissions = 0;
  s->flags = 0;
  e->commit_offsets[0] = e->extend_offsets[0] = e->admit_offsets[0] = 0;
}

/* Requests go before admissions, as `rows` has them in this order. */
static inline void add_request(Engine* e, uint64_t id, uint64_t committed, uint64_t extend, uint64_t seed,
                               int32_t row) {
  const size_t i = e->step->num_requests++;
  e->requests[i] = id;
  e->committed[i] = committed;
  e->commit_offsets[i + 1] = e->commit_offsets[i];
  e->extend_offsets[i + 1] = e->extend_offsets[i] + extend;
  fill_tokens(e->extend_tokens + e->extend_offsets[i], extend, seed);
  e->rows[i] = row;
}

static inline void add_new(Engine* e, uint64_t prompt, uint64_t seed, int32_t row) {
  const size_t i = e->step->num_admissions++;
  e->admit_requests[i] = 0;
  e->admit_offsets[i + 1] = e->admit_offsets[i] + prompt;
  fill_tokens(e->admit_tokens + e->admit_offsets[i], prompt, seed);
  e->rows[e->step->num_requests + i] = row;
}

static inline void add_waiting(Engine* e, uint64_t id, int32_t row) {
  const size_t i = e->step->num_admissions++;
  e->admit_requests[i] = id;
  e->admit_offsets[i + 1] = e->admit_offsets[i];
  e->rows[e->step->num_requests + i] = row;
}

static inline void run(Engine* e, uint64_t retired, uint64_t expected_id) {
  e->step->retired_step = retired;
  OK(kvc_manager_step(e->m, e->step));
  CHECK_EQ(e->step->step_id, expected_id);
}

static inline void expect_row(const Engine* e, size_t row, const int32_t* expected) {
  for (size_t i = 0; i < 6; ++i) CHECK_EQ(e->step->block_tables[row * 6 + i], expected[i]);
}

#endif
