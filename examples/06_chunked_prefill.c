/* SPDX-License-Identifier: Apache-2.0 */
/* A continuous batch with a token budget for each step: prompts are computed in chunks, beside the decode
 * steps of other requests. The pool is too small for the whole batch. When a request finds no block, the
 * youngest one is preempted; it waits, and is admitted again when there is room. Extensions are slots only;
 * the ids of new tokens come with the commit. The "KV memory" is an array with one number per slot: what an
 * attention kernel would read through the tables is compared with what was written to the slots. */
#include <kvcache.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  kBlocks = 20,
  kB = 16,
  kBatch = 4,
  kBudget = 48,
  kChunk = 32,
  kPrompt = 90,
  kEnd = 130,
  kRequests = 10
};
enum { kStride = kEnd / kB + 1 };

/* A request of a user, in order of arrival. */
typedef struct sequence {
  uint64_t id;     /* 0 until it is admitted for the first time */
  int32_t row;     /* of the block tables while it runs, else -1 */
  size_t length;   /* tokens that exist: the prompt and what the model said */
  size_t computed; /* tokens whose keys and values are written */
  size_t told;     /* tokens whose ids the library knows */
  int32_t tokens[kEnd];
} sequence;

static sequence all[kRequests];
static int32_t kv[kBlocks * kB];
static size_t wrong, computed;

static void check(kvc_status status) {
  if (status == KVC_OK) return;
  fprintf(stderr, "%s: %s\n", kvc_status_name(status), kvc_last_error());
  exit(1);
}

static void* array(const kvc_step* step, int32_t which) {
  kvc_view view;
  check(kvc_step_view(step, which, &view));
  return view.data;
}

/* The kernels of one request: keys and values of n tokens, to their slots (NULL: those in the table), then
 * attention over the table. The last known token gives the next one. */
static void compute(sequence* s, const int32_t* table, const int64_t* slots, size_t n) {
  for (size_t i = 0, t = s->computed; i < n; ++i, ++t)
    kv[slots ? slots[i] : table[t / kB] * kB + (int64_t)(t % kB)] = s->tokens[t];
  s->computed += n;
  computed += n;
  for (size_t t = 0; t < s->computed; ++t)
    wrong += kv[table[t / kB] * kB + (int32_t)(t % kB)] != s->tokens[t];
  if (s->computed == s->length) ++s->length;
}

int main(void) {
  const kvc_manager_config config = {
      .struct_size = sizeof config, .num_blocks = kBlocks, .block_size = kB, .watermark_blocks = 2};
  kvc_step_limits limits = {.struct_size = sizeof limits, .max_admissions = 1, .max_prompt_tokens = kPrompt};
  limits.max_frees = limits.max_requests = limits.max_rows = kBatch;
  limits.max_tokens = kBatch * kBudget; /* of commits and extensions */
  limits.row_stride = kStride;
  const kvc_request_config chunked = {.struct_size = sizeof chunked, .slots = kChunk};
  kvc_manager* m;
  kvc_step* step;
  check(kvc_manager_create(&config, &m));
  check(kvc_step_create(m, &limits, &step));
  step->extend_tokens = NULL; /* slots only */
  step->admit_configs = &chunked;
  uint64_t *frees = array(step, KVC_STEP_FREES), *preempts = array(step, KVC_STEP_PREEMPTS);
  uint64_t *ids = array(step, KVC_STEP_REQUESTS), *committed = array(step, KVC_STEP_COMMITTED);
  uint64_t *commits = array(step, KVC_STEP_COMMIT_OFFSETS), *extend = array(step, KVC_STEP_EXTEND_OFFSETS);
  uint64_t *admit = array(step, KVC_STEP_ADMIT_REQUESTS), *prompt_end = array(step, KVC_STEP_ADMIT_OFFSETS);
  int32_t *news = array(step, KVC_STEP_COMMIT_TOKENS), *prompt = array(step, KVC_STEP_ADMIT_TOKENS);
  int32_t* rows = array(step, KVC_STEP_ROWS);
  for (int32_t q = 0; q < kRequests; ++q) { /* all prompts share their first 32 tokens */
    for (int32_t t = 0; t < kEnd; ++t) all[q].tokens[t] = t < 32 ? t : q * kEnd + t;
    all[q].row = -1, all[q].length = all[q].told = kPrompt;
  }

  sequence *running[kBatch], *victim = NULL;
  size_t done = 0;
  while (done < kRequests) {
    step->retired_step = step->step_id; /* synchronous: the last step's kernels have finished */
    step->num_frees = step->num_preempts = step->num_requests = step->num_admissions = 0;
    sequence* next = NULL; /* the oldest that waits */
    size_t budget = kBudget, used_rows = 0;
    uint64_t brought = 0;
    for (sequence* s = all; s < all + kRequests; ++s) {
      if (s->row < 0) {
        if (next == NULL && s->length < kEnd) next = s;
        continue;
      }
      const size_t i = step->num_requests++, left = s->length - s->computed;
      size_t n = left < budget ? left : budget;
      running[i] = s, ids[i] = s->id, rows[i] = s->row, committed[i] = s->computed;
      for (; s->told < s->computed; ++s->told) news[brought++] = s->tokens[s->told];
      commits[i + 1] = brought;
      /* What ends here is committed by the same step before it is freed or preempted. */
      if (s->length == kEnd)
        frees[step->num_frees++] = s->id, s->row = -1, n = 0, ++done;
      else if (s == victim)
        preempts[step->num_preempts++] = s->id, s->row = -1, n = 0;
      else
        used_rows |= (size_t)1 << s->row;
      extend[i + 1] = extend[i] + n, budget -= n;
    }
    int32_t row = 0;
    while (used_rows >> row & 1) ++row;
    if (next != NULL && victim == NULL && row < kBatch && budget >= kChunk) {
      step->num_admissions = 1, rows[step->num_requests] = row;
      admit[0] = next->id, prompt_end[1] = next->id == 0 ? kPrompt : 0;
      for (int32_t t = 0; t < kPrompt && next->id == 0; ++t) prompt[t] = next->tokens[t];
    }
    check(kvc_manager_step(m, step));

    const kvc_status* status = step->status + step->num_frees + step->num_preempts;
    sequence* youngest = NULL;
    victim = NULL;
    for (size_t i = 0; i < step->num_requests; ++i) {
      if (running[i]->row >= 0) youngest = running[i];
    }
    for (size_t i = 0; i < step->num_requests; ++i) {
      sequence* s = running[i];
      if (status[i] == KVC_ERROR_NO_SPACE) { /* it is committed, and tries to extend again in the next step */
        victim = youngest;
        continue;
      }
      check(status[i]);
      if (s->row < 0) continue;
      compute(s, step->block_tables + s->row * kStride, step->slots + extend[i], extend[i + 1] - extend[i]);
    }
    if (step->num_admissions == 0 || status[step->num_requests] == KVC_ERROR_NO_SPACE) continue;
    check(status[step->num_requests]);
    next->id = step->admitted[0], next->row = row, next->computed = step->cached[0];
    const size_t chunk = next->told - next->computed;
    compute(next, step->block_tables + row * kStride, NULL, chunk < kChunk ? chunk : kChunk);
  }
  kvc_stats stats = {.struct_size = sizeof stats};
  check(kvc_manager_read_stats(m, &stats));
  check(kvc_manager_check(m));
  printf("%zu requests done in %d steps: %zu tokens computed, %d preemptions, %zu wrong reads\n", done,
         (int)step->step_id, computed, (int)stats.preemptions, wrong);
  const int failed = wrong != 0 || stats.preemptions == 0 || stats.blocks_live != 0;
  kvc_step_destroy(step);
  kvc_manager_destroy(m);
  return failed;
}
