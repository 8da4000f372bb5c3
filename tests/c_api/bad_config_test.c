/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input for what makes namespaces and steps; tests/api/config_test.cc has that of managers. Each call
 * fails with the documented status and a text that names the value and the limit, and writes nothing. */
#include <kvcache/step.h>

#include "check.h"

static kvc_manager* witness_; /* an innocent manager, for REFUSED */

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
  test_namespaces();
  test_namespace_limit();
  test_steps();
  end_manager(witness_);
  return 0;
}
