/* SPDX-License-Identifier: Apache-2.0 */
/* An engine loop with one library call per step. The "KV memory" is an array with one number per slot; what
 * an attention kernel would read through the block table is compared with what was written to the slots. */
#include <kvcache.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBlocks = 48, kB = 16, kBatch = 4, kPrompt = 40, kEnd = 100, kStride = kEnd / kB + 1, kRequests = 12 };

static int32_t kv[kBlocks * kB],
    said[kRequests][kEnd]; /* said: all tokens of each request, from first to last */

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

static int wrong_reads(const int32_t* table, const int32_t* tokens, size_t length) {
  int wrong = 0;
  for (size_t t = 0; t < length; ++t) wrong += kv[(size_t)table[t / kB] * kB + t % kB] != tokens[t];
  return wrong;
}

int main(void) {
  const kvc_manager_config config = {.struct_size = sizeof config, .num_blocks = kBlocks, .block_size = kB};
  kvc_step_limits limits = {.struct_size = sizeof limits, .max_admissions = 1, .max_prompt_tokens = kPrompt};
  limits.max_frees = limits.max_requests = limits.max_tokens = limits.max_rows = kBatch;
  limits.row_stride = kStride;
  kvc_manager* m;
  kvc_step* step;
  check(kvc_manager_create(&config, &m));
  check(kvc_step_create(m, &limits, &step));
  uint64_t *frees = array(step, KVC_STEP_FREES), *ids = array(step, KVC_STEP_REQUESTS);
  uint64_t *committed = array(step, KVC_STEP_COMMITTED), *extend = array(step, KVC_STEP_EXTEND_OFFSETS);
  uint64_t* admit_offsets = array(step, KVC_STEP_ADMIT_OFFSETS);
  int32_t *rows = array(step, KVC_STEP_ROWS), *extend_tokens = array(step, KVC_STEP_EXTEND_TOKENS);
  int32_t* prompt = array(step, KVC_STEP_ADMIT_TOKENS);
  for (int32_t i = 0; i < kRequests * kEnd; ++i) /* all share their first 32 tokens */
    said[i / kEnd][i % kEnd] = i % kEnd < 32 ? i % kEnd : i;

  uint64_t running[kBatch] = {0}, length[kBatch] = {0}, reused = 0;
  int32_t who[kBatch] = {0}, begun = 0, done = 0, wrong = 0;
  while (done < kRequests) {
    step->retired_step = step->step_id; /* synchronous: the last step's kernels have finished */
    step->num_frees = step->num_requests = step->num_admissions = 0;
    int32_t vacant = -1;
    for (int32_t row = 0; row < kBatch; ++row) {
      if (running[row] != 0 && length[row] == kEnd) {
        frees[step->num_frees++] = running[row];
        running[row] = 0;
        ++done;
      }
      if (running[row] == 0) vacant = row;
      if (running[row] == 0) continue;
      const size_t i = step->num_requests++;
      ids[i] = running[row], committed[i] = length[row], rows[i] = row;
      extend[i + 1] = i + 1, extend_tokens[i] = said[who[row]][length[row]];
    }
    if (vacant >= 0 && begun < kRequests) {
      for (int32_t t = 0; t < kPrompt; ++t) prompt[t] = said[begun][t];
      admit_offsets[1] = kPrompt, rows[step->num_requests] = vacant, step->num_admissions = 1;
    }
    check(kvc_manager_step(m, step));

    for (size_t i = 0; i < step->num_requests;
         ++i) { /* the kernels: write at the slots, read through the tables */
      check(step->status[step->num_frees + i]);
      kv[step->slots[i]] = said[who[rows[i]]][length[rows[i]]]; /* extend_tokens is unset again */
      wrong += wrong_reads(step->block_tables + rows[i] * kStride, said[who[rows[i]]], ++length[rows[i]]);
    }
    if (step->num_admissions == 0 || step->admitted[0] == 0) continue;
    const int32_t* table = step->block_tables + vacant * kStride; /* prefill of what is not cached */
    for (size_t t = step->cached[0]; t < kPrompt; ++t)
      kv[(size_t)table[t / kB] * kB + t % kB] = said[begun][t];
    wrong += wrong_reads(table, said[begun], kPrompt);
    running[vacant] = step->admitted[0], length[vacant] = kPrompt, who[vacant] = begun++;
    reused += step->cached[0];
  }
  printf("%d requests done, %d prompt tokens reused, %d wrong reads\n", done, (int)reused, wrong);
  kvc_step_destroy(step);
  kvc_manager_destroy(m);
  return wrong == 0 && reused > 0 ? 0 : 1;
}
