/* SPDX-License-Identifier: Apache-2.0 */
/* How many table entries a step may change: with too little room it is refused and says how many, and with
 * that much it succeeds, whatever it does; and rows that are too short for their item fail that item alone.
 */
#include <kvcache/step.h>

#include "check.h"

enum { kRows = 4, kStride = 16, kMost = 256 };

static kvc_manager* m;
static int32_t tokens_[64], tables_[kRows][kStride], rows_[kRows] = {0, 1, 2, 3};
static kvc_status status_[8];
static uint64_t admitted_[2], cached_[2];
static kvc_block_copy copies_[8];
static kvc_table_change changes_[kMost];

static kvc_step step_of(const uint64_t* requests, const uint64_t* extend_offsets, size_t num_requests) {
  return (kvc_step){.struct_size = sizeof(kvc_step),
                    .fill_id = -1,
                    .num_requests = num_requests,
                    .requests = requests,
                    .extend_offsets = extend_offsets,
                    .extend_tokens = tokens_,
                    .num_rows = kRows,
                    .row_stride = kStride,
                    .rows = rows_,
                    .block_tables = tables_[0],
                    .status = status_,
                    .admitted = admitted_,
                    .cached = cached_,
                    .copies = copies_,
                    .copy_capacity = 8,
                    .changes = changes_};
}

/* Runs the step with as much room as it asks for. Returns how many entries it changed. */
static size_t run_as_asked(kvc_step* s) {
  s->change_capacity = 0;
  REFUSED_SAYING(m, KVC_ERROR_BUFFER_TOO_SMALL, kvc_manager_step(m, s), "change_capacity is 0", "");
  const size_t needed = s->num_changes;
  CHECK(needed > 0 && needed < kMost);
  s->change_capacity = needed;
  OK(kvc_manager_step(m, s));
  CHECK(s->num_changes <= needed);
  for (size_t i = 0; i < s->num_changes; ++i)
    CHECK_EQ(tables_[changes_[i].row][changes_[i].column], changes_[i].block);
  OK(kvc_manager_retire_step(m, s->step_id));
  return s->num_changes;
}

static void test_what_is_asked_for_suffices(void) {
  const uint64_t both[] = {allocate(m, tokens_, 9, 0), allocate(m, tokens_ + 20, 9, 0)};
  const uint64_t one_each[] = {0, 1, 2}, many[] = {0, 9, 18};
  kvc_step s = step_of(both, one_each, 2);
  CHECK_EQ(run_as_asked(&s), 6); /* rows that nobody was in: three blocks each */
  s = step_of(both, many, 2);
  CHECK_EQ(run_as_asked(&s), 4); /* two more each */
  s = step_of(both, one_each, 2), s.flags = KVC_STEP_WHOLE_ROWS;
  CHECK_EQ(run_as_asked(&s), 10);

  const uint64_t length[] = {4};
  s = step_of(both, many, 2), s.num_truncates = 1, s.truncates = both, s.truncate_lengths = length;
  run_as_asked(&s);
  CHECK_EQ(status_[0], KVC_OK);
  CHECK_EQ(request_info(m, both[0]).num_tokens, 13);

  s = step_of(both, one_each, 1), s.num_preempts = 1, s.preempts = both + 1;
  run_as_asked(&s);
  CHECK_EQ(request_info(m, both[1]).admitted, 0);

  /* One waits and comes back, one is new, one does not exist and one has no row. */
  const uint64_t unknown[] = {both[0] ^ 1, both[0]}, back[] = {both[1], 0, UINT64_MAX},
                 admit_offsets[] = {0, 0, 9, 9};
  int32_t none_for_one[] = {0, -1, 2, 3, 1};
  uint64_t made[3], found[3];
  kvc_status all[8];
  s = step_of(unknown, one_each, 2), s.num_admissions = 3, s.admit_requests = back;
  s.admit_offsets = admit_offsets, s.admit_tokens = tokens_ + 40, s.rows = none_for_one;
  s.admitted = made, s.cached = found, s.status = all, s.flags = KVC_STEP_ADMIT_PAST_REFUSAL;
  run_as_asked(&s);
  CHECK_EQ(all[0], KVC_ERROR_NOT_FOUND);
  CHECK_EQ(all[1], KVC_OK);
  CHECK_EQ(all[2], KVC_OK);
  CHECK_EQ(all[3], KVC_OK);
  CHECK_EQ(all[4], KVC_ERROR_NOT_FOUND);
  CHECK_EQ(made[0], both[1]);
  OK(kvc_manager_free_request(m, both[0]));
  OK(kvc_manager_free_request(m, both[1]));
  OK(kvc_manager_free_request(m, made[1]));
}

/* An extension by one id gives slots to everything known before it: the rest of a prompt that is computed in
 * chunks, and ids that the commit of the same item brings. */
static void test_known_tokens_without_slots(void) {
  const kvc_request_config chunk = {.struct_size = sizeof chunk, .slots = 4};
  const uint64_t one[] = {0, 1}, three[] = {0, 3}, committed[] = {4};
  uint64_t r = 0, cached = 0;
  OK(kvc_manager_allocate_request(m, PROMPT(0, tokens_, 40, NULL, 0), &chunk, &r, &cached));
  kvc_step s = step_of(&r, one, 1);
  CHECK_EQ(run_as_asked(&s), 11);
  OK(kvc_manager_free_request(m, r));

  r = allocate(m, tokens_ + 50, 4, 0);
  s = step_of(&r, one, 1);
  s.committed = committed, s.commit_offsets = three, s.commit_tokens = tokens_;
  CHECK_EQ(run_as_asked(&s), 2);
  OK(kvc_manager_truncate_request(m, r, 4));
  s = step_of(&r, three, 1);
  s.extend_tokens = NULL; /* slots, no ids */
  CHECK_EQ(run_as_asked(&s), 1);
  OK(kvc_manager_append_tokens(m, r, tokens_, 4));
  OK(kvc_manager_free_request(m, r));
}

/* Ids that the commit of an item brings count, though the step preempts the request then and admits it again.
 */
static void test_known_tokens_of_a_readmission(void) {
  const uint64_t r = allocate(m, tokens_ + 50, 4, 0);
  const uint64_t many[] = {0, 40}, committed[] = {4}, back[] = {r};
  int32_t rows[] = {-1, 0};
  kvc_step s = step_of(&r, NULL, 1);
  s.extend_tokens = NULL;
  s.committed = committed, s.commit_offsets = many, s.commit_tokens = tokens_;
  s.num_preempts = 1, s.preempts = back, s.num_admissions = 1, s.admit_requests = back, s.rows = rows;
  CHECK_EQ(run_as_asked(&s), 11);
  CHECK_EQ(status_[0], KVC_OK);
  CHECK_EQ(status_[1], KVC_OK);
  CHECK_EQ(status_[2], KVC_OK);
  OK(kvc_manager_free_request(m, r));
}

/* Rows of exactly the longest request, and slots kept ready for draft tokens: it reaches its last token. */
static void test_lookahead_up_to_the_longest_request(void) {
  const kvc_manager_config config = {
      .struct_size = sizeof config, .num_blocks = 8, .block_size = 16, .max_request_tokens = 64};
  const kvc_request_config options = {.struct_size = sizeof options, .lookahead = 5};
  const uint64_t offsets[] = {0, 1};
  const int32_t* const ids[] = {tokens_, NULL};
  for (int late = 0; late < 2; ++late) { /* ids with the slots, or with a later commit */
    kvc_manager* own = NULL;
    uint64_t r = 0, cached = 0;
    OK(kvc_manager_create(&config, &own));
    OK(kvc_manager_allocate_request(own, PROMPT(0, tokens_, 40, NULL, 0), &options, &r, &cached));
    kvc_step s = step_of(&r, offsets, 1);
    s.extend_tokens = ids[late], s.row_stride = 4, s.num_rows = 1, s.rows = NULL, s.changes = NULL;
    for (int token = late ? 45 : 40; token < 64; ++token) {
      OK(kvc_manager_step(own, &s));
      CHECK_EQ(status_[0], KVC_OK);
    }
    CHECK_EQ(request_info(own, r).capacity, 64);
    OK(kvc_manager_step(own, &s));
    CHECK_EQ(status_[0], KVC_ERROR_LIMIT);
    CHECK(strstr(kvc_last_error(), "max_request_tokens") != NULL);
    OK(kvc_manager_check(own));
    kvc_manager_destroy(own);
  }
}

static void test_rows_that_are_too_short(void) {
  const uint64_t requests[] = {allocate(m, tokens_, 7, 0), allocate(m, tokens_ + 20, 11, 0)};
  const uint64_t offsets[] = {0, 1, 1}, more[] = {0, 2, 2}, admit_offsets[] = {0, 9};
  uint64_t waiting = 0;
  OK(kvc_manager_create_request(m, PROMPT(0, tokens_ + 40, 9, NULL, 0), NULL, &waiting));
  memset(tables_, 0x55, sizeof tables_);
  kvc_step s = step_of(requests, offsets, 2);
  s.row_stride = 2, s.rows = NULL;
  s.num_admissions = 1, s.admit_requests = &waiting, s.admit_offsets = admit_offsets,
  s.admit_tokens = tokens_;
  run_as_asked(&s);
  CHECK_EQ(status_[0], KVC_OK); /* eight tokens are two blocks */
  CHECK_EQ(status_[1], KVC_OK); /* is not extended, and its three blocks do not show */
  CHECK_EQ(status_[2], KVC_ERROR_BUFFER_TOO_SMALL);
  CHECK_EQ(admitted_[0], 0);
  const int32_t* row = tables_[0];
  CHECK(row[0] >= 0 && row[1] >= 0 && row[2] == 0x55555555 && row[3] == 0x55555555);

  s = step_of(requests, more, 2);
  s.row_stride = 2, s.rows = NULL, s.change_capacity = kMost;
  OK(kvc_manager_step(m, &s));
  CHECK_EQ(status_[0], KVC_ERROR_BUFFER_TOO_SMALL); /* ten tokens are three */
  CHECK_EQ(request_info(m, requests[0]).num_tokens, 8);
  OK(kvc_manager_retire_step(m, s.step_id));
  for (int i = 0; i < 2; ++i) OK(kvc_manager_free_request(m, requests[i]));
  OK(kvc_manager_free_request(m, waiting));
}

/* Ids beyond every slot are looked ahead for and not found, one by one, in more items than one hold of the
 * lock does. */
static void test_many_unknown_requests(void) {
  enum { kMany = 200 };
  uint64_t unknown[kMany], offsets[kMany + 1];
  kvc_status status[2 * kMany];
  for (uint64_t i = 0; i < kMany; ++i) unknown[i] = UINT64_MAX - i;
  for (uint64_t i = 0; i <= kMany; ++i) offsets[i] = i < 64 ? i : 64;
  kvc_step s = step_of(unknown, offsets, kMany);
  s.frees = unknown, s.num_frees = kMany;
  s.status = status, s.block_tables = NULL, s.rows = NULL;
  OK(kvc_manager_step(m, &s));
  for (int i = 0; i < 2 * kMany; ++i) CHECK_EQ(status[i], KVC_ERROR_NOT_FOUND);
  OK(kvc_manager_retire_step(m, s.step_id));
}

int main(void) {
  m = small_manager(64);
  fill_tokens(tokens_, 64, 1);
  test_what_is_asked_for_suffices();
  test_known_tokens_without_slots();
  test_known_tokens_of_a_readmission();
  test_lookahead_up_to_the_longest_request();
  test_rows_that_are_too_short();
  test_many_unknown_requests();
  end_manager(m);
  return 0;
}
