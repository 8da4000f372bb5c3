/* SPDX-License-Identifier: Apache-2.0 */
/* Ids that are stale, given back twice, of another manager, of another kind, or made up: NOT_FOUND
 * everywhere, and nothing changes. A made-up id differs from a valid one in one bit, each bit in turn. */
#include <kvcache/external.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include "check.h"

static int32_t tokens_[16];

/* Every call that takes the id of a request. */
static void expect_no_request(kvc_manager* m, uint64_t id, kvc_step* step) {
  uint64_t out = POISON, before = POISON;
  int32_t row[4] = {-77, -77, -77, -77};
  int64_t slots[2] = {-77, -77};
  kvc_request_info info;
  memset(&info, POISON_BYTE, sizeof info);
  info.struct_size = sizeof info;
  const kvc_request_info untouched = info;
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_admit_request(m, id, &out));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_reserve_tokens(m, id, 8));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_append_tokens(m, id, tokens_, 1));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_commit_tokens(m, id, 1));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_truncate_request(m, id, 0));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_fork_request(m, id, &out));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_preempt_request(m, id));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_free_request(m, id));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_request_info(m, id, &info));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_export_tables(m, &id, 1, 0, -1, row, 4));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_export_slots(m, id, 0, 0, 1, slots, 8));
  CHECK(out == before);
  CHECK(memcmp(&info, &untouched, sizeof info) == 0);
  for (int i = 0; i < 4; ++i) CHECK_EQ(row[i], -77);
  CHECK(slots[0] == -77 && slots[1] == -77);

  /* In a step each item has its own status; phases: frees, preempts, truncates, requests, admissions. */
  uint64_t frees[1] = {id}, length[1] = {0}, committed[1] = {1}, offsets[2] = {0, 1};
  uint64_t admitted[1] = {POISON}, cached[1] = {POISON};
  kvc_status status[5] = {-77, -77, -77, -77, -77};
  const size_t counts = id != 0 ? 1 : 0; /* among admissions 0 asks for a new request */
  *step = (kvc_step){.struct_size = sizeof *step,
                     .num_frees = 1,
                     .num_preempts = 1,
                     .num_truncates = 1,
                     .num_requests = 1,
                     .num_admissions = counts,
                     .frees = frees,
                     .preempts = frees,
                     .truncates = frees,
                     .truncate_lengths = length,
                     .requests = frees,
                     .committed = committed,
                     .extend_offsets = offsets,
                     .extend_tokens = tokens_,
                     .admit_requests = frees,
                     .status = status,
                     .admitted = admitted,
                     .cached = cached};
  const uint64_t digest_before = digest(m);
  kvc_block_copy copies[1];
  step->copies = copies;
  step->copy_capacity = 1;
  OK(kvc_manager_step(m, step));
  for (size_t i = 0; i < 4 + counts; ++i) CHECK_EQ(status[i], KVC_ERROR_NOT_FOUND);
  if (counts != 0) CHECK_EQ(admitted[0], 0);
  OK(kvc_manager_retire_step(m, step->step_id));
  CHECK_EQ(digest(m), digest_before);
}

static void expect_no_namespace(kvc_manager* m, uint64_t id) {
  CHECK(id != 0); /* the default namespace, which always exists */
  uint64_t out = POISON, number = POISON;
  int32_t blocks[4] = {-77, -77, -77, -77};
  size_t count = 77;
  kvc_probe_info probe = {.struct_size = sizeof probe, .num_cached = POISON};
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_close_namespace(m, id));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_reset_namespace(m, id));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_create_request(m, PROMPT(id, tokens_, 8, NULL, 0), NULL, &out));
  REFUSED(m, KVC_ERROR_NOT_FOUND,
          kvc_manager_allocate_request(m, PROMPT(id, tokens_, 8, NULL, 0), NULL, &out, &number));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_probe(m, PROMPT(id, tokens_, 8, NULL, 0), &probe));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_pin_prefix(m, PROMPT(id, tokens_, 8, NULL, 0), &out, &number));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_drop_prefix(m, PROMPT(id, tokens_, 8, NULL, 0), &number));
  REFUSED(m, KVC_ERROR_NOT_FOUND,
          kvc_manager_acquire_prefix(m, PROMPT(id, tokens_, 8, NULL, 0), 0, blocks, 4, &count));
  int32_t held = -77;
  OK(kvc_manager_acquire_blocks(m, 0, &held, 1));
  REFUSED(m, KVC_ERROR_NOT_FOUND,
          kvc_manager_publish_blocks(m, PROMPT(id, tokens_, 8, NULL, 0), 0, &held, 1));
  OK(kvc_manager_release_blocks(m, &held, 1));
  CHECK(out == POISON && number == POISON && probe.num_cached == POISON && count == 77 && blocks[0] == -77);
}

static void expect_no_pin(kvc_manager* m, uint64_t id) {
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_unpin_prefix(m, id));
}

static uint64_t open_tenant(kvc_manager* m, const char* tenant) {
  const kvc_namespace_config config = {
      .struct_size = sizeof config, .tenant = tenant, .tenant_size = strlen(tenant)};
  uint64_t id = 0;
  OK(kvc_manager_open_namespace(m, &config, &id));
  CHECK(id != 0);
  return id;
}

int main(void) {
  kvc_manager* m = small_manager(32);
  kvc_manager* other = small_manager(32);
  kvc_step step;
  fill_tokens(tokens_, 16, 1);
  cache_prompt(m, tokens_, 9, 0);
  cache_prompt(other, tokens_, 9, 0);

  const uint64_t live = allocate(m, tokens_, 9, 8);
  OK(kvc_manager_commit_tokens(m, live, 9));
  const uint64_t stale = allocate(m, tokens_, 9, 8);
  OK(kvc_manager_free_request(m, stale));
  const uint64_t reused = allocate(m, tokens_, 9, 8); /* most likely in the slot of `stale` */
  CHECK(reused != stale);
  const uint64_t foreign = allocate(other, tokens_, 9, 8);
  CHECK(foreign != live && foreign != reused);
  const uint64_t space = open_tenant(m, "one"), gone_space = open_tenant(m, "two"),
                 foreign_space = open_tenant(other, "one");
  OK(kvc_manager_close_namespace(m, gone_space));
  uint64_t pin = 0, gone_pin = 0, foreign_pin = 0, pinned = 0;
  OK(kvc_manager_pin_prefix(m, PROMPT(0, tokens_, 8, NULL, 0), &pin, &pinned));
  OK(kvc_manager_pin_prefix(m, PROMPT(0, tokens_, 8, NULL, 0), &gone_pin, &pinned));
  OK(kvc_manager_pin_prefix(other, PROMPT(0, tokens_, 8, NULL, 0), &foreign_pin, &pinned));
  OK(kvc_manager_unpin_prefix(m, gone_pin));

  const uint64_t no_requests[] = {0, UINT64_MAX, stale, foreign, pin, space, 1, (uint64_t)INT64_MAX};
  for (size_t i = 0; i < sizeof no_requests / sizeof *no_requests; ++i)
    expect_no_request(m, no_requests[i], &step);
  const uint64_t no_spaces[] = {UINT64_MAX, gone_space, foreign_space, live, pin, 1};
  for (size_t i = 0; i < sizeof no_spaces / sizeof *no_spaces; ++i) expect_no_namespace(m, no_spaces[i]);
  const uint64_t no_pins[] = {0, UINT64_MAX, gone_pin, foreign_pin, live, space, 1};
  for (size_t i = 0; i < sizeof no_pins / sizeof *no_pins; ++i) expect_no_pin(m, no_pins[i]);
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t forged = live ^ ((uint64_t)1 << bit);
    if (forged != reused) expect_no_request(m, forged, &step);
    expect_no_namespace(m, space ^ ((uint64_t)1 << bit));
    expect_no_pin(m, pin ^ ((uint64_t)1 << bit));
  }

  /* What is valid still works once, and only once. */
  OK(kvc_manager_free_request(m, live));
  expect_no_request(m, live, &step);
  OK(kvc_manager_free_request(m, reused));
  OK(kvc_manager_unpin_prefix(m, pin));
  expect_no_pin(m, pin);
  OK(kvc_manager_close_namespace(m, space));
  expect_no_namespace(m, space);
  const uint64_t next = open_tenant(m, "one"); /* the same identity, but not the same id */
  CHECK(next != space);
  expect_no_namespace(m, space);
  OK(kvc_manager_free_request(other, foreign));
  end_manager(m);
  end_manager(other);
  return 0;
}
