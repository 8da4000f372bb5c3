/* SPDX-License-Identifier: Apache-2.0 */
/* The life of requests by single calls: allocate, append, commit, reserve, truncate, fork, preempt, free, and
 * what block tables, slots, states and counters say after each. Expected numbers follow docs/SEMANTICS.md. */
#include <kvcache.h>

#include "check.h"

enum { kB = 4 };

static void expect_row(kvc_manager* m, uint64_t request, int32_t fill, const int32_t* expected,
                       size_t width) {
  int32_t row[16];
  CHECK(width <= 16);
  for (size_t i = 0; i < 16; ++i) row[i] = -77;
  OK(kvc_manager_export_tables(m, &request, 1, 0, fill, row, width));
  for (size_t i = 0; i < width; ++i) CHECK_EQ(row[i], expected[i]);
  for (size_t i = width; i < 16; ++i) CHECK_EQ(row[i], -77);
}

static void expect_pool(kvc_manager* m, uint64_t free_blocks, uint64_t cached, uint64_t reserved,
                        uint64_t live) {
  kvc_pool_info info = {.struct_size = sizeof info};
  OK(kvc_manager_pool_info(m, 0, &info));
  CHECK_EQ(info.free, free_blocks);
  CHECK_EQ(info.cached, cached);
  CHECK_EQ(info.reserved, reserved);
  CHECK_EQ(info.live, live);
  CHECK_EQ(info.free + info.cached + info.live + info.reserved + info.filling + info.fenced + info.pinned,
           info.num_blocks);
  const kvc_stats s = stats(m);
  CHECK_EQ(s.blocks_free, free_blocks);
  CHECK_EQ(s.blocks_cached, cached);
  CHECK_EQ(s.blocks_reserved, reserved);
  CHECK_EQ(s.blocks_live, live);
}

static void test_library(void) {
  CHECK_EQ(kvc_version(), KVC_VERSION_MAJOR * 10000 + KVC_VERSION_MINOR * 100 + KVC_VERSION_PATCH);
  CHECK(strlen(kvc_build_info()) > 0 && strchr(kvc_build_info(), '\n') == NULL);
  CHECK(strcmp(kvc_last_error(), "") == 0);
  static const char* const names[] = {"KVC_OK",
                                      "KVC_ERROR_INVALID_ARGUMENT",
                                      "KVC_ERROR_OUT_OF_MEMORY",
                                      "KVC_ERROR_NO_SPACE",
                                      "KVC_ERROR_NOT_FOUND",
                                      "KVC_ERROR_BUSY",
                                      "KVC_ERROR_LIMIT",
                                      "KVC_ERROR_BUFFER_TOO_SMALL",
                                      "KVC_ERROR_UNSUPPORTED",
                                      "KVC_ERROR_NOT_HELD",
                                      "KVC_ERROR_CORRUPT",
                                      "KVC_ERROR_INTERNAL",
                                      "KVC_ERROR_AGAIN",
                                      "KVC_ERROR_SKIPPED",
                                      "KVC_ERROR_DEVICE",
                                      "KVC_ERROR_OVER_QUOTA",
                                      "KVC_ERROR_FILLING"};
  for (int32_t i = 0; i < (int32_t)(sizeof names / sizeof *names); ++i)
    CHECK(strcmp(kvc_status_name(i), names[i]) == 0);
  CHECK(strcmp(kvc_status_name(17), "unknown status") == 0);
  CHECK(strcmp(kvc_status_name(-1), "unknown status") == 0);
  CHECK(strcmp(kvc_status_name(INT32_MIN), "unknown status") == 0);
}

static void test_defaults(void) {
  const kvc_manager_config config = {.struct_size = sizeof config, .num_blocks = 32};
  kvc_manager* m = make_manager(&config);
  kvc_properties p = {.struct_size = sizeof p};
  OK(kvc_manager_properties(m, &p));
  CHECK_EQ(p.num_blocks, 32);
  CHECK_EQ(p.max_nodes, 32 + 32 / 32 + 64);
  CHECK_EQ(p.max_requests, 1024);
  CHECK_EQ(p.max_request_tokens, 1 << 24);
  CHECK_EQ(p.block_size, 16);
  CHECK_EQ(p.num_groups, 1);
  CHECK_EQ(p.num_pools, 1);
  CHECK_EQ(p.event_capacity + p.watermark_blocks + p.vocab_size + p.policy + p.flags, 0);
  end_manager(m);
}

static void test_allocate_commit_free(void) {
  kvc_manager* m = small_manager(8);
  int32_t tokens[16];
  fill_tokens(tokens, 16, 1);
  const uint64_t empty = digest(m);
  expect_pool(m, 8, 0, 0, 0);

  const uint64_t r = allocate(m, tokens, 10, 0);
  CHECK(digest(m) != empty);
  expect_pool(m, 5, 0, 3, 0);
  expect_row(m, r, -1, (const int32_t[]){0, 1, 2, -1, -1}, 5);
  expect_row(m, r, 7, (const int32_t[]){0, 1, 2, 7}, 4);
  kvc_request_info info = request_info(m, r);
  CHECK_EQ(info.num_tokens, 10);
  CHECK_EQ(info.capacity, 10);
  CHECK_EQ(info.num_committed, 0);
  CHECK_EQ(info.num_blocks, 3);
  CHECK_EQ(info.admitted, 1);
  CHECK_EQ(block_info(m, 2).state, KVC_BLOCK_RESERVED);
  CHECK_EQ(block_info(m, 0).group, 0);
  CHECK_EQ(block_info(m, 7).group, -1);

  OK(kvc_manager_commit_tokens(m, r, 5)); /* one full block, one token of the next */
  expect_pool(m, 5, 0, 1, 2);
  CHECK_EQ(block_info(m, 0).published, 1);
  CHECK_EQ(block_info(m, 1).published, 0);
  OK(kvc_manager_commit_tokens(m, r, 10));
  expect_pool(m, 5, 0, 0, 3);
  CHECK_EQ(block_info(m, 1).published, 1);
  CHECK_EQ(block_info(m, 1).token_offset, kB);
  CHECK_EQ(block_info(m, 1).num_copies, 1);
  CHECK_EQ(block_info(m, 1).requests, 1);
  CHECK_EQ(block_info(m, 2).published, 0);

  OK(kvc_manager_append_tokens(m, r, tokens + 10, 3));
  expect_row(m, r, -1, (const int32_t[]){0, 1, 2, 3, -1}, 5);
  OK(kvc_manager_commit_tokens(m, r, 13));
  OK(kvc_manager_free_request(m, r));
  expect_pool(m, 5, 3, 0, 0); /* the partial block is free, the three full ones stay findable */
  CHECK_EQ(block_info(m, 0).state, KVC_BLOCK_CACHED);
  CHECK_EQ(block_info(m, 3).state, KVC_BLOCK_FREE);

  /* All of the prompt is cached but at most n - 1 tokens hit; block 3 was freed last and is taken first. */
  const uint64_t again = allocate(m, tokens, 12, 8);
  expect_row(m, again, -1, (const int32_t[]){0, 1, 3}, 3);
  CHECK_EQ(request_info(m, again).num_committed, 8);
  CHECK_EQ(request_info(m, again).num_cached, 8);
  OK(kvc_manager_commit_tokens(m, again, 12)); /* published before: block 3 becomes a copy of block 2 */
  CHECK_EQ(block_info(m, 3).num_copies, 2);
  CHECK_EQ(block_info(m, 2).num_copies, 2);
  CHECK_EQ(stats(m).duplicates, 1);
  OK(kvc_manager_free_request(m, again));
  CHECK_EQ(block_info(m, 2).num_copies, 1); /* at most one idle copy stays: the lower id */
  CHECK_EQ(block_info(m, 3).published, 0);

  const kvc_stats s = stats(m);
  CHECK_EQ(s.admissions, 2);
  CHECK_EQ(s.prompt_tokens, 22);
  CHECK_EQ(s.cached_tokens, 8);
  CHECK_EQ(s.block_queries, 2 + 2);
  CHECK_EQ(s.block_hits, 2);
  CHECK_EQ(s.live_requests + s.waiting_requests, 0);
  CHECK_EQ(s.published_blocks, 4);
  CHECK(s.metadata_bytes > 0);
  end_manager(m);
}

static void test_slots(void) {
  kvc_manager* m = small_manager(8);
  int32_t tokens[9];
  fill_tokens(tokens, 9, 1);
  const uint64_t first = allocate(m, tokens, 3, 0); /* block 0 */
  const uint64_t r = allocate(m, tokens, 9, 0);     /* blocks 1, 2, 3 */
  int64_t wide[10] = {0};
  int32_t narrow[10] = {0};
  wide[9] = narrow[9] = -77;
  OK(kvc_manager_export_slots(m, r, 0, 0, 9, wide, 8));
  OK(kvc_manager_export_slots(m, r, 0, 0, 9, narrow, 4));
  for (int32_t t = 0; t < 9; ++t) {
    CHECK_EQ(wide[t], kB + t);
    CHECK_EQ(narrow[t], kB + t);
  }
  CHECK(wide[9] == -77 && narrow[9] == -77);
  OK(kvc_manager_export_slots(m, r, 0, 5, 2, wide, 8));
  CHECK(wide[0] == 9 && wide[1] == 10 && wide[2] == 6);
  OK(kvc_manager_export_slots(m, r, 0, 9, 0, NULL, 8));
  OK(kvc_manager_reserve_tokens(m, r, 13)); /* slots without ids: block 4 */
  OK(kvc_manager_export_slots(m, r, 0, 12, 1, wide, 8));
  CHECK_EQ(wide[0], 4 * kB);
  CHECK_EQ(request_info(m, r).num_tokens, 9);
  CHECK_EQ(request_info(m, r).capacity, 13);
  OK(kvc_manager_reserve_tokens(m, r, 2)); /* never shrinks */
  CHECK_EQ(request_info(m, r).capacity, 13);
  OK(kvc_manager_free_request(m, first));
  OK(kvc_manager_free_request(m, r));
  end_manager(m);
}

static void test_create_admit_preempt(void) {
  kvc_manager* m = small_manager(8);
  int32_t tokens[12];
  fill_tokens(tokens, 12, 3);
  uint64_t r = 0, cached = POISON;
  const kvc_request_config config = {.struct_size = sizeof config, .user_data = 99, .slots = 6};
  OK(kvc_manager_create_request(m, PROMPT(0, tokens, 10, NULL, 0), &config, &r));
  kvc_request_info info = request_info(m, r);
  CHECK_EQ(info.admitted, 0);
  CHECK_EQ(info.user_data, 99);
  CHECK_EQ(info.capacity, 0);
  CHECK_EQ(stats(m).waiting_requests, 1);
  OK(kvc_manager_append_tokens(m, r, tokens + 10, 2)); /* waiting: only the ids grow */
  expect_pool(m, 8, 0, 0, 0);

  OK(kvc_manager_admit_request(m, r, &cached));
  CHECK_EQ(cached, 0);
  CHECK_EQ(request_info(m, r).capacity, 6); /* `slots` of chunked prefill */
  expect_pool(m, 6, 0, 2, 0);
  OK(kvc_manager_reserve_tokens(m, r, 12));
  OK(kvc_manager_commit_tokens(m, r, 12));

  OK(kvc_manager_preempt_request(m, r));
  expect_pool(m, 5, 3, 0, 0);
  info = request_info(m, r);
  CHECK_EQ(info.admitted, 0);
  CHECK_EQ(info.num_tokens, 12);
  CHECK_EQ(info.num_committed, 0);
  CHECK_EQ(info.capacity, 0);
  OK(kvc_manager_admit_request(m, r, NULL));
  CHECK_EQ(request_info(m, r).num_cached, 8);
  const kvc_stats s = stats(m);
  CHECK_EQ(s.admissions, 1);
  CHECK_EQ(s.readmissions, 1);
  CHECK_EQ(s.preemptions, 1);

  uint64_t listed[4] = {0}, other = 0;
  size_t count = 0;
  OK(kvc_manager_create_request(m, PROMPT(0, NULL, 0, NULL, 0), NULL, &other)); /* an empty prompt is one */
  OK(kvc_manager_list_requests(m, listed, 4, &count));
  CHECK_EQ(count, 2);
  CHECK(listed[0] == r && listed[1] == other && listed[2] == 0);
  OK(kvc_manager_free_request(m, other));
  OK(kvc_manager_free_request(m, r));
  OK(kvc_manager_list_requests(m, NULL, 0, &count));
  CHECK_EQ(count, 0);
  end_manager(m);
}

static void test_fork_and_copy_on_write(void) {
  kvc_manager* m = small_manager(8);
  int32_t tokens[16];
  fill_tokens(tokens, 16, 4);
  const uint64_t parent = allocate(m, tokens, 10, 0);
  OK(kvc_manager_commit_tokens(m, parent, 10));
  uint64_t child = 0;
  OK(kvc_manager_fork_request(m, parent, &child));
  expect_row(m, child, -1, (const int32_t[]){0, 1, 2, -1}, 4);
  CHECK_EQ(block_info(m, 2).requests, 2);
  CHECK_EQ(request_info(m, child).num_committed, 10);

  kvc_block_copy copies[2] = {{-7, -7}, {-7, -7}};
  size_t count = 77;
  OK(take_copies(m, copies, 2, &count));
  CHECK_EQ(count, 0);
  OK(kvc_manager_append_tokens(m, child, tokens + 10, 1)); /* writes into the shared block 2: gets block 3 */
  expect_row(m, child, -1, (const int32_t[]){0, 1, 3, -1}, 4);
  expect_row(m, parent, -1, (const int32_t[]){0, 1, 2, -1}, 4);
  count = 0;
  REFUSED(m, KVC_ERROR_BUFFER_TOO_SMALL, take_copies(m, NULL, 0, &count));
  CHECK_EQ(count, 1);
  OK(take_copies(m, copies, 2, &count));
  CHECK_EQ(count, 1);
  CHECK(copies[0].source == 2 && copies[0].destination == 3 && copies[1].source == -7);
  CHECK_EQ(stats(m).copies, 1);

  OK(kvc_manager_append_tokens(m, parent, tokens + 12, 1)); /* block 2 is the parent's alone now */
  expect_row(m, parent, -1, (const int32_t[]){0, 1, 2, -1}, 4);
  OK(kvc_manager_free_request(m, parent));
  CHECK_EQ(block_info(m, 0).requests, 1); /* the child still holds the shared blocks */
  OK(kvc_manager_free_request(m, child));
  expect_pool(m, 6, 2, 0, 0);
  end_manager(m);
}

static void test_truncate(void) {
  kvc_manager* m = small_manager(8);
  int32_t tokens[16];
  fill_tokens(tokens, 16, 5);
  const uint64_t r = allocate(m, tokens, 14, 0);
  OK(kvc_manager_commit_tokens(m, r, 14)); /* blocks 0, 1, 2 published, 3 partial */
  OK(kvc_manager_truncate_request(m, r, 9));
  expect_row(m, r, -1, (const int32_t[]){0, 1, 2, -1}, 4);
  CHECK_EQ(block_info(m, 2).published, 0); /* cut, and nobody else needs it */
  CHECK_EQ(block_info(m, 3).state, KVC_BLOCK_FREE);
  kvc_request_info info = request_info(m, r);
  CHECK(info.num_tokens == 9 && info.num_committed == 9 && info.capacity == 9);
  OK(kvc_manager_append_tokens(m, r, tokens + 9, 3)); /* no copy: the block is its own */
  size_t count = 77;
  OK(take_copies(m, NULL, 0, &count));
  CHECK_EQ(count, 0);
  OK(kvc_manager_commit_tokens(m, r, 12));
  CHECK_EQ(block_info(m, 2).published, 1);

  const uint64_t reader = allocate(m, tokens, 14, 12); /* holds blocks 0, 1, 2 as a hit */
  OK(kvc_manager_truncate_request(m, r, 9));
  CHECK_EQ(block_info(m, 2).published, 1); /* the reader needs it */
  OK(kvc_manager_append_tokens(m, r, tokens + 12, 1));
  kvc_block_copy copy = {-7, -7};
  OK(take_copies(m, &copy, 1, &count));
  CHECK_EQ(count, 1);
  CHECK_EQ(copy.source, 2);
  CHECK_EQ(block_info(m, copy.destination).requests, 1);
  OK(kvc_manager_truncate_request(m, r, 0));
  CHECK_EQ(request_info(m, r).num_blocks, 0);
  CHECK_EQ(request_info(m, r).admitted, 1);
  OK(kvc_manager_free_request(m, r));
  OK(kvc_manager_free_request(m, reader));
  end_manager(m);
}

static void test_no_space_and_eviction(void) {
  kvc_manager* m = small_manager(4);
  int32_t a[16], b[16];
  fill_tokens(a, 16, 6);
  fill_tokens(b, 16, 7);
  cache_prompt(m, a, 8, 0); /* blocks 0 and 1, the deeper one to be evicted first */
  const uint64_t r = allocate(m, b, 12, 0);
  CHECK_EQ(block_info(m, 0).state, KVC_BLOCK_CACHED);
  expect_row(m, r, -1, (const int32_t[]){2, 3, 1}, 3);
  CHECK_EQ(stats(m).evictions, 1);

  uint64_t out = POISON, cached = POISON;
  REFUSED_SAYING(m, KVC_ERROR_NO_SPACE,
                 kvc_manager_allocate_request(m, PROMPT(0, a, 8, NULL, 0), NULL, &out, &cached), "2", "1");
  CHECK(out == POISON && cached == POISON);
  REFUSED(m, KVC_ERROR_NO_SPACE, kvc_manager_append_tokens(m, r, b, 9));
  REFUSED(m, KVC_ERROR_NO_SPACE, kvc_manager_reserve_tokens(m, r, 17));
  CHECK_EQ(stats(m).refusals, 3);
  kvc_probe_info probe = {.struct_size = sizeof probe};
  OK(kvc_manager_probe(m, PROMPT(0, a, 8, NULL, 0), &probe));
  CHECK_EQ(probe.num_cached, 4);
  CHECK_EQ(probe.blocks_needed, 2); /* one new, and the idle one of the hit */
  CHECK_EQ(probe.blocks_available, 1);
  OK(kvc_manager_reserve_tokens(m, r, 16)); /* evicts the last cached block */
  expect_pool(m, 0, 0, 4, 0);
  OK(kvc_manager_free_request(m, r));
  expect_pool(m, 4, 0, 0, 0);
  end_manager(m);
}

static void test_equal_calls_give_equal_digests(void) {
  int32_t tokens[40];
  fill_tokens(tokens, 40, 8);
  uint64_t digests[2];
  for (int run = 0; run < 2; ++run) {
    kvc_manager_config config = small_config(16);
    config.seed = run == 0 ? 1 : 987654321;
    kvc_manager* m = make_manager(&config);
    cache_prompt(m, tokens, 21, 0);
    const uint64_t r = allocate(m, tokens, 30, 20);
    OK(kvc_manager_commit_tokens(m, r, 25));
    digests[run] = digest(m);
    OK(kvc_manager_free_request(m, r));
    CHECK(digest(m) != digests[run]);
    end_manager(m);
  }
  CHECK(digests[0] == digests[1]);
}

int main(void) {
  test_library();
  test_defaults();
  test_allocate_commit_free();
  test_slots();
  test_create_admit_preempt();
  test_fork_and_copy_on_write();
  test_truncate();
  test_no_space_and_eviction();
  test_equal_calls_give_equal_digests();
  kvc_manager_destroy(NULL);
  return 0;
}
