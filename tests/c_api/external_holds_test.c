/* SPDX-License-Identifier: Apache-2.0 */
/* External blocks, for engines that keep their own tables: what is refused, and when positions run out.
 * Numbers follow docs/SEMANTICS.md. */
#include <kvcache/external.h>
#include <kvcache/prefix.h>

#include "check.h"

enum { kB = 4 };

static int32_t tokens_[24];

static void test_partial_tables(void) {
  kvc_manager* m = small_manager(8);
  int32_t blocks[3] = {-1, -1, -1}, found[4] = {0};
  size_t count = 0;
  OK(kvc_manager_acquire_blocks(m, 0, blocks + 1, 1));
  OK(kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 12, NULL, 0), 0, blocks, 3)); /* position 1 alone */
  CHECK_EQ(block_info(m, blocks[1]).token_offset, kB);
  OK(kvc_manager_acquire_prefix(m, PROMPT(0, tokens_, 8, NULL, 0), 0, found, 4, &count));
  CHECK_EQ(count, 0); /* position 0 is missing */
  cache_prompt(m, tokens_, 4, 0);
  OK(kvc_manager_acquire_prefix(m, PROMPT(0, tokens_, 8, NULL, 0), 0, found, 4, &count));
  CHECK(count == 2 && found[1] == blocks[1]);
  OK(kvc_manager_release_blocks(m, found, 2));
  OK(kvc_manager_release_blocks(m, blocks, 3)); /* -1 entries are passed over */
  OK(kvc_manager_release_blocks(m, NULL, 0));
  end_manager(m);
}

static void test_refusals(void) {
  kvc_manager* m = small_manager(8);
  int32_t blocks[2], other[8], one = -77;
  fill_tokens(other, 8, 9);
  OK(kvc_manager_acquire_blocks(m, 0, blocks, 2));
  OK(kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 8, NULL, 0), 0, blocks, 2));
  REFUSED(m, KVC_ERROR_BUSY,
          kvc_manager_publish_blocks(m, PROMPT(0, other, 8, NULL, 0), 0, blocks, 2)); /* another identity */
  const int32_t swapped[2] = {blocks[1], blocks[0]};
  REFUSED(m, KVC_ERROR_BUSY, kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 8, NULL, 0), 0, swapped, 2));
  REFUSED(m, KVC_ERROR_NO_SPACE, kvc_manager_acquire_blocks(m, 0, &one, 7));
  const int32_t more[3] = {blocks[0], blocks[1], blocks[0]};
  REFUSED(m, KVC_ERROR_NOT_HELD, kvc_manager_release_blocks(m, more, 3)); /* all or nothing */
  CHECK(one == -77 && block_info(m, blocks[0]).external_holds == 1);

  /* A reset takes the content's name away, not the block. */
  OK(kvc_manager_reset_all(m));
  OK(kvc_manager_publish_blocks(m, PROMPT(0, other, 8, NULL, 0), 0, blocks, 2));
  OK(kvc_manager_free_request(m, allocate(m, other, 8, 4)));
  OK(kvc_manager_release_blocks(m, blocks, 2));
  end_manager(m);

  /* Blocks of another pool, and a block twice. */
  const kvc_pool_config pools[2] = {{sizeof *pools, 4, 0}, {sizeof *pools, 4, 0}};
  const kvc_group_config groups[2] = {{.struct_size = sizeof *groups},
                                      {.struct_size = sizeof *groups, .pool = 1}};
  kvc_manager_config config = small_config(0);
  config.pools = pools, config.num_pools = 2, config.groups = groups, config.num_groups = 2;
  m = make_manager(&config);
  OK(kvc_manager_acquire_blocks(m, 0, blocks, 1));
  OK(kvc_manager_acquire_blocks(m, 1, blocks + 1, 1));
  CHECK(blocks[0] == 0 && blocks[1] == 4); /* ids run through the pools */
  CHECK_EQ(block_info(m, 4).pool, 1);
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT,
                 kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 8, NULL, 0), 0, blocks, 2), "4", "");
  const int32_t twice[2] = {blocks[0], blocks[0]};
  const uint64_t before = digest(m);
  const kvc_status status = kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 8, NULL, 0), 0, twice, 2);
  CHECK((status == KVC_ERROR_INVALID_ARGUMENT || status == KVC_ERROR_BUSY) && digest(m) == before);
  OK(kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 4, NULL, 0), 1, blocks + 1,
                                1)); /* each may go where it belongs */
  OK(kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 4, NULL, 0), 0, blocks, 1));
  OK(kvc_manager_release_blocks(m, blocks, 2));
  OK(kvc_manager_free_request(m, allocate(m, tokens_, 5, 4))); /* found in both groups */
  end_manager(m);
}

static void test_nodes_run_out(void) {
  kvc_manager_config config = small_config(8);
  config.max_nodes = 2;
  kvc_manager* m = make_manager(&config);
  int32_t blocks[3];
  OK(kvc_manager_acquire_blocks(m, 0, blocks, 3));
  REFUSED(m, KVC_ERROR_LIMIT, kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 12, NULL, 0), 0, blocks, 3));
  OK(kvc_manager_publish_blocks(m, PROMPT(0, tokens_, 8, NULL, 0), 0, blocks, 2));
  const uint64_t r = allocate(m, tokens_, 17, 8); /* a request just stops publishing */
  OK(kvc_manager_commit_tokens(m, r, 17));
  CHECK_EQ(stats(m).unpublished_blocks, 2);
  CHECK_EQ(stats(m).nodes_used, 2);
  OK(kvc_manager_free_request(m, r));
  OK(kvc_manager_release_blocks(m, blocks, 3));
  end_manager(m);
}

/* Positions that nothing needs any more make room at once, however many they are: here a chain of which only
 * the last had a block. */
static void test_dead_positions_make_room(void) {
  enum { kLong = 40 };
  kvc_manager_config config = {
      .struct_size = sizeof config, .num_blocks = 8, .block_size = kB, .max_nodes = kLong};
  kvc_manager* m;
  int32_t tokens[kLong * kB], blocks[kLong];
  OK(kvc_manager_create(&config, &m));
  for (int i = 0; i < kLong; ++i) blocks[i] = -1;
  OK(kvc_manager_acquire_blocks(m, 0, blocks + kLong - 1, 1));
  for (int round = 0; round < 3; ++round) { /* the first two times the same chain */
    size_t evicted = 0;
    fill_tokens(tokens, kLong * kB, round < 2 ? 3 : 5);
    OK(kvc_manager_publish_blocks(m, PROMPT(0, tokens, kLong * kB, NULL, 0), 0, blocks, kLong));
    CHECK_EQ(stats(m).nodes_used, kLong);
    OK(kvc_manager_release_blocks(m, blocks, kLong));
    OK(kvc_manager_evict_blocks(m, -1, 1, &evicted));
    CHECK_EQ(evicted, 1);
    OK(kvc_manager_acquire_blocks(m, 0, blocks + kLong - 1, 1));
  }
  OK(kvc_manager_release_blocks(m, blocks, kLong));
  end_manager(m);
}

/* A call that is refused although dead positions make room leaves the counts as they were, and the room. */
static void test_refusal_leaves_dead_positions_counted(void) {
  enum { kLong = 40 };
  kvc_manager_config config = {
      .struct_size = sizeof config, .num_blocks = 8, .block_size = kB, .max_nodes = kLong};
  kvc_manager* m = make_manager(&config);
  int32_t tokens[(kLong + 1) * kB], blocks[kLong + 1];
  size_t evicted = 0;
  fill_tokens(tokens, (kLong + 1) * kB, 3);
  for (int i = 0; i <= kLong; ++i) blocks[i] = -1;
  OK(kvc_manager_acquire_blocks(m, 0, blocks + kLong - 1, 1));
  OK(kvc_manager_publish_blocks(m, PROMPT(0, tokens, kLong * kB, NULL, 0), 0, blocks, kLong));
  OK(kvc_manager_release_blocks(m, blocks, kLong));
  OK(kvc_manager_evict_blocks(m, -1, 1, &evicted));
  OK(kvc_manager_acquire_blocks(m, 0, blocks + kLong - 1, 2));
  const kvc_stats before = stats(m);
  CHECK(before.nodes_used > 8 && before.nodes_used < kLong); /* death climbs, but not far at once */
  for (int round = 0; round < 2; ++round) {
    REFUSED_SAYING(
        m, KVC_ERROR_LIMIT,
        kvc_manager_publish_blocks(m, PROMPT(0, tokens, (kLong + 1) * kB, NULL, 0), 0, blocks, kLong + 1),
        "new prefix positions", "raise max_nodes");
    const kvc_stats after = stats(m);
    CHECK(memcmp(&after, &before, sizeof after) == 0);
    OK(kvc_manager_check(m));
  }
  OK(kvc_manager_publish_blocks(m, PROMPT(0, tokens, kLong * kB, NULL, 0), 0, blocks, kLong));
  CHECK_EQ(stats(m).nodes_used, kLong);
  OK(kvc_manager_release_blocks(m, blocks, kLong + 1));
  end_manager(m);
}

int main(void) {
  fill_tokens(tokens_, 24, 1);
  test_partial_tables();
  test_refusals();
  test_nodes_run_out();
  test_dead_positions_make_room();
  test_refusal_leaves_dead_positions_counted();
  return 0;
}
