/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks whose bytes turned out to be wrong are forgotten by their ids, whoever holds them. */
#include <kvcache/external.h>
#include <kvcache/prefix.h>

#include "check.h"

enum { kB = 4 };

static int32_t tokens_[24];

static uint64_t unpublish(kvc_manager* m, int32_t first, int32_t second) {
  const int32_t blocks[2] = {first, second};
  uint64_t count = POISON;
  OK(kvc_manager_unpublish_blocks(m, blocks, 2, &count));
  OK(kvc_manager_check(m));
  return count;
}

static uint64_t cached(kvc_manager* m, size_t num_tokens) {
  kvc_probe_info info = {.struct_size = sizeof info};
  OK(kvc_manager_probe(m, PROMPT(0, tokens_, num_tokens, NULL, 0), &info));
  return info.num_cached;
}

static void test_idle_blocks_become_free(void) {
  kvc_manager* m = small_manager(8);
  cache_prompt(m, tokens_, 12, 0);
  CHECK_EQ(cached(m, 13), 12);
  CHECK_EQ(unpublish(m, 1, -1), 1);
  CHECK_EQ(block_info(m, 1).state, KVC_BLOCK_FREE);
  CHECK_EQ(block_info(m, 2).state,
           KVC_BLOCK_CACHED); /* behind it, and findable again once 1 is computed anew */
  CHECK_EQ(cached(m, 13), kB);
  CHECK_EQ(unpublish(m, 1, 5), 0); /* nothing is published there */
  cache_prompt(m, tokens_, 8, kB);
  CHECK_EQ(cached(m, 13), 12);
  CHECK_EQ(stats(m).evictions, 0);
  end_manager(m);
}

static void test_held_blocks_stay_with_their_request(void) {
  kvc_manager* m = small_manager(8);
  const uint64_t r = allocate(m, tokens_, 13, 0);
  OK(kvc_manager_commit_tokens(m, r, 12));
  CHECK_EQ(unpublish(m, 0, 2), 2);
  CHECK_EQ(block_info(m, 0).state, KVC_BLOCK_LIVE);
  CHECK_EQ(cached(m, 13), 0);
  OK(kvc_manager_append_tokens(m, r, tokens_, 4));
  OK(kvc_manager_commit_tokens(m, r, 16)); /* goes on publishing behind what it has lost */
  CHECK_EQ(block_info(m, 0).published, 0);
  CHECK_EQ(block_info(m, 3).token_offset, 12);
  OK(kvc_manager_check(m));
  OK(kvc_manager_free_request(m, r));
  CHECK_EQ(block_info(m, 0).state, KVC_BLOCK_FREE);
  CHECK_EQ(block_info(m, 1).state, KVC_BLOCK_CACHED);
  OK(kvc_manager_check(m));
  end_manager(m);
}

static void test_a_bad_id_changes_nothing(void) {
  kvc_manager* m = small_manager(8);
  cache_prompt(m, tokens_, 8, 0);
  const uint64_t before = digest(m);
  const int32_t blocks[2] = {0, 8};
  uint64_t count = POISON;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_unpublish_blocks(m, blocks, 2, &count), "8", "7");
  CHECK_EQ(count, POISON);
  CHECK_EQ(digest(m), before);
  OK(kvc_manager_unpublish_blocks(m, NULL, 0, &count));
  CHECK_EQ(count, 0);
  end_manager(m);
}

int main(void) {
  for (int32_t i = 0; i < 24; ++i) tokens_[i] = i + 1;
  test_idle_blocks_become_free();
  test_held_blocks_stay_with_their_request();
  test_a_bad_id_changes_nothing();
  return 0;
}
