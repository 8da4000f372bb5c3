/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that would go past what a manager was made for, or past what a counter or an integer holds, are
 * refused and change nothing; when there is room again, they succeed. */
#include "check.h"

enum { kMostHolds = 65535 }; /* pins, or raw holds, of one block */

static int32_t prompt_[12];

static kvc_manager* manager_of(uint64_t max_requests) {
  kvc_manager_config config = small_config(64);
  config.max_requests = max_requests;
  return make_manager(&config);
}

static kvc_status pin(kvc_manager* m, uint64_t* id) {
  uint64_t pinned = 0;
  return kvc_manager_pin_prefix(m, 0, prompt_, 8, NULL, 0, id, &pinned);
}

static void test_requests(void) {
  kvc_manager* m = manager_of(2);
  const uint64_t running = allocate(m, prompt_, 9, 0);
  uint64_t waiting = 0, more = POISON;
  OK(kvc_manager_create_request(m, prompt_, 9, NULL, 0, NULL, &waiting));
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_create_request(m, prompt_, 9, NULL, 0, NULL, &more), "2",
                 "max_requests");
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_allocate_request(m, prompt_, 9, NULL, 0, NULL, &more, NULL),
                 "2", "max_requests");
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
    OK(kvc_manager_acquire_prefix(m, 0, 0, prompt_, 8, NULL, 0, blocks, 2, &count));
  }
  CHECK_EQ(count, 2);
  CHECK_EQ(block_info(m, blocks[0]).pins, kMostHolds);
  CHECK_EQ(block_info(m, blocks[0]).raw_holds, kMostHolds);
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, pin(m, &id), "pinned 65535 times", "unpin");
  REFUSED_SAYING(m, KVC_ERROR_LIMIT,
                 kvc_manager_acquire_prefix(m, 0, 0, prompt_, 8, NULL, 0, blocks, 2, &count),
                 "65535 raw holds", "release");
  OK(kvc_manager_unpin_prefix(m, id));
  OK(kvc_manager_release_blocks(m, blocks, 2));
  OK(pin(m, &id));
  OK(kvc_manager_acquire_prefix(m, 0, 0, prompt_, 8, NULL, 0, blocks, 2, &count));
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

int main(void) {
  fill_tokens(prompt_, 12, 1);
  test_requests();
  test_pins();
  test_holds_of_one_block();
  test_slots_past_32_bits();
  return 0;
}
