/* SPDX-License-Identifier: Apache-2.0 */
/* Pins beside steps in flight, lists of namespaces and pins, and options of requests. Identities, resets and
 * what is evicted are in tests/conformance and tests/property. */
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

int main(void) {
  fill_tokens(tokens_, 24, 1);
  test_unpin_beside_steps();
  test_lists();
  test_request_options();
  return 0;
}
