/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator that fails at its k-th call, for every k until the whole program of calls needs no k-th: the
 * call that meets the failure says OUT_OF_MEMORY and changes nothing; tried again it succeeds, and the end is
 * the same as without failures. In a second pass everything from the k-th call on fails, and what was made
 * can still be freed. No byte is ever lost. */
#include <kvcache/external.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include "check.h"

typedef struct Heap {
  int64_t countdown; /* allocations that still succeed; negative = all */
  int32_t sticky;    /* whether all fail after the first failure */
  int32_t failed;
  int64_t blocks, bytes;
} Heap;

static Heap heap_;
static int32_t silent_; /* the test's own questions must not meet the failure */

static void* take(void* user_data, size_t size, size_t alignment) {
  Heap* heap = user_data;
  CHECK(alignment != 0 && (alignment & (alignment - 1)) == 0 && size > 0);
  if (!silent_ && heap->countdown >= 0 && heap->countdown-- == 0) {
    heap->failed = 1;
    if (heap->sticky) heap->countdown = 0;
    return NULL;
  }
  const size_t unit = alignment < 16 ? 16 : alignment;
  uint64_t* memory = aligned_alloc(unit, (size + unit - 1) / unit * unit);
  CHECK(memory != NULL);
  ++heap->blocks;
  heap->bytes += (int64_t)size;
  return memory;
}

static void give_back(void* user_data, void* memory, size_t size, size_t alignment) {
  Heap* heap = user_data;
  CHECK(memory != NULL && alignment != 0);
  --heap->blocks;
  heap->bytes -= (int64_t)size;
  free(memory);
}

static uint64_t quiet_digest(kvc_manager* m) {
  silent_ = 1;
  const uint64_t value = digest(m);
  silent_ = 0;
  return value;
}

static int gave_up_; /* sticky: the program ends at the first failure */

/* The state before each call of the program: that of the run without failures, since calls that fail change
 * nothing. */
enum { kMaxCalls = 64 };
static uint64_t before_[kMaxCalls];
static size_t calls_;
static int learns_;

/* Does `call`; if it meets the failure, sees that nothing changed and does it again. */
#define TRY(m, call)                                                            \
  do {                                                                          \
    if (gave_up_) break;                                                        \
    CHECK(calls_ < kMaxCalls);                                                  \
    if (learns_) before_[calls_] = quiet_digest(m);                             \
    const uint64_t before = before_[calls_++];                                  \
    heap_.failed = 0;                                                           \
    kvc_status status = (call);                                                 \
    if (heap_.failed && status != KVC_OK) {                                     \
      check_status(KVC_ERROR_OUT_OF_MEMORY, status, #call, __FILE__, __LINE__); \
      CHECK(strlen(kvc_last_error()) > 0);                                      \
      CHECK_EQ(quiet_digest(m), before);                                        \
      ++clean_failures_;                                                        \
      if (heap_.sticky) {                                                       \
        gave_up_ = 1;                                                           \
        break;                                                                  \
      }                                                                         \
      status = (call);                                                          \
    }                                                                           \
    check_status(KVC_OK, status, #call, __FILE__, __LINE__);                    \
  } while (0)

static int clean_failures_;
enum { kMaxScale = 48 };
static int32_t tokens_[3000 * kMaxScale];

static void* array(const kvc_step* step, int32_t which) {
  kvc_view view;
  OK(kvc_step_view(step, which, &view));
  return view.data;
}

/* A step of one item of 64 tokens: its failure may be the item's. */
static kvc_status one_item(kvc_manager* m, kvc_step* step, const int32_t* tokens) {
  const int32_t ids = step->num_requests != 0 ? KVC_STEP_EXTEND_TOKENS : KVC_STEP_ADMIT_TOKENS;
  const int32_t offsets = step->num_requests != 0 ? KVC_STEP_EXTEND_OFFSETS : KVC_STEP_ADMIT_OFFSETS;
  memcpy(array(step, ids), tokens, 64 * sizeof *tokens);
  ((uint64_t*)array(step, offsets))[1] = 64;
  const kvc_status status = kvc_manager_step(m, step);
  if (status != KVC_OK) return status;
  OK(kvc_manager_retire_step(m, step->step_id));
  return step->status[0];
}

/* Some of every kind of call that may need memory; `n` scales the sizes, so that other calls meet the
 * allocator. */
static void workload(kvc_manager* m, size_t n, uint64_t* end_digest) {
  uint64_t r[8] = {0}, space = 0, pin = 0, pinned = 0, dropped = 0, cached = 0;
  static int32_t blocks[16 * kMaxScale];
  static kvc_extra_key keys[64 * kMaxScale];
  static kvc_block_copy copies[4];
  size_t count = 0;
  kvc_probe_info probe = {.struct_size = sizeof probe};
  for (size_t i = 0; i < 64 * n; ++i) { /* many short spans over the first 256 n tokens */
    keys[i] = (kvc_extra_key){.first_token = 4 * i + 1, .num_tokens = 2, .digest = {(uint8_t)i}};
  }
  const kvc_namespace_config tenant = {
      .struct_size = sizeof tenant, .tenant = tokens_, .tenant_size = 600 * n};
  TRY(m, kvc_manager_open_namespace(m, &tenant, &space));
  TRY(m, kvc_manager_allocate_request(m, PROMPT(0, tokens_, 70 * n, NULL, 0), NULL, &r[0], &cached));
  TRY(m, kvc_manager_commit_tokens(m, r[0], 70 * n));
  TRY(m,
      kvc_manager_allocate_request(m, PROMPT(space, tokens_, 300 * n, keys, 64 * n), NULL, &r[1], &cached));
  TRY(m, kvc_manager_commit_tokens(m, r[1], 200 * n));
  TRY(m, kvc_manager_create_request(m, PROMPT(0, tokens_, 90 * n, NULL, 0), NULL, &r[2]));
  TRY(m, kvc_manager_append_tokens(m, r[2], tokens_ + 90 * n, 600 * n));
  TRY(m, kvc_manager_admit_request(m, r[2], &cached));
  TRY(m, kvc_manager_append_tokens(m, r[0], tokens_ + 70 * n, 901 * n));
  TRY(m, kvc_manager_commit_tokens(m, r[0], 803 * n + 1));
  TRY(m, kvc_manager_reserve_tokens(m, r[0], 1500 * n));
  TRY(m, kvc_manager_fork_request(m, r[0], &r[3]));
  TRY(m, kvc_manager_append_tokens(m, r[3], tokens_, 5 * n)); /* copy on write */
  TRY(m, take_copies(m, copies, 4, &count));
  TRY(m, kvc_manager_truncate_request(m, r[0], 401 * n));
  TRY(m, kvc_manager_append_tokens(m, r[0], tokens_, 300 * n));
  TRY(m, kvc_manager_preempt_request(m, r[2]));
  TRY(m, kvc_manager_admit_request(m, r[2], &cached));
  TRY(m, kvc_manager_pin_prefix(m, PROMPT(0, tokens_, 64 * n, NULL, 0), &pin, &pinned));
  TRY(m, kvc_manager_probe(m, PROMPT(0, tokens_, 2900 * n, NULL, 0), &probe));
  TRY(m, kvc_manager_acquire_blocks(m, 0, blocks, 3 * n));
  TRY(m, kvc_manager_publish_blocks(m, PROMPT(space, tokens_ + 100, 12 * n, keys, 3 * n), 0, blocks, 3 * n));
  TRY(m, kvc_manager_acquire_prefix(m, PROMPT(space, tokens_ + 100, 12 * n, keys, 3 * n), 0, blocks + 3 * n,
                                    5 * n, &count));
  TRY(m, kvc_manager_release_blocks(m, blocks, 3 * n + (gave_up_ ? 0 : count)));
  TRY(m, kvc_manager_drop_prefix(m, PROMPT(0, tokens_, 2950 * n, NULL, 0), &dropped));
  TRY(m, kvc_manager_check(m));

  kvc_step* step = NULL;
  const kvc_step_limits limits = {.struct_size = sizeof limits,
                                  .max_requests = 1,
                                  .max_admissions = 1,
                                  .max_tokens = 64,
                                  .max_prompt_tokens = 64,
                                  .max_rows = 2,
                                  .row_stride = 512};
  TRY(m, kvc_step_create(m, &limits, &step));
  if (step != NULL) {
    step->rows = NULL;
    step->num_admissions = 1;
    TRY(m, one_item(m, step, tokens_ + 1000));
    step->num_admissions = 0, step->num_requests = 1;
    *(uint64_t*)array(step, KVC_STEP_REQUESTS) = step->admitted[0];
    for (uint64_t i = 0; i < 20 && !gave_up_; ++i) {
      *(uint64_t*)array(step, KVC_STEP_COMMITTED) = 64 + 64 * i;
      TRY(m, one_item(m, step, tokens_ + 1064 + 64 * i));
    }
    kvc_step_destroy(step);
  }
  TRY(m, kvc_manager_reset_namespace(m, space));
  if (!gave_up_) *end_digest = quiet_digest(m);

  /* Whatever happened, all that exists can be given back, and nothing here needs memory. */
  uint64_t all[64];
  size_t requests = 0;
  OK(kvc_manager_list_requests(m, all, 64, &requests));
  for (size_t i = 0; i < requests; ++i) OK(kvc_manager_free_request(m, all[i]));
  if (pin != 0) OK(kvc_manager_unpin_prefix(m, pin));
  if (space != 0 && !gave_up_) OK(kvc_manager_close_namespace(m, space));
  silent_ = 1;
  OK(kvc_manager_check(m));
  silent_ = 0;
}

/* Whether the k-th allocation was asked for. */
static int run(int64_t k, int32_t sticky, const kvc_manager_config* config, size_t scale,
               uint64_t* end_digest) {
  heap_ = (Heap){.countdown = k, .sticky = sticky};
  gave_up_ = 0;
  calls_ = 0, learns_ = k < 0;
  kvc_manager* m = NULL;
  kvc_status status = kvc_manager_create(config, &m);
  if (status != KVC_OK) {
    CHECK(heap_.failed && status == KVC_ERROR_OUT_OF_MEMORY && m == NULL);
    CHECK(heap_.blocks == 0 && heap_.bytes == 0);
    ++clean_failures_;
    if (sticky) return 1;
    OK(kvc_manager_create(config, &m));
  }
  workload(m, scale, end_digest);
  kvc_manager_destroy(m);
  CHECK(heap_.blocks == 0 && heap_.bytes == 0);
  return sticky ? gave_up_ || heap_.failed : heap_.countdown < 0;
}

int main(void) {
  const kvc_allocator allocator = {
      .struct_size = sizeof allocator, .user_data = &heap_, .allocate = take, .release = give_back};
  const kvc_group_config groups[2] = {
      {.struct_size = sizeof *groups},
      {.struct_size = sizeof *groups, .kind = KVC_GROUP_SLIDING_WINDOW, .window_tokens = 3000 * kMaxScale}};
  fill_tokens(tokens_, 3000 * kMaxScale, 1);
  static const size_t scales[] = {1, 5, 20, kMaxScale};
  int64_t in_calls = 0;
  for (int variant = 0; variant < 8; ++variant) {
    const size_t scale = scales[variant / 2];
    kvc_manager_config config = small_config(1500 * scale);
    config.max_request_tokens = 3000 * kMaxScale;
    config.event_capacity = 256;
    config.seed = 1;
    config.allocator = &allocator;
    config.groups = groups;
    config.num_groups = (size_t)(variant % 2) + 1;
    heap_ = (Heap){.countdown = INT64_MAX};
    kvc_manager_destroy(make_manager(&config));
    const int64_t to_create = INT64_MAX - heap_.countdown;
    uint64_t expected = 0;
    run(-1, 0, &config, scale, &expected);
    for (int32_t sticky = 0; sticky < 2; ++sticky) {
      int64_t k = 0;
      clean_failures_ = 0;
      for (;; ++k) {
        uint64_t end = 0;
        if (!run(k, sticky, &config, scale, &end)) break;
        if (!sticky) CHECK_EQ(end, expected);
      }
      in_calls += k - to_create;
      printf("scale %zu, %zu groups, %s: %" PRId64 " allocations, %d calls failed cleanly\n", scale,
             config.num_groups, sticky ? "failing from the k-th on" : "failing once", k, clean_failures_);
    }
  }
  CHECK(in_calls > 100); /* beside those while a manager is made */
  return 0;
}
