/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input for the single calls on a manager: tokens and keys out of range, counts out of range,
 * groups, blocks and element sizes that do not exist, requests in the wrong state. Each fails as documented,
 * names value and limit, changes nothing and writes nothing. Ids have their own test, and so have lengths
 * beyond the memory given. */
#include <kvcache/external.h>
#include <kvcache/prefix.h>
#include <kvcache/retention.h>
#include <kvcache/sizing.h>
#include <kvcache/step.h>

#include "../event_calls.h"
#include "check.h"

static kvc_manager* m;
static int32_t tokens_[16];
static uint64_t admitted_, waiting_;

/* Out-parameters of all kinds; none may ever be written here. */
static uint64_t id_ = POISON, number_ = POISON, cursor_;
static size_t count_ = POISON;
static int32_t row_[8];
static int64_t slots_[8];
static kvc_event event_;
static kvc_probe_info probe_ = {.struct_size = sizeof(kvc_probe_info), .num_cached = POISON};

static void expect_untouched(void) {
  CHECK(id_ == POISON && number_ == POISON && count_ == POISON && probe_.num_cached == POISON &&
        event_.sequence == POISON);
  for (int i = 0; i < 8; ++i) CHECK(row_[i] == -77 && slots_[i] == -77);
}

/* Structs and arrays inside of structs; tests/hardening passes NULL for each argument of every function. */
static void test_null_pointers(void) {
  const kvc_status bad = KVC_ERROR_INVALID_ARGUMENT;
  REFUSED(m, bad, take_copies(m, NULL, 4, &count_));
  REFUSED_SAYING(m, bad, kvc_manager_evict_blocks(m, 1, 1, &count_), "pool 1", "1 pools");
  REFUSED_SAYING(m, bad, kvc_manager_evict_blocks(m, -2, 1, &count_), "pool -2", "1 pools");
  REFUSED(m, bad, poll_events(m, &cursor_, NULL, sizeof event_, 1, &count_, NULL, 0));
  const kvc_prompt none = {.struct_size = sizeof none, .num_tokens = 4};
  const kvc_prompt no_keys = {.struct_size = sizeof none, .tokens = tokens_, .num_tokens = 4, .num_keys = 1};
  const kvc_prompt no_size = {.tokens = tokens_, .num_tokens = 4};
  const kvc_prompt* const prompts[] = {&none, &no_keys, &no_size, NULL};
  for (int i = 0; i < 4; ++i) {
    REFUSED(m, bad, kvc_manager_create_request(m, prompts[i], NULL, &id_));
    REFUSED(m, bad, kvc_manager_allocate_request(m, prompts[i], NULL, &id_, &number_));
    REFUSED(m, bad, kvc_manager_probe(m, prompts[i], &probe_));
    REFUSED(m, bad, kvc_manager_pin_prefix(m, prompts[i], &id_, &number_));
    REFUSED(m, bad, kvc_manager_drop_prefix(m, prompts[i], &number_));
    REFUSED(m, bad, kvc_manager_acquire_prefix(m, prompts[i], 0, row_, 8, &count_));
    REFUSED(m, bad, kvc_manager_publish_blocks(m, prompts[i], 0, row_, 1));
  }
  expect_untouched();
}

/* Every call that takes tokens, with these tokens and keys. */
static void refuse_prompt(const int32_t* tokens, size_t n, const kvc_extra_key* keys, size_t num_keys,
                          const char* value, const char* limit) {
  const kvc_status bad = KVC_ERROR_INVALID_ARGUMENT;
  int32_t held[1] = {-77};
  REFUSED_SAYING(m, bad, kvc_manager_create_request(m, PROMPT(0, tokens, n, keys, num_keys), NULL, &id_),
                 value, limit);
  REFUSED_SAYING(m, bad,
                 kvc_manager_allocate_request(m, PROMPT(0, tokens, n, keys, num_keys), NULL, &id_, &number_),
                 value, limit);
  REFUSED_SAYING(m, bad, kvc_manager_probe(m, PROMPT(0, tokens, n, keys, num_keys), &probe_), value, limit);
  REFUSED_SAYING(m, bad, kvc_manager_pin_prefix(m, PROMPT(0, tokens, n, keys, num_keys), &id_, &number_),
                 value, limit);
  REFUSED_SAYING(m, bad, kvc_manager_drop_prefix(m, PROMPT(0, tokens, n, keys, num_keys), &number_), value,
                 limit);
  REFUSED_SAYING(m, bad,
                 kvc_manager_acquire_prefix(m, PROMPT(0, tokens, n, keys, num_keys), 0, row_, 8, &count_),
                 value, limit);
  OK(kvc_manager_acquire_blocks(m, 0, held, 1));
  REFUSED_SAYING(m, bad, kvc_manager_publish_blocks(m, PROMPT(0, tokens, n, keys, num_keys), 0, held, 1),
                 value, limit);
  OK(kvc_manager_release_blocks(m, held, 1));
  expect_untouched();
}

static void test_tokens_and_keys(void) {
  static const int32_t wrong[] = {-1, 1000, 1001, INT32_MAX, INT32_MIN};
  static const char* const names[] = {"-1", "1000", "1001", "2147483647", "-2147483648"};
  for (size_t i = 0; i < 5; ++i) {
    for (size_t at = 0; at < 16; at += 5) { /* first, last, and in between */
      int32_t tokens[16];
      memcpy(tokens, tokens_, sizeof tokens);
      tokens[at] = wrong[i];
      refuse_prompt(tokens, 16, NULL, 0, names[i], "999");
      REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_append_tokens(m, admitted_, tokens, 16),
                     names[i], "999");
      REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_append_tokens(m, waiting_, tokens, 16),
                     names[i], "999");
    }
  }
  kvc_extra_key k[2] = {{.first_token = 2, .num_tokens = 0}};
  refuse_prompt(tokens_, 16, k, 1, "2 + 0", "16"); /* an empty span */
  k[0] = (kvc_extra_key){.first_token = 12, .num_tokens = 5};
  refuse_prompt(tokens_, 16, k, 1, "5", "16"); /* past the tokens */
  k[0] = (kvc_extra_key){.first_token = 16, .num_tokens = 1};
  refuse_prompt(tokens_, 16, k, 1, "16", "16");
  k[0] = (kvc_extra_key){.first_token = UINT64_MAX, .num_tokens = 2}; /* the end overflows to 1 */
  refuse_prompt(tokens_, 16, k, 1, "18446744073709551615", "16");
  k[0] = (kvc_extra_key){.first_token = 1, .num_tokens = UINT64_MAX};
  refuse_prompt(tokens_, 16, k, 1, "18446744073709551615", "16");
  refuse_prompt(NULL, 0, k, 1, "", ""); /* a key without tokens */
  kvc_extra_key many[33] = {{.first_token = 0}};
  for (uint64_t i = 0; i < 33; ++i)
    many[i] = (kvc_extra_key){.first_token = 12 - i % 12, .num_tokens = 4, .digest = {(uint8_t)i}};
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT,
                 kvc_manager_probe(m, PROMPT(0, tokens_, 2, many, 33), &probe_), "33", "16");
  for (uint64_t i = 0; i < 17; ++i)
    many[i] = (kvc_extra_key){.first_token = 8 - i % 4, .num_tokens = 4, .digest = {(uint8_t)i}};
  const kvc_prompt full = {sizeof full, 0, tokens_, 16, many, 17}; /* token 8 has 17 keys */
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_create_request(m, &full, NULL, &id_), "token 8", "16");
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_allocate_request(m, &full, NULL, &id_, &number_), "token 8",
                 "16");
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_probe(m, &full, &probe_), "token 8", "16");
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_pin_prefix(m, &full, &id_, &number_), "token 8", "16");
  expect_untouched();
}

static void refuse_config(kvc_request_config config, kvc_status status) {
  config.struct_size = sizeof config;
  REFUSED(m, status, kvc_manager_create_request(m, PROMPT(0, tokens_, 8, NULL, 0), &config, &id_));
  REFUSED(m, status,
          kvc_manager_allocate_request(m, PROMPT(0, tokens_, 8, NULL, 0), &config, &id_, &number_));
  expect_untouched();
}

static void test_request_configs(void) {
  for (int bit = 4; bit < 32; ++bit)
    refuse_config((kvc_request_config){.flags = 1u << bit}, KVC_ERROR_UNSUPPORTED);
}

static void test_counts_and_states(void) {
  const kvc_status bad = KVC_ERROR_INVALID_ARGUMENT, busy = KVC_ERROR_BUSY;
  /* admitted_: 10 known, capacity 10, 6 committed; at most 4096 */
  REFUSED_SAYING(m, bad, kvc_manager_commit_tokens(m, admitted_, 5), "5", "6");
  REFUSED_SAYING(m, bad, kvc_manager_commit_tokens(m, admitted_, 11), "11", "10");
  REFUSED_SAYING(m, bad, kvc_manager_commit_tokens(m, admitted_, UINT64_MAX), "18446744073709551615", "10");
  REFUSED_SAYING(m, bad, kvc_manager_truncate_request(m, admitted_, 11), "11", "10");
  REFUSED_SAYING(m, bad, kvc_manager_truncate_request(m, waiting_, 11), "11", "10");
  REFUSED_SAYING(m, bad, kvc_manager_truncate_request(m, admitted_, UINT64_MAX), "18446744073709551615",
                 "10");
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_reserve_tokens(m, admitted_, 4097), "4097", "4096");
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_reserve_tokens(m, admitted_, UINT64_MAX),
                 "18446744073709551615", "4096");
  REFUSED(m, busy, kvc_manager_admit_request(m, admitted_, &number_));
  REFUSED(m, busy, kvc_manager_reserve_tokens(m, waiting_, 4));
  REFUSED(m, busy, kvc_manager_commit_tokens(m, waiting_, 4));
  REFUSED(m, busy, kvc_manager_fork_request(m, waiting_, &id_));
  REFUSED(m, busy, kvc_manager_preempt_request(m, waiting_));
  REFUSED(m, bad, kvc_manager_retire_step(m, 1)); /* none was issued */
  REFUSED(m, bad, kvc_manager_retire_step(m, UINT64_MAX));
  expect_untouched();
}

static void test_tables(void) {
  const kvc_status bad = KVC_ERROR_INVALID_ARGUMENT;
  const uint64_t two[2] = {admitted_, 0};
  REFUSED(m, KVC_ERROR_BUFFER_TOO_SMALL,
          kvc_manager_export_tables(m, &admitted_, 1, 0, -1, row_, 2)); /* 3 blocks */
  REFUSED(m, KVC_ERROR_BUFFER_TOO_SMALL, kvc_manager_export_tables(m, &admitted_, 1, 0, -1, row_, 0));
  const uint64_t empty = allocate(m, NULL, 0, 0); /* rows of no entries need no memory */
  OK(kvc_manager_export_tables(m, &empty, 1, 0, -1, NULL, 0));
  OK(kvc_manager_free_request(m, empty));
  REFUSED_SAYING(m, bad, kvc_manager_export_tables(m, &admitted_, 1, 1, -1, row_, 8), "1", "1");
  REFUSED(m, bad, kvc_manager_export_tables(m, &admitted_, 1, UINT32_MAX, -1, row_, 8));
  REFUSED(m, KVC_ERROR_NOT_FOUND,
          kvc_manager_export_tables(m, two, 2, 0, -1, row_, 4)); /* nor the first row */
  static const size_t sizes[] = {0, 1, 2, 3, 5, 7, 9, 16, SIZE_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    REFUSED(m, bad, kvc_manager_export_slots(m, admitted_, 0, 0, 1, slots_, sizes[i]));
  REFUSED_SAYING(m, bad, kvc_manager_export_slots(m, admitted_, 1, 0, 1, slots_, 8), "1", "1");
  REFUSED_SAYING(m, bad, kvc_manager_export_slots(m, admitted_, 0, 4, 7, slots_, 8), "7", "10");
  REFUSED(m, bad,
          kvc_manager_export_slots(m, admitted_, 0, 1, UINT64_MAX, slots_, 8)); /* the end overflows to 0 */
  REFUSED(m, bad, kvc_manager_export_slots(m, admitted_, 0, UINT64_MAX, 2, slots_, 8));
  expect_untouched();
}

static void test_blocks(void) {
  const kvc_status bad = KVC_ERROR_INVALID_ARGUMENT;
  kvc_block_info info = {.struct_size = sizeof info, .token_offset = POISON};
  kvc_pool_info pool = {.struct_size = sizeof pool, .free = POISON};
  static const int32_t none[] = {-1, 32, 33, INT32_MAX, INT32_MIN, -2};
  static const char* const names[] = {"-1", "32", "33", "2147483647", "-2147483648", "-2"};
  int32_t held[2] = {-77, -77};
  OK(kvc_manager_acquire_blocks(m, 0, held, 1));
  for (size_t i = 0; i < 6; ++i) {
    REFUSED_SAYING(m, bad, kvc_manager_block_info(m, none[i], &info), names[i], "");
    if (i == 0) continue; /* -1 entries are passed over below */
    held[1] = none[i];
    REFUSED_SAYING(m, bad, kvc_manager_release_blocks(m, held, 2), names[i], "");
    REFUSED_SAYING(m, bad, kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 8, NULL, 0), 0, held, 2),
                   names[i], "");
  }
  held[1] = held[0]; /* two releases, one hold */
  REFUSED_SAYING(m, KVC_ERROR_NOT_HELD, kvc_manager_release_blocks(m, held, 2), "", "");
  held[1] = 31; /* free */
  REFUSED_SAYING(m, KVC_ERROR_NOT_HELD, kvc_manager_release_blocks(m, held, 2), "31", "");
  REFUSED_SAYING(m, KVC_ERROR_NOT_HELD,
                 kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 8, NULL, 0), 0, held, 2), "31", "");
  held[1] = 0; /* held, but by a request */
  REFUSED(m, KVC_ERROR_NOT_HELD, kvc_manager_release_blocks(m, held, 2));
  REFUSED_SAYING(m, bad, kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 3, NULL, 0), 0, held, 1), "3",
                 "4"); /* too few tokens */
  REFUSED_SAYING(m, bad, kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 4, NULL, 0), 1, held, 1), "1",
                 "1"); /* no such group */
  OK(kvc_manager_release_blocks(m, held, 1));
  REFUSED(m, bad, kvc_manager_acquire_blocks(m, 1, row_, 1));
  REFUSED(m, bad, kvc_manager_acquire_blocks(m, UINT32_MAX, row_, 1));
  REFUSED_SAYING(m, KVC_ERROR_NEVER_FITS, kvc_manager_acquire_blocks(m, 0, row_, 33), "33", "");
  REFUSED(m, bad, kvc_manager_acquire_prefix(m, PROMPT(0, tokens_, 8, NULL, 0), 1, row_, 8, &count_));
  REFUSED_SAYING(m, bad, kvc_manager_pool_info(m, 1, &pool), "1", "1");
  REFUSED(m, bad, kvc_manager_pool_info(m, UINT32_MAX, &pool));
  kvc_lost_reuse lost = {.struct_size = sizeof lost};
  REFUSED_SAYING(m, bad, kvc_manager_lost_reuse(m, 1, &lost), "1", "1");
  REFUSED(m, bad, kvc_manager_lost_reuse(m, UINT32_MAX, &lost));
  CHECK(info.token_offset == POISON && pool.free == POISON);
  expect_untouched();
  size_t needed = 0;
  REFUSED(m, KVC_ERROR_BUFFER_TOO_SMALL,
          kvc_manager_acquire_prefix(m, PROMPT(0, tokens_, 8, NULL, 0), 0, NULL, 0, &needed));
  CHECK_EQ(needed, 1);
  REFUSED(m, KVC_ERROR_BUSY, kvc_manager_probe_request(m, admitted_, &probe_));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_probe_request(m, 77, &probe_));
  REFUSED(m, KVC_ERROR_BUFFER_TOO_SMALL, kvc_manager_list_requests(m, &id_, 1, &needed));
  CHECK_EQ(needed, 2);
  expect_untouched();
}

static void test_null_block(void) {
  kvc_manager_config config = small_config(4);
  config.flags = KVC_MANAGER_NULL_BLOCK;
  kvc_manager* n = make_manager(&config);
  kvc_block_info info = {.struct_size = sizeof info};
  int32_t blocks[3] = {-77, -77, -77}, null_block = 0;
  REFUSED_SAYING(n, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_block_info(n, 0, &info), "0", "");
  REFUSED_SAYING(n, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_release_blocks(n, &null_block, 1), "0", "");
  REFUSED_SAYING(n, KVC_ERROR_INVALID_ARGUMENT,
                 kvc_manager_publish_blocks(n, PROMPT(0, tokens_, 4, NULL, 0), 0, &null_block, 1), "0", "");
  OK(kvc_manager_acquire_blocks(n, 0, blocks, 3)); /* all that there are: 1, 2, 3 */
  CHECK(blocks[0] == 1 && blocks[1] == 2 && blocks[2] == 3);
  OK(kvc_manager_release_blocks(n, blocks, 3));
  end_manager(n);
}

static void test_events(void) {
  const kvc_status bad = KVC_ERROR_INVALID_ARGUMENT;
  static const size_t sizes[] = {0, 1, sizeof(kvc_event) - 1, SIZE_MAX};
  for (size_t i = 0; i < 4; ++i)
    REFUSED(m, bad, poll_events(m, &cursor_, &event_, sizes[i], 1, &count_, NULL, 0));
  uint64_t future = UINT64_MAX;
  REFUSED(m, bad, poll_events(m, &future, &event_, sizeof event_, 1, &count_, NULL, 0));
  CHECK(future == UINT64_MAX && cursor_ == 0);
  expect_untouched();
  kvc_manager* silent = small_manager(4);
  REFUSED(silent, KVC_ERROR_UNSUPPORTED,
          poll_events(silent, &cursor_, &event_, sizeof event_, 1, &count_, NULL, 0));
  expect_untouched();
  end_manager(silent);
}

int main(void) {
  kvc_manager_config config = small_config(32);
  config.event_capacity = 64;
  m = make_manager(&config);
  fill_tokens(tokens_, 16, 1);
  event_.sequence = POISON;
  for (int i = 0; i < 8; ++i) row_[i] = -77, slots_[i] = -77;
  admitted_ = allocate(m, tokens_, 10, 0);
  OK(kvc_manager_commit_tokens(m, admitted_, 6));
  OK(kvc_manager_create_request(m, PROMPT(0, tokens_, 10, NULL, 0), NULL, &waiting_));

  test_null_pointers();
  test_tokens_and_keys();
  test_request_configs();
  test_counts_and_states();
  test_tables();
  test_blocks();
  test_null_block();
  test_events();
  end_manager(m);
  return 0;
}
