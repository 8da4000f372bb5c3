/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input for everything that makes something: managers with their groups, pools and allocator, namespaces,
 * steps. Each call fails with the documented status and a text that names the value and the limit, and writes
 * nothing. */
#include <kvcache/step.h>

#include "check.h"

static kvc_manager* witness_; /* an innocent manager, for REFUSED */

static void refuse(const kvc_manager_config* config, kvc_status status, const char* value,
                   const char* limit) {
  kvc_manager* made = (kvc_manager*)(void*)&made;
  REFUSED_SAYING(witness_, status, kvc_manager_create(config, &made), value, limit);
  CHECK(made == (kvc_manager*)(void*)&made);
}

static void test_numbers(void) {
  const kvc_manager_config good = small_config(16);
  kvc_manager_config c;
  c = good, c.num_blocks = 0, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "0", "");
  c = good, c.num_blocks = 2147483647, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "2147483647", "214748");
  c = good, c.num_blocks = UINT64_MAX,
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "18446744073709551615", "214748");
  c = good, c.num_blocks = ((uint64_t)1 << 32) + 1,
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "4294967297", "214748");
  c = good, c.max_requests = 262144, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "262144", "262143");
  c = good, c.max_requests = UINT64_MAX,
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "18446744073709551615", "262143");
  c = good, c.max_request_tokens = 1073741825,
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "1073741825", "1073741824");
  c = good, c.max_request_tokens = UINT64_MAX;
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "18446744073709551615", "1073741824");
  c = good, c.event_capacity = 16777217, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "16777217", "16777216");
  c = good, c.event_capacity = UINT64_MAX,
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "18446744073709551615", "16777216");
  c = good, c.max_nodes = UINT64_MAX, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "18446744073709551615", "");
  c = good, c.block_size = 1025, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "1025", "1024");
  c = good, c.block_size = UINT32_MAX, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "4294967295", "1024");
  c = good, c.policy = 3, refuse(&c, KVC_ERROR_UNSUPPORTED, "3", "2");
  c = good, c.policy_weight = 0.5, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "0.5", "lru");
  c = good, c.policy = KVC_POLICY_FREQUENCY, c.policy_weight = 2000;
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "2000", "1000");
  c = good, c.policy = KVC_POLICY_FRAGMENTATION, c.policy_history = 7;
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "7", "fragmentation");
  c = good, c.policy = KVC_POLICY_FREQUENCY, c.policy_history = UINT64_MAX;
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "18446744073709551615", "2147483646");
  c = good, c.policy = UINT32_MAX, refuse(&c, KVC_ERROR_UNSUPPORTED, "4294967295", "");
  c = good, c.flags = 1u << 1, refuse(&c, KVC_ERROR_UNSUPPORTED, "0x2", "");
  c = good, c.flags = 1u << 2, refuse(&c, KVC_ERROR_UNSUPPORTED, "0x4", "");
  for (int bit = 8; bit < 32; ++bit) {
    c = good, c.flags = 1u << bit;
    if (c.flags != KVC_MANAGER_HEADROOM && c.flags != KVC_MANAGER_FILLS &&
        c.flags != KVC_MANAGER_PARTIAL_REUSE)
      refuse(&c, KVC_ERROR_UNSUPPORTED, "", "");
  }
}

static void test_pointers(void) {
  const kvc_manager_config good = small_config(16);
  kvc_manager* made = NULL;
  REFUSED(witness_, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_create(NULL, &made));
  REFUSED(witness_, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_create(&good, NULL));
  CHECK(made == NULL);
  kvc_manager_config c;
  c = good, c.num_groups = 1, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "", "");
  c = good, c.num_blocks = 0, c.num_pools = 1, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "", "");
  kvc_allocator a = {.struct_size = sizeof a};
  c = good, c.allocator = &a, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "", "");
}

static kvc_group_config groups_[33];
static kvc_pool_config pools_[33];

static void refuse_group(kvc_group_config group, kvc_status status, const char* value, const char* limit) {
  kvc_manager_config c = small_config(16);
  group.struct_size = sizeof group;
  groups_[0] = (kvc_group_config){.struct_size = sizeof group};
  groups_[1] = group;
  c.groups = groups_;
  c.num_groups = 2;
  refuse(&c, status, value, limit);
}

static void test_groups_and_pools(void) {
  const uint32_t window = KVC_GROUP_SLIDING_WINDOW;
  const uint32_t chunks = KVC_GROUP_CHUNKED_LOCAL;
  refuse_group((kvc_group_config){.kind = 5}, KVC_ERROR_UNSUPPORTED, "5", "");
  refuse_group((kvc_group_config){.kind = KVC_GROUP_STATE, .window_tokens = 7}, KVC_ERROR_INVALID_ARGUMENT,
               "7", "");
  refuse_group((kvc_group_config){.kind = KVC_GROUP_STATE, .retention_tokens = 6}, KVC_ERROR_INVALID_ARGUMENT,
               "6", "4");
  refuse_group((kvc_group_config){.max_checkpoints = 6}, KVC_ERROR_INVALID_ARGUMENT, "6", "");
  refuse_group((kvc_group_config){.kind = chunks}, KVC_ERROR_INVALID_ARGUMENT, "chunk_tokens is 0", "1");
  refuse_group((kvc_group_config){.chunk_tokens = 5}, KVC_ERROR_INVALID_ARGUMENT, "5", "");
  refuse_group((kvc_group_config){.kind = window, .window_tokens = 8, .chunk_tokens = 5},
               KVC_ERROR_INVALID_ARGUMENT, "5", "");
  refuse_group((kvc_group_config){.kind = chunks, .chunk_tokens = 8, .window_tokens = 7},
               KVC_ERROR_INVALID_ARGUMENT, "7", "");
  refuse_group((kvc_group_config){.kind = chunks, .chunk_tokens = 8, .num_sink_tokens = 7},
               KVC_ERROR_INVALID_ARGUMENT, "7", "");
  refuse_group((kvc_group_config){.kind = chunks, .chunk_tokens = 8, .retention_tokens = 6},
               KVC_ERROR_INVALID_ARGUMENT, "6", "4");
  refuse_group((kvc_group_config){.kind = UINT32_MAX}, KVC_ERROR_UNSUPPORTED, "4294967295", "");
  refuse_group((kvc_group_config){.window_tokens = 5}, KVC_ERROR_INVALID_ARGUMENT, "5", "");
  refuse_group((kvc_group_config){.num_sink_tokens = 5}, KVC_ERROR_INVALID_ARGUMENT, "5", "");
  refuse_group((kvc_group_config){.retention_tokens = 8}, KVC_ERROR_INVALID_ARGUMENT, "8", "");
  refuse_group((kvc_group_config){.kind = window}, KVC_ERROR_INVALID_ARGUMENT, "0", "");
  refuse_group((kvc_group_config){.kind = window, .window_tokens = 8, .retention_tokens = 6},
               KVC_ERROR_INVALID_ARGUMENT, "6", "4");
  refuse_group((kvc_group_config){.pool = 1}, KVC_ERROR_INVALID_ARGUMENT, "1", "1");
  refuse_group((kvc_group_config){.pool = UINT32_MAX}, KVC_ERROR_INVALID_ARGUMENT, "4294967295", "1");
  refuse_group((kvc_group_config){.reserved = 3}, KVC_ERROR_UNSUPPORTED, "3", "");

  kvc_manager_config c = small_config(16);
  for (size_t i = 0; i < 33; ++i) {
    groups_[i] = (kvc_group_config){.struct_size = sizeof(kvc_group_config), .pool = (uint32_t)i};
    pools_[i] = (kvc_pool_config){.struct_size = sizeof(kvc_pool_config), .num_blocks = 2};
  }
  c.groups = groups_, c.pools = pools_;
  c.num_blocks = 0, c.num_groups = 33, c.num_pools = 33, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "33", "32");
  c.num_groups = 32, c.num_pools = 33, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "33", "32");
  c.num_groups = (size_t)1 << 31, c.num_pools = 32,
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "2147483648", "32");
  c.num_groups = SIZE_MAX, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "18446744073709551615", "32");
  c.num_groups = 31, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "31", ""); /* pool 31 is used by no group */
  c.num_groups = 32, c.num_blocks = 64, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "64", ""); /* both forms */
  c.num_blocks = 0, pools_[7].num_blocks = 0, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "7", "");
  pools_[7].num_blocks = UINT64_MAX,
  refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "", "214748"); /* the sum overflows */
  pools_[7].num_blocks = 2147483646, refuse(&c, KVC_ERROR_INVALID_ARGUMENT, "", "214748");
  pools_[7].num_blocks = 2;
  kvc_manager_destroy(make_manager(&c)); /* 32 of each are fine */
}

static void test_namespaces(void) {
  uint64_t id = POISON;
  static char bytes[65537];
  kvc_namespace_config c = {.struct_size = sizeof c, .model = bytes, .model_size = 65537};
  kvc_manager* m = witness_;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_open_namespace(m, &c, &id), "65537", "65536");
  c.model_size = SIZE_MAX;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_open_namespace(m, &c, &id),
                 "18446744073709551615", "65536");
  c = (kvc_namespace_config){.struct_size = sizeof c, .adapter_size = 1}; /* absent, yet with bytes */
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_open_namespace(m, &c, &id));
  c = (kvc_namespace_config){.struct_size = sizeof c, .tenant = bytes, .tenant_size = 1};
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_open_namespace(m, NULL, &id));
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_open_namespace(m, &c, NULL));
  CHECK(id == POISON);
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_manager_open_namespace(NULL, &c, &id));
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_close_namespace(m, 0));
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_manager_close_namespace(NULL, 1));
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_manager_reset_all(NULL));
}

static void test_namespace_limit(void) {
  kvc_manager* m = small_manager(4);
  uint32_t name = 0;
  uint64_t id = 0, opened = 0;
  kvc_namespace_config c = {.struct_size = sizeof c, .tenant = &name, .tenant_size = sizeof name};
  for (; opened < 65535; ++name, ++opened) {
    if (kvc_manager_open_namespace(m, &c, &id) != KVC_OK) break;
  }
  CHECK(opened >= 65534); /* whether the default one counts is not said */
  id = POISON;
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_open_namespace(m, &c, &id), "6553", "");
  CHECK(id == POISON);
  end_manager(m);
}

static void test_steps(void) {
  kvc_manager* m = witness_;
  kvc_step* step = NULL;
  kvc_view view = {.data = &view};
  const kvc_step_limits good = {
      .struct_size = sizeof good, .max_requests = 2, .max_rows = 2, .row_stride = 2, .max_tokens = 2};
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, NULL, &step));
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, &good, NULL));
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(NULL, &good, &step));
  const uint64_t huge[] = {UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 62, (uint64_t)1 << 61,
                           (uint64_t)1 << 60};
  for (size_t i = 0; i < 5; ++i) {
    kvc_step_limits l;
    l = good, l.max_frees = huge[i];
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, &l, &step));
    l = good, l.max_requests = huge[i];
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, &l, &step));
    l = good, l.max_admissions = huge[i];
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, &l, &step));
    l = good, l.max_tokens = huge[i];
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, &l, &step));
    l = good, l.max_prompt_tokens = huge[i];
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, &l, &step));
    l = good, l.max_rows = huge[i];
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, &l, &step));
    l = good, l.row_stride = huge[i];
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, &l, &step));
  }
  kvc_step_limits product = good; /* 2^32 * 2^32 is 0 in 64 bits */
  product.max_rows = product.row_stride = (uint64_t)1 << 32;
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_create(m, &product, &step));
  CHECK(step == NULL);

  OK(kvc_step_create(m, &good, &step));
  const kvc_view untouched = view;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_view(step, 24, &view), "24", "23");
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_view(step, -1, &view), "-1", "23");
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_view(step, INT32_MIN, &view));
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_view(step, 0, NULL));
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_view(NULL, 0, &view));
  const kvc_step own = {.struct_size = sizeof own}; /* not made by kvc_step_create */
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_step_view(&own, KVC_STEP_FREES, &view));
  CHECK(memcmp(&view, &untouched, sizeof view) == 0);
  kvc_step_destroy(step);
  kvc_step_destroy(NULL);
}

int main(void) {
  witness_ = small_manager(8);
  test_numbers();
  test_pointers();
  test_groups_and_pools();
  test_namespaces();
  test_namespace_limit();
  test_steps();
  end_manager(witness_);
  return 0;
}
