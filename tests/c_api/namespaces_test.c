/* SPDX-License-Identifier: Apache-2.0 */
/* Who may share with whom, and who decides what stays: namespaces and their identities, resets, pins, dropped
 * and evicted prefixes, extra keys, per-request options. */
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include "check.h"

enum { kB = 4 };

static kvc_manager* m;
static int32_t tokens_[24];

static uint64_t open_space(const char* model, size_t model_size, const char* adapter, size_t adapter_size) {
  const kvc_namespace_config c = {.struct_size = sizeof c,
                                  .model = model,
                                  .model_size = model_size,
                                  .adapter = adapter,
                                  .adapter_size = adapter_size};
  uint64_t id = 0;
  OK(kvc_manager_open_namespace(m, &c, &id));
  return id;
}

static uint64_t cached_in(uint64_t space, const int32_t* tokens, size_t n) {
  kvc_probe_info info = {.struct_size = sizeof info};
  const uint64_t before = digest(m);
  OK(kvc_manager_probe(m, PROMPT(space, tokens, n, NULL, 0), &info));
  CHECK_EQ(digest(m), before); /* a probe changes nothing, the LRU order included */
  return info.num_cached;
}

static uint64_t allocate_in(uint64_t space, const int32_t* tokens, size_t n, uint64_t expected_cached) {
  uint64_t r = 0, cached = POISON;
  OK(kvc_manager_allocate_request(m, PROMPT(space, tokens, n, NULL, 0), NULL, &r, &cached));
  CHECK_EQ(cached, expected_cached);
  CHECK_EQ(request_info(m, r).namespace_id, space);
  return r;
}

static void cache_in(uint64_t space, size_t n) {
  const uint64_t r = allocate_in(space, tokens_, n, 0);
  OK(kvc_manager_commit_tokens(m, r, n));
  OK(kvc_manager_free_request(m, r));
}

static void test_identities(void) {
  m = small_manager(64);
  /* Parts are typed and length-framed: no two of these are one. */
  const uint64_t ids[] = {open_space("ab", 2, "c", 1),   open_space("a", 1, "bc", 2),
                          open_space("abc", 3, NULL, 0), open_space(NULL, 0, "abc", 3),
                          open_space("abc", 3, "", 0),   open_space("", 0, "abc", 3),
                          open_space("", 0, NULL, 0),    open_space("ab\0", 3, "c", 1)};
  const size_t n = sizeof ids / sizeof *ids;
  for (size_t i = 0; i < n; ++i) {
    CHECK(ids[i] != 0);
    for (size_t j = 0; j < i; ++j) CHECK(ids[i] != ids[j]);
    CHECK_EQ(cached_in(ids[i], tokens_, 9), 0);
    if (i < 4) cache_in(ids[i], 9);
  }
  CHECK_EQ(cached_in(0, tokens_, 9), 0);
  for (size_t i = 0; i < n; ++i) CHECK_EQ(cached_in(ids[i], tokens_, 9), i < 4 ? 8 : 0);
  CHECK_EQ(open_space(NULL, 0, NULL, 0), 0); /* all absent: the default one */

  CHECK_EQ(open_space("ab", 2, "c", 1), ids[0]); /* opened twice, to be closed twice */
  OK(kvc_manager_close_namespace(m, ids[0]));
  CHECK_EQ(cached_in(ids[0], tokens_, 9), 8);
  const uint64_t r = allocate_in(ids[0], tokens_, 9, 8);
  REFUSED(m, KVC_ERROR_BUSY, kvc_manager_close_namespace(m, ids[0]));
  OK(kvc_manager_free_request(m, r));
  uint64_t pin = 0, pinned = 0;
  OK(kvc_manager_pin_prefix(m, PROMPT(ids[0], tokens_, 8, NULL, 0), &pin, &pinned));
  REFUSED(m, KVC_ERROR_BUSY, kvc_manager_close_namespace(m, ids[0]));
  OK(kvc_manager_unpin_prefix(m, pin));
  const uint64_t free_before = stats(m).blocks_free;
  OK(kvc_manager_close_namespace(m, ids[0]));
  CHECK_EQ(stats(m).blocks_free, free_before + 2); /* what it had cached counts as free */
  EXPECT(KVC_ERROR_NOT_FOUND, kvc_manager_close_namespace(m, ids[0]));
  const uint64_t again = open_space("ab", 2, "c", 1);
  CHECK(again != ids[0] && cached_in(again, tokens_, 9) == 0);
  for (size_t i = 1; i < 4; ++i) CHECK_EQ(cached_in(ids[i], tokens_, 9), 8);
  end_manager(m);
}

static void test_reset(void) {
  m = small_manager(16);
  const uint64_t a = open_space("a", 1, NULL, 0), b = open_space("b", 1, NULL, 0);
  cache_in(a, 9);
  cache_in(b, 9);
  const uint64_t in_flight = allocate_in(a, tokens_, 16, 8);
  OK(kvc_manager_commit_tokens(m, in_flight, 12));
  OK(kvc_manager_reset_namespace(m, a));
  CHECK_EQ(cached_in(a, tokens_, 17), 0);
  CHECK_EQ(cached_in(b, tokens_, 9), 8);
  CHECK_EQ(stats(m).epoch, 1);
  /* The request keeps its blocks and goes on, but what it commits is found by nobody. */
  CHECK_EQ(request_info(m, in_flight).num_blocks, 4);
  OK(kvc_manager_commit_tokens(m, in_flight, 16));
  CHECK_EQ(cached_in(a, tokens_, 17), 0);
  const uint64_t fresh = allocate_in(a, tokens_, 9, 0);
  OK(kvc_manager_commit_tokens(m, fresh, 9));
  CHECK_EQ(cached_in(a, tokens_, 17), 8); /* published in the new epoch */
  OK(kvc_manager_free_request(m, in_flight));
  OK(kvc_manager_check(m));
  CHECK_EQ(stats(m).blocks_cached, 2); /* those of b */
  OK(kvc_manager_free_request(m, fresh));
  CHECK_EQ(stats(m).blocks_cached, 4);
  OK(kvc_manager_reset_all(m)); /* all */
  CHECK(cached_in(a, tokens_, 9) == 0 && cached_in(b, tokens_, 9) == 0 && cached_in(0, tokens_, 9) == 0);
  CHECK_EQ(stats(m).blocks_free, 16);
  const uint64_t whole = allocate_in(0, tokens_, 24, 0); /* stale blocks are simply taken: no evictions */
  CHECK_EQ(stats(m).evictions, 0);
  OK(kvc_manager_free_request(m, whole));

  cache_in(0, 9);
  cache_in(a, 9);
  OK(kvc_manager_reset_namespace(m, 0)); /* alone */
  CHECK(cached_in(0, tokens_, 9) == 0 && cached_in(a, tokens_, 9) == 8);
  end_manager(m);
}

static void test_pins(void) {
  m = small_manager(6);
  uint64_t pin = 0, number = 0, r = POISON;
  cache_in(0, 13);
  OK(kvc_manager_pin_prefix(m, PROMPT(0, tokens_, 10, NULL, 0), &pin,
                            &number)); /* two full blocks of ten tokens */
  CHECK_EQ(number, 8);
  CHECK_EQ(block_info(m, 0).state, KVC_BLOCK_PINNED);
  CHECK_EQ(block_info(m, 0).pins, 1);
  CHECK_EQ(stats(m).blocks_pinned, 2);
  int32_t other[20];
  fill_tokens(other, 20, 9);
  REFUSED_SAYING(m, KVC_ERROR_NO_SPACE,
                 kvc_manager_allocate_request(m, PROMPT(0, other, 20, NULL, 0), NULL, &r, NULL), "5", "4");
  const uint64_t full = allocate_in(0, other, 16, 0); /* evicts the third block only */
  CHECK_EQ(cached_in(0, tokens_, 13), 8);
  OK(kvc_manager_free_request(m, full));
  const uint64_t reader = allocate_in(0, tokens_, 9, 8); /* a pinned block can be hit */
  CHECK_EQ(block_info(m, 0).state, KVC_BLOCK_LIVE);
  OK(kvc_manager_free_request(m, reader));
  OK(kvc_manager_unpin_prefix(m, pin));
  CHECK_EQ(stats(m).blocks_pinned, 0);
  CHECK_EQ(cached_in(0, tokens_, 9), 8);
  number = POISON;
  REFUSED(m, KVC_ERROR_NOT_FOUND,
          kvc_manager_pin_prefix(m, PROMPT(0, other, 8, NULL, 0), &pin, &number)); /* never committed */
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_pin_prefix(m, PROMPT(0, tokens_, 3, NULL, 0), &pin, &number));
  CHECK_EQ(number, POISON);

  OK(kvc_manager_pin_prefix(m, PROMPT(0, tokens_, 8, NULL, 0), &pin, &number)); /* through a reset */
  OK(kvc_manager_reset_all(m));
  CHECK_EQ(cached_in(0, tokens_, 9), 0);
  OK(kvc_manager_unpin_prefix(m, pin));
  CHECK_EQ(stats(m).blocks_free, 6);
  end_manager(m);
}

static void empty_step(void) {
  kvc_step step = {.struct_size = sizeof step};
  OK(kvc_manager_step(m, &step));
}

/* A pin that ends beside a step in flight: only what a request gave back meanwhile is fenced. */
static void test_unpin_beside_steps(void) {
  m = small_manager(6);
  uint64_t pin = 0, number = 0;
  cache_in(0, 9);
  OK(kvc_manager_pin_prefix(m, PROMPT(0, tokens_, 8, NULL, 0), &pin, &number));
  empty_step();
  OK(kvc_manager_unpin_prefix(m, pin));
  CHECK_EQ(stats(m).blocks_fenced, 0);
  CHECK_EQ(stats(m).blocks_cached, 2);

  OK(kvc_manager_retire_step(m, 1));
  const uint64_t reader = allocate_in(0, tokens_, 5, 4); /* reads block 0 and writes block 2 */
  OK(kvc_manager_pin_prefix(m, PROMPT(0, tokens_, 8, NULL, 0), &pin, &number));
  empty_step();
  OK(kvc_manager_free_request(m, reader));
  CHECK_EQ(stats(m).blocks_fenced, 1);
  OK(kvc_manager_unpin_prefix(m, pin));
  CHECK_EQ(stats(m).blocks_fenced, 2);
  CHECK_EQ(stats(m).blocks_cached, 1);
  OK(kvc_manager_retire_step(m, 2));
  CHECK_EQ(stats(m).blocks_cached, 2);
  CHECK_EQ(stats(m).blocks_free, 4);
  end_manager(m);
}

static void test_lists(void) {
  m = small_manager(6);
  uint64_t ids[4] = {0}, pin = 0, number = 0;
  size_t count = 77;
  OK(kvc_manager_list_namespaces(m, NULL, 0, &count));
  CHECK_EQ(count, 0);
  const uint64_t a = open_space("a", 1, NULL, 0), b = open_space("b", 1, NULL, 0);
  OK(kvc_manager_list_namespaces(m, ids, 4, &count));
  CHECK(count == 2 && ids[0] == a && ids[1] == b);
  CHECK_EQ(open_space("b", 1, NULL, 0), b); /* again: listed once */
  OK(kvc_manager_close_namespace(m, a));
  OK(kvc_manager_list_namespaces(m, ids, 1, &count));
  CHECK(count == 1 && ids[0] == b);
  cache_in(0, 9);
  OK(kvc_manager_list_pins(m, NULL, 0, &count));
  CHECK_EQ(count, 0);
  OK(kvc_manager_pin_prefix(m, PROMPT(0, tokens_, 8, NULL, 0), &pin, &number));
  EXPECT(KVC_ERROR_BUFFER_TOO_SMALL, kvc_manager_list_pins(m, NULL, 0, &count));
  CHECK_EQ(count, 1);
  OK(kvc_manager_list_pins(m, ids, 4, &count));
  CHECK(count == 1 && ids[0] == pin);
  OK(kvc_manager_unpin_prefix(m, pin));
  end_manager(m);
}

static void test_drop_and_evict(void) {
  m = small_manager(16);
  cache_in(0, 17); /* blocks 0 .. 3 */
  int32_t other[17];
  memcpy(other, tokens_, sizeof other);
  other[9] += 1; /* two blocks in common */
  cache_prompt(m, other, 17, 8);
  uint64_t dropped = 0;
  const uint64_t reader = allocate_in(0, tokens_, 8, 4);
  OK(kvc_manager_drop_prefix(m, PROMPT(0, tokens_, 17, NULL, 0), &dropped));
  CHECK_EQ(dropped, 3); /* block 0 is held */
  CHECK_EQ(cached_in(0, tokens_, 17), 4);
  CHECK_EQ(cached_in(0, other, 17), 4); /* its tail is there, but not reachable */
  OK(kvc_manager_free_request(m, reader));
  cache_prompt(m, tokens_, 9, 4); /* computed again */
  CHECK_EQ(cached_in(0, other, 17), 16);
  OK(kvc_manager_drop_prefix(m, PROMPT(0, other, 0, NULL, 0), &dropped));
  CHECK_EQ(dropped, 0);

  size_t evicted = 77;
  OK(kvc_manager_evict_blocks(m, -1, 0, &evicted));
  CHECK_EQ(evicted, 0);
  OK(kvc_manager_evict_blocks(m, -1, 1, &evicted)); /* the deepest block of what was released first */
  CHECK_EQ(evicted, 1);
  CHECK_EQ(cached_in(0, other, 17), 12);
  OK(kvc_manager_evict_blocks(m, -1, SIZE_MAX, &evicted));
  CHECK_EQ(evicted, 3);
  CHECK_EQ(stats(m).evictions, 4);
  CHECK_EQ(stats(m).blocks_free, 16);
  end_manager(m);
}

static void test_extra_keys(void) {
  m = small_manager(16);
  kvc_extra_key image = {.first_token = 5, .num_tokens = 6, .digest = {1}}; /* blocks 1 and 2 */
  uint64_t r = 0, cached = POISON;
  OK(kvc_manager_allocate_request(m, PROMPT(0, tokens_, 17, &image, 1), NULL, &r, &cached));
  CHECK_EQ(cached, 0);
  OK(kvc_manager_commit_tokens(m, r, 17));
  OK(kvc_manager_free_request(m, r));
  CHECK_EQ(cached_in(0, tokens_, 17), 4); /* without the image only what is before it */
  kvc_probe_info info = {.struct_size = sizeof info};
  OK(kvc_manager_probe(m, PROMPT(0, tokens_, 17, &image, 1), &info));
  CHECK_EQ(info.num_cached, 16);
  OK(kvc_manager_probe(m, PROMPT(0, tokens_, 12, &image, 1),
                       &info)); /* 8 would end inside the span, 11 tokens at most */
  CHECK_EQ(info.num_cached, 4);
  image.digest[31] = 1;
  OK(kvc_manager_probe(m, PROMPT(0, tokens_, 17, &image, 1), &info));
  CHECK_EQ(info.num_cached, 4);
  image.digest[31] = 0, image.num_tokens = 7;
  OK(kvc_manager_probe(m, PROMPT(0, tokens_, 17, &image, 1), &info));
  CHECK_EQ(info.num_cached, 4);
  end_manager(m);
}

static void test_request_options(void) {
  m = small_manager(16);
  cache_in(0, 17);
  uint64_t r = 0, cached = POISON;
  kvc_request_config c = {.struct_size = sizeof c, .flags = KVC_REQUEST_NO_READ};
  OK(kvc_manager_allocate_request(m, PROMPT(0, tokens_, 17, NULL, 0), &c, &r, &cached));
  CHECK_EQ(cached, 0);
  OK(kvc_manager_free_request(m, r));
  c = (kvc_request_config){.struct_size = sizeof c, .max_cached_tokens = 11};
  OK(kvc_manager_allocate_request(m, PROMPT(0, tokens_, 17, NULL, 0), &c, &r, &cached));
  CHECK_EQ(cached, 8);
  OK(kvc_manager_free_request(m, r));
  c = (kvc_request_config){.struct_size = sizeof c, .drop_tail_blocks = 1};
  OK(kvc_manager_allocate_request(m, PROMPT(0, tokens_, 17, NULL, 0), &c, &r, &cached));
  CHECK_EQ(cached, 12);
  OK(kvc_manager_free_request(m, r));
  int32_t other[9];
  fill_tokens(other, 9, 9);
  c = (kvc_request_config){.struct_size = sizeof c, .flags = KVC_REQUEST_NO_WRITE, .lookahead = 3};
  OK(kvc_manager_allocate_request(m, PROMPT(0, other, 9, NULL, 0), &c, &r, &cached));
  CHECK_EQ(request_info(m, r).capacity, 12);
  OK(kvc_manager_commit_tokens(m, r, 9));
  CHECK_EQ(cached_in(0, other, 9), 0);
  OK(kvc_manager_free_request(m, r));
  c = (kvc_request_config){.struct_size = sizeof c, .slots = 2, .external_tokens = 4};
  OK(kvc_manager_allocate_request(m, PROMPT(0, other, 9, NULL, 0), &c, &r, &cached));
  CHECK_EQ(request_info(m, r).capacity, 6);
  OK(kvc_manager_free_request(m, r));

  kvc_manager_config none = small_config(8);
  none.flags = KVC_MANAGER_NO_PREFIX_CACHE;
  kvc_manager* cacheless = make_manager(&none);
  cache_prompt(cacheless, tokens_, 9, 0);
  cache_prompt(cacheless, tokens_, 9, 0);
  CHECK(stats(cacheless).blocks_free == 8 && stats(cacheless).published_blocks == 0);
  end_manager(cacheless);
  end_manager(m);
}

static void test_watermark(void) {
  kvc_manager_config c = small_config(8);
  c.watermark_blocks = 3;
  m = make_manager(&c);
  kvc_probe_info info = {.struct_size = sizeof info};
  OK(kvc_manager_probe(m, PROMPT(0, tokens_, 24, NULL, 0), &info));
  CHECK(info.fits == 1 && info.blocks_needed == 6 && info.blocks_available == 8);
  const uint64_t first = allocate_in(0, tokens_, 16, 0); /* alone: no watermark; four blocks are left */
  uint64_t r = POISON;
  OK(kvc_manager_probe(m, PROMPT(0, tokens_, 8, NULL, 0), &info));
  CHECK(info.fits == 0 && info.blocks_needed == 2 && info.blocks_available == 4);
  const kvc_request_config one = {.struct_size = sizeof one, .slots = 4};
  OK(kvc_manager_create_request(m, PROMPT(0, tokens_, 8, NULL, 0), &one, &r));
  OK(kvc_manager_probe_request(m, r, &info)); /* one block now */
  CHECK(info.fits == 1 && info.blocks_needed == 1);
  OK(kvc_manager_free_request(m, r));
  r = POISON;
  REFUSED(m, KVC_ERROR_NO_SPACE,
          kvc_manager_allocate_request(m, PROMPT(0, tokens_, 8, NULL, 0), NULL, &r, NULL));
  OK(kvc_manager_reserve_tokens(m, first, 20)); /* extensions may use what is left */
  OK(kvc_manager_free_request(m, first));
  OK(kvc_manager_free_request(m, allocate_in(0, tokens_, 24, 0)));
  end_manager(m);
}

int main(void) {
  fill_tokens(tokens_, 24, 1);
  test_identities();
  test_reset();
  test_pins();
  test_unpin_beside_steps();
  test_lists();
  test_drop_and_evict();
  test_extra_keys();
  test_request_options();
  test_watermark();
  return 0;
}
