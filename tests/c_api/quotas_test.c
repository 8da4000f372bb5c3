/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas: minimums that others cannot touch, maximums that evict a namespace's own blocks, what is refused
 * and with which text, and where a quota begins and ends. */
#include <kvcache.h>

#include "check.h"

enum { kB = 4 };

static kvc_manager* m;
static int32_t tokens_[3][64];
static uint64_t a, b;

static uint64_t space(const char* tenant) {
  const kvc_namespace_config c = {.struct_size = sizeof c, .tenant = tenant, .tenant_size = strlen(tenant)};
  uint64_t id = 0;
  OK(kvc_manager_open_namespace(m, &c, &id));
  return id;
}

static void begin(uint64_t blocks, uint32_t max_quotas) {
  kvc_manager_config c = small_config(blocks);
  c.max_quotas = max_quotas;
  m = make_manager(&c);
  a = space("a"), b = space("b");
}

static kvc_quota_info quota(uint64_t id) {
  kvc_quota_info info = {.struct_size = sizeof info};
  OK(kvc_manager_quota_info(m, id, 0, &info));
  return info;
}

static void expect_quota(uint64_t id, uint64_t held, uint64_t cached, uint64_t available) {
  const kvc_quota_info info = quota(id);
  CHECK_EQ(info.held, held);
  CHECK_EQ(info.cached, cached);
  CHECK_EQ(info.available, available);
}

/* A request with so many full blocks, all committed. */
static uint64_t use(uint64_t id, const int32_t* tokens, size_t blocks) {
  uint64_t r = 0;
  OK(kvc_manager_allocate_request(m, PROMPT(id, tokens, blocks * kB, NULL, 0), NULL, &r, NULL));
  OK(kvc_manager_commit_tokens(m, r, blocks * kB));
  return r;
}

static void cache(uint64_t id, const int32_t* tokens, size_t blocks) {
  OK(kvc_manager_free_request(m, use(id, tokens, blocks)));
}

static uint64_t hit(uint64_t id, const int32_t* tokens, size_t n) {
  kvc_probe_info info = {.struct_size = sizeof info};
  OK(kvc_manager_probe(m, PROMPT(id, tokens, n, NULL, 0), &info));
  return info.num_cached;
}

static kvc_status try_to_use(uint64_t id, const int32_t* tokens, size_t blocks) {
  uint64_t r = 0;
  const kvc_status status =
      kvc_manager_allocate_request(m, PROMPT(id, tokens, blocks * kB, NULL, 0), NULL, &r, NULL);
  if (status == KVC_OK) OK(kvc_manager_free_request(m, r));
  return status;
}

static void test_a_minimum_is_always_there(void) {
  begin(12, 2);
  OK(kvc_manager_set_quota(m, a, 0, 4, 0));
  expect_quota(a, 0, 0, 12);
  expect_quota(b, 0, 0, 8); /* the common share */
  const uint64_t r = use(b, tokens_[1], 8);
  uint64_t none = POISON;
  REFUSED_SAYING(m, KVC_ERROR_NO_SPACE,
                 kvc_manager_allocate_request(m, PROMPT(b, tokens_[2], 4, NULL, 0), NULL, &none, NULL),
                 "1 block", "0 of 12");
  CHECK_EQ(none, POISON);
  const uint64_t own = use(a, tokens_[0], 4);
  expect_quota(a, 4, 0, 0);
  OK(kvc_manager_free_request(m, own));
  expect_quota(a, 0, 4, 4);
  /* What it has cached within its minimum stays, whatever others need. */
  OK(kvc_manager_free_request(m, r));
  for (int i = 0; i < 3; ++i) cache(b, tokens_[1 + i % 2], 8);
  CHECK_EQ(hit(a, tokens_[0], 4 * kB + 1), 4 * kB);
  end_manager(m);
}

static void test_a_maximum_evicts_its_own(void) {
  begin(12, 2);
  OK(kvc_manager_set_quota(m, a, 0, 0, 4));
  cache(b, tokens_[1], 3);
  cache(a, tokens_[0], 4);
  cache(a, tokens_[2], 2); /* four blocks are free, and its own are evicted */
  expect_quota(a, 0, 4, 4);
  CHECK_EQ(hit(a, tokens_[0], 4 * kB + 1), 2 * kB);
  CHECK_EQ(hit(b, tokens_[1], 3 * kB + 1), 3 * kB);
  uint64_t none = POISON;
  REFUSED_SAYING(m, KVC_ERROR_NEVER_FITS,
                 kvc_manager_allocate_request(m, PROMPT(a, tokens_[0], 5 * kB, NULL, 0), NULL, &none, NULL),
                 "5 blocks", "more than 4 of its 12");
  CHECK_EQ(quota(a).refusals, 0);
  CHECK_EQ(stats(m).refusals, 1);
  kvc_probe_info info = {.struct_size = sizeof info};
  OK(kvc_manager_probe(m, PROMPT(a, tokens_[0], 5 * kB, NULL, 0), &info));
  CHECK(info.fits == 0 && info.never_fits == 1 && info.blocks_available == 4);
  /* An extension keeps to it as well, and its own fenced blocks are worth waiting for. */
  const uint64_t r = use(a, tokens_[0], 4);
  REFUSED_SAYING(m, KVC_ERROR_OVER_QUOTA,
                 kvc_manager_allocate_request(m, PROMPT(a, tokens_[1], kB, NULL, 0), NULL, &none, NULL),
                 "1 blocks", "at most 4");
  CHECK_EQ(quota(a).refusals, 1);
  OK(kvc_manager_probe(m, PROMPT(a, tokens_[1], kB, NULL, 0), &info));
  CHECK(info.fits == 0 && info.never_fits == 0);
  REFUSED(m, KVC_ERROR_NEVER_FITS, kvc_manager_reserve_tokens(m, r, 5 * kB));
  kvc_step step = {.struct_size = sizeof step};
  OK(kvc_manager_step(m, &step));
  OK(kvc_manager_free_request(m, r));
  CHECK_EQ(quota(a).fenced, 4);
  CHECK_EQ(try_to_use(a, tokens_[2], 1), KVC_ERROR_AGAIN);
  CHECK_EQ(try_to_use(b, tokens_[2], 1), KVC_OK);
  OK(kvc_manager_retire_step(m, step.step_id));
  CHECK_EQ(try_to_use(a, tokens_[2], 1), KVC_OK);
  end_manager(m);
}

static void test_what_is_there_already_counts(void) {
  begin(12, 1);
  const uint64_t r = use(a, tokens_[0], 3);
  cache(a, tokens_[1], 4);
  cache(b, tokens_[2], 2);
  OK(kvc_manager_set_quota(m, a, 0, 2, 5)); /* three held, two of four cached stay */
  expect_quota(a, 3, 2, 2);
  expect_quota(b, 0, 2, 9);
  CHECK_EQ(hit(a, tokens_[1], 4 * kB + 1), 2 * kB);
  OK(kvc_manager_set_quota(m, a, 0, 0, 2)); /* what it holds stays */
  expect_quota(a, 3, 0, 0);
  CHECK_EQ(try_to_use(a, tokens_[1], 1), KVC_ERROR_OVER_QUOTA);
  OK(kvc_manager_free_request(m, r));
  cache(a, tokens_[1], 2);
  expect_quota(a, 0, 2, 2);
  OK(kvc_manager_set_quota(m, a, 0, 0, 0));
  CHECK_EQ(quota(a).max_blocks, 0);
  expect_quota(a, 0, 4, 12); /* the common share again */
  OK(kvc_manager_set_quota(m, b, 0, 1, 0));
  OK(kvc_manager_close_namespace(m, b)); /* its class is free again */
  OK(kvc_manager_set_quota(m, 0, 0, 1, 0));
  CHECK_EQ(quota(0).min_blocks, 1);
  end_manager(m);
}

static void test_holds_respect_minimums(void) {
  begin(8, 2);
  OK(kvc_manager_set_quota(m, b, 0, 4, 0));
  cache(0, tokens_[0], 4);
  const uint64_t r = use(0, tokens_[1], 2);
  int32_t blocks[4];
  size_t count = POISON;
  uint64_t pin = POISON, pinned = POISON;
  /* Of four cached blocks two are promised. */
  REFUSED(m, KVC_ERROR_NO_SPACE,
          kvc_manager_pin_prefix(m, PROMPT(0, tokens_[0], 16, NULL, 0), &pin, &pinned));
  REFUSED(m, KVC_ERROR_NO_SPACE,
          kvc_manager_acquire_prefix(m, PROMPT(0, tokens_[0], 16, NULL, 0), 0, blocks, 4, &count));
  REFUSED(m, KVC_ERROR_NO_SPACE, kvc_manager_acquire_blocks(m, 0, blocks, 3));
  OK(kvc_manager_pin_prefix(m, PROMPT(0, tokens_[0], 8, NULL, 0), &pin, &pinned));
  REFUSED(m, KVC_ERROR_NO_SPACE, kvc_manager_acquire_blocks(m, 0, blocks, 1));
  OK(kvc_manager_free_request(m, r));
  /* External blocks count for a namespace when they are published there. */
  OK(kvc_manager_acquire_blocks(m, 0, blocks, 2));
  OK(kvc_manager_set_quota(m, a, 0, 0, 1));
  REFUSED_SAYING(m, KVC_ERROR_OVER_QUOTA,
                 kvc_manager_publish_blocks(m, PROMPT(a, tokens_[2], 8, NULL, 0), 0, blocks, 2), "2 blocks",
                 "at most 1");
  OK(kvc_manager_publish_blocks(m, PROMPT(a, tokens_[2], 4, NULL, 0), 0, blocks, 1));
  expect_quota(a, 1, 0, 0);
  OK(kvc_manager_release_blocks(m, blocks, 2));
  expect_quota(a, 0, 1, 1);
  OK(kvc_manager_unpin_prefix(m, pin));
  end_manager(m);
}

static void test_the_watermark_looks_at_one_tenant(void) {
  kvc_manager_config c = small_config(8);
  c.max_quotas = 1, c.watermark_blocks = 2;
  m = make_manager(&c);
  a = space("a"), b = space("b");
  OK(kvc_manager_set_quota(m, a, 0, 4, 4));
  const uint64_t other = use(b, tokens_[1], 1);
  const uint64_t r = use(a, tokens_[0], 4); /* none of its own runs */
  OK(kvc_manager_free_request(m, r));
  const uint64_t one = use(a, tokens_[0], 1);
  CHECK_EQ(try_to_use(a, tokens_[2], 2), KVC_ERROR_OVER_QUOTA);
  CHECK_EQ(try_to_use(a, tokens_[2], 1), KVC_OK);
  OK(kvc_manager_free_request(m, one));
  OK(kvc_manager_free_request(m, other));
  end_manager(m);
}

static void test_a_refusal_skips_its_own_share_alone(void) {
  begin(8, 1);
  OK(kvc_manager_set_quota(m, a, 0, 2, 2));
  const uint64_t one = use(a, tokens_[1], 1);
  const uint64_t offsets[] = {0, 8, 12, 16}, spaces[] = {a, a, b};
  kvc_status status[3];
  uint64_t admitted[3], cached[3];
  kvc_step step = {.struct_size = sizeof step,
                   .num_admissions = 3,
                   .admit_offsets = offsets,
                   .admit_tokens = tokens_[0],
                   .admit_namespaces = spaces,
                   .status = status,
                   .admitted = admitted,
                   .cached = cached};
  OK(kvc_manager_step(m, &step));
  CHECK_EQ(status[0], KVC_ERROR_OVER_QUOTA);
  CHECK_EQ(status[1], KVC_ERROR_SKIPPED);
  CHECK_EQ(status[2], KVC_OK);
  CHECK_EQ(step.num_refused, 2);
  CHECK_EQ(step.shortage_blocks, 1);
  OK(kvc_manager_free_request(m, admitted[2]));
  OK(kvc_manager_free_request(m, one));
  OK(kvc_manager_retire_step(m, step.step_id));
  end_manager(m);
}

static void test_refusals(void) {
  const kvc_status bad = KVC_ERROR_INVALID_ARGUMENT;
  kvc_quota_info info = {.struct_size = sizeof info, .held = POISON};
  m = small_manager(8);
  REFUSED_SAYING(m, KVC_ERROR_UNSUPPORTED, kvc_manager_set_quota(m, 0, 0, 1, 0), "max_quotas", "0");
  REFUSED(m, KVC_ERROR_UNSUPPORTED, kvc_manager_quota_info(m, 0, 0, &info));
  end_manager(m);
  kvc_manager_config c = small_config(8);
  c.max_quotas = 64, m = NULL;
  EXPECT(bad, kvc_manager_create(&c, &m));
  c.max_quotas = 1, c.reserved = 1;
  EXPECT(KVC_ERROR_UNSUPPORTED, kvc_manager_create(&c, &m));
  c.flags = KVC_MANAGER_NULL_BLOCK, c.reserved = 0; /* seven blocks */
  m = make_manager(&c);
  kvc_properties properties = {.struct_size = sizeof properties};
  OK(kvc_manager_properties(m, &properties));
  CHECK_EQ(properties.max_quotas, 1);
  a = space("a"), b = space("b");
  REFUSED_SAYING(m, bad, kvc_manager_set_quota(m, a, 1, 1, 0), "pool 1", "1 pools");
  REFUSED_SAYING(m, bad, kvc_manager_set_quota(m, a, 0, 8, 0), "8", "7 blocks");
  REFUSED_SAYING(m, bad, kvc_manager_set_quota(m, a, 0, 0, 8), "8", "7 blocks");
  REFUSED_SAYING(m, bad, kvc_manager_set_quota(m, a, 0, 3, 2), "3", "2");
  REFUSED(m, bad, kvc_manager_set_quota(m, a, 0, UINT64_MAX, UINT64_MAX));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_set_quota(m, a + 1, 0, 1, 0));
  REFUSED(m, KVC_ERROR_NOT_FOUND, kvc_manager_quota_info(m, a + 1, 0, &info));
  REFUSED(m, bad, kvc_manager_quota_info(m, a, 1, &info));
  REFUSED(m, bad, kvc_manager_quota_info(m, a, 0, NULL));
  EXPECT(bad, kvc_manager_set_quota(NULL, a, 0, 1, 0));
  EXPECT(bad, kvc_manager_quota_info(NULL, a, 0, &info));
  CHECK_EQ(info.held, POISON);
  OK(kvc_manager_set_quota(m, a, 0, 0, 0)); /* it has none */
  const uint64_t r = use(b, tokens_[0], 4);
  REFUSED_SAYING(m, KVC_ERROR_NO_SPACE, kvc_manager_set_quota(m, a, 0, 4, 0), "4", "3 more");
  OK(kvc_manager_set_quota(m, a, 0, 3, 0));
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_set_quota(m, b, 0, 1, 0), "1", "max_quotas");
  REFUSED(m, KVC_ERROR_NO_SPACE, kvc_manager_set_quota(m, a, 0, 7, 0));
  OK(kvc_manager_free_request(m, r));
  OK(kvc_manager_set_quota(m, a, 0, 7, 7));
  OK(kvc_manager_set_quota(m, a, 0, 7, 7));
  end_manager(m);

  begin(8, 2);
  OK(kvc_manager_set_quota(m, a, 0, 5, 0));
  REFUSED_SAYING(m, bad, kvc_manager_set_quota(m, b, 0, 4, 0), "sum to 5", "at most 3");
  end_manager(m);
}

int main(void) {
  for (int i = 0; i < 3; ++i) fill_tokens(tokens_[i], 64, (uint64_t)i + 1);
  test_a_minimum_is_always_there();
  test_a_maximum_evicts_its_own();
  test_what_is_there_already_counts();
  test_holds_respect_minimums();
  test_the_watermark_looks_at_one_tenant();
  test_a_refusal_skips_its_own_share_alone();
  test_refusals();
  return 0;
}
