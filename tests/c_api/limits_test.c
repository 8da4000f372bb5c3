/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that would go past what a manager was made for, or past what a counter or an integer holds, are
 * refused and change nothing; when there is room again, they succeed. */
#include <kvcache/external.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include "check.h"

enum { kMostHolds = 65535 }; /* pins, or external holds, of one block */

static int32_t prompt_[12];

static kvc_manager* manager_of(uint64_t max_requests) {
  kvc_manager_config config = small_config(64);
  config.max_requests = max_requests;
  return make_manager(&config);
}

static kvc_status pin(kvc_manager* m, uint64_t* id) {
  uint64_t pinned = 0;
  return kvc_manager_pin_prefix(m, PROMPT(0, prompt_, 8, NULL, 0), id, &pinned);
}

static void test_requests(void) {
  kvc_manager* m = manager_of(2);
  const uint64_t running = allocate(m, prompt_, 9, 0);
  uint64_t waiting = 0, more = POISON;
  OK(kvc_manager_create_request(m, PROMPT(0, prompt_, 9, NULL, 0), NULL, &waiting));
  REFUSED_SAYING(m, KVC_ERROR_LIMIT,
                 kvc_manager_create_request(m, PROMPT(0, prompt_, 9, NULL, 0), NULL, &more), "2",
                 "max_requests");
  REFUSED_SAYING(m, KVC_ERROR_LIMIT,
                 kvc_manager_allocate_request(m, PROMPT(0, prompt_, 9, NULL, 0), NULL, &more, NULL), "2",
                 "max_requests");
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_fork_request(m, running, &more), "2", "max_requests");
  CHECK_EQ(more, POISON);
  OK(kvc_manager_free_request(m, waiting));
  OK(kvc_manager_fork_request(m, running, &more));
  end_manager(m);
}

static void test_pins(void) {
  kvc_manager* m = manager_of(4);
  cache_prompt(m, prompt_, 9, 0);
  uint64_t first = 0, id = 0;
  OK(pin(m, &first));
  uint64_t made = 1;
  for (kvc_status status = KVC_OK; status == KVC_OK; made += status == KVC_OK) {
    CHECK(made < 1000);
    status = pin(m, &id);
    if (status != KVC_OK) CHECK_EQ(status, KVC_ERROR_LIMIT);
  }
  CHECK(made > 1);
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, pin(m, &id), "pins", "max_requests");
  OK(kvc_manager_unpin_prefix(m, first));
  OK(pin(m, &id));
  end_manager(m);
}

static void test_holds_of_one_block(void) {
  kvc_manager* m = manager_of(kMostHolds + 10);
  cache_prompt(m, prompt_, 9, 0);
  uint64_t id = 0;
  int32_t blocks[2];
  size_t count = 0;
  for (int i = 0; i < kMostHolds; ++i) {
    OK(pin(m, &id));
    OK(kvc_manager_acquire_prefix(m, PROMPT(0, prompt_, 8, NULL, 0), 0, blocks, 2, &count));
  }
  CHECK_EQ(count, 2);
  CHECK_EQ(block_info(m, blocks[0]).pins, kMostHolds);
  CHECK_EQ(block_info(m, blocks[0]).external_holds, kMostHolds);
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, pin(m, &id), "pinned 65535 times", "unpin");
  REFUSED_SAYING(m, KVC_ERROR_LIMIT,
                 kvc_manager_acquire_prefix(m, PROMPT(0, prompt_, 8, NULL, 0), 0, blocks, 2, &count),
                 "65535 external holds", "release");
  OK(kvc_manager_unpin_prefix(m, id));
  OK(kvc_manager_release_blocks(m, blocks, 2));
  OK(pin(m, &id));
  OK(kvc_manager_acquire_prefix(m, PROMPT(0, prompt_, 8, NULL, 0), 0, blocks, 2, &count));
  end_manager(m);
}

/* A block far behind the first 2^31 tokens: its slots want 64 bits. */
static void test_slots_past_32_bits(void) {
  enum { kBefore = 1 << 21 };
  kvc_manager_config config = small_config(kBefore + 8);
  config.block_size = 1024, config.max_nodes = 1, config.flags = KVC_MANAGER_NO_PREFIX_CACHE;
  kvc_manager* m = make_manager(&config);
  int32_t* blocks = malloc(sizeof *blocks * kBefore);
  CHECK(blocks != NULL);
  OK(kvc_manager_acquire_blocks(m, 0, blocks, kBefore));
  const uint64_t request = allocate(m, prompt_, 9, 0);
  int64_t wide[2] = {0, 0};
  OK(kvc_manager_export_slots(m, request, 0, 7, 2, wide, 8));
  CHECK(wide[0] > INT32_MAX && wide[1] == wide[0] + 1);
  int32_t narrow[2] = {-5, -5};
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_export_slots(m, request, 0, 7, 2, narrow, 4),
                 "int32", "element_size 8");
  CHECK(narrow[0] == -5 && narrow[1] == -5);
  free(blocks);
  end_manager(m);
}

/* The largest vocabulary there is, and none given: every id that is not negative. */
static void test_largest_vocabulary(void) {
  const uint32_t sizes[] = {0, 1u << 31, INT32_MAX};
  for (int i = 0; i < 3; ++i) {
    kvc_manager_config config = small_config(16);
    config.vocab_size = sizes[i];
    kvc_manager* m = make_manager(&config);
    int32_t tokens[9] = {0, 1, 2, 3, 4, 5, 6, 7, INT32_MAX - 1};
    cache_prompt(m, tokens, 9, 0);
    cache_prompt(m, tokens, 9, 8);
    uint64_t id = POISON;
    tokens[8] = INT32_MAX;
    if (i != 2)
      cache_prompt(m, tokens, 9, 8);
    else
      REFUSED(m, KVC_ERROR_INVALID_ARGUMENT,
              kvc_manager_create_request(m, PROMPT(0, tokens, 9, NULL, 0), NULL, &id));
    tokens[8] = -1;
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT,
            kvc_manager_create_request(m, PROMPT(0, tokens, 9, NULL, 0), NULL, &id));
    CHECK_EQ(id, POISON);
    end_manager(m);
  }
}

/* Products of limits that are larger than the address space, each at another place. */
static void test_steps_that_no_memory_has(void) {
  const kvc_group_config groups[2] = {{.struct_size = sizeof *groups}, {.struct_size = sizeof *groups}};
  kvc_manager_config config = small_config(16);
  config.groups = groups;
  const uint64_t most = (uint64_t)1 << 40;
  const kvc_step_limits limits[] = {
      {.max_rows = most, .row_stride = most, .max_changes = 1},
      {.max_rows = (uint64_t)1 << 31, .row_stride = (uint64_t)1 << 30, .max_changes = 1},
      {.max_rows = (uint64_t)1 << 31,
       .row_stride = ((uint64_t)1 << 30) - 1,
       .max_changes = 1,
       .max_tokens = most},
      {.max_requests = most, .row_stride = most}};
  for (config.num_groups = 1; config.num_groups <= 2; ++config.num_groups) {
    kvc_manager* m = make_manager(&config);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; ++i) {
      kvc_step_limits huge = limits[i];
      huge.struct_size = sizeof huge;
      kvc_step* step = NULL;
      REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, &huge, &step), "address space", "");
      CHECK(step == NULL);
    }
    end_manager(m);
  }
}

/* Tables that no memory has: refused before an id is read. */
static void test_tables_that_no_memory_has(void) {
  kvc_manager* m = manager_of(2);
  const uint64_t request = allocate(m, prompt_, 9, 0);
  int32_t table[1] = {-5};
  const struct {
    size_t requests, stride;
  } sizes[] = {{SIZE_MAX, 2}, {(size_t)1 << 32, (size_t)1 << 30}, {(size_t)1 << 31, (size_t)1 << 30}};
  for (int i = 0; i < 3; ++i)
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT,
            kvc_manager_export_tables(m, &request, sizes[i].requests, 0, -1, table, sizes[i].stride));
  CHECK_EQ(table[0], -5);
  end_manager(m);
}

int main(void) {
  fill_tokens(prompt_, 12, 1);
  test_largest_vocabulary();
  test_steps_that_no_memory_has();
  test_tables_that_no_memory_has();
  test_requests();
  test_pins();
  test_holds_of_one_block();
  test_slots_past_32_bits();
  return 0;
}
