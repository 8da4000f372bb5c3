/* SPDX-License-Identifier: Apache-2.0 */
/* What a program asks the library first: its version, names of statuses, defaults; and the slots of a
 * request. What calls do is in tests/conformance and tests/property. */
#include <kvcache.h>

#include "check.h"

enum { kB = 4 };

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
                                      "KVC_ERROR_FILLING",
                                      "KVC_ERROR_NEVER_FITS"};
  for (int32_t i = 0; i < (int32_t)(sizeof names / sizeof *names); ++i)
    CHECK(strcmp(kvc_status_name(i), names[i]) == 0);
  CHECK(strcmp(kvc_status_name(18), "unknown status") == 0);
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

int main(void) {
  test_library();
  test_defaults();
  test_slots();
  kvc_manager_destroy(NULL);
  return 0;
}
