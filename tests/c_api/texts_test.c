/* SPDX-License-Identifier: Apache-2.0 */
/* Error texts of mistakes that users made: each has the value, the limit and what to do, and a mistake of one
 * kind has one status in all calls. */
#include <kvcache/attention.h>
#include <kvcache/step.h>
#include <kvcache/storage.h>

#include "check.h"

static int32_t tokens_[64];
static kvc_manager* m;

static uint64_t waiting_request(void) {
  uint64_t r = 0;
  OK(kvc_manager_create_request(m, PROMPT(0, tokens_, 9, NULL, 0), NULL, &r));
  return r;
}

static void test_ids(void) {
  REFUSED_SAYING(m, KVC_ERROR_NOT_FOUND, kvc_manager_free_request(m, 0), "no request 0", "not set");
}

static void test_configs(void) {
  kvc_manager* none = NULL;
  kvc_manager_config c = small_config(8);
  c.watermark_blocks = 9;
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_create(&c, &none), "watermark_blocks is 9",
                 "at most 7");
  c = small_config(8);
  c.flags = 2;
  REFUSED_SAYING(m, KVC_ERROR_UNSUPPORTED, kvc_manager_create(&c, &none), "0x2", "clear them");
  CHECK(none == NULL);
}

static void test_space(void) {
  uint64_t r = POISON;
  REFUSED_SAYING(m, KVC_ERROR_NEVER_FITS,
                 kvc_manager_allocate_request(m, PROMPT(0, tokens_, 64, NULL, 0), NULL, &r, NULL),
                 "needs 16 blocks", "never get more than 8 of its 8: end the request");
  const uint64_t first = allocate(m, tokens_, 24, 0);
  REFUSED_SAYING(m, KVC_ERROR_NO_SPACE,
                 kvc_manager_allocate_request(m, PROMPT(0, tokens_, 24, NULL, 0), NULL, &r, NULL),
                 "needs 6 blocks", "free or preempt");
  kvc_step step = {.struct_size = sizeof step, .frees = &first, .num_frees = 1};
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, &step), "status is NULL", "num_frees +");
  step = (kvc_step){.struct_size = sizeof step}; /* in flight when the request is freed */
  OK(kvc_manager_step(m, &step));
  OK(kvc_manager_free_request(m, first));
  REFUSED_SAYING(m, KVC_ERROR_AGAIN,
                 kvc_manager_allocate_request(m, PROMPT(0, tokens_, 24, NULL, 0), NULL, &r, NULL), "6 fenced",
                 "retire the steps in flight, then try again");
  OK(kvc_manager_retire_step(m, step.step_id));
}

/* A waiting request is BUSY for every call that needs its blocks. */
static void test_waiting(void) {
  const uint64_t r = waiting_request();
  int64_t slots[9];
  REFUSED_SAYING(m, KVC_ERROR_BUSY, kvc_manager_preempt_request(m, r), "waits already", "no blocks");
  REFUSED_SAYING(m, KVC_ERROR_BUSY, kvc_manager_export_slots(m, r, 0, 0, 9, slots, 8), "waiting", "admit it");
  REFUSED_SAYING(m, KVC_ERROR_BUSY, kvc_manager_commit_tokens(m, r, 1), "waiting", "admit it");
  OK(kvc_manager_free_request(m, r));
}

/* Reserved slots are kept: appends within them need no block. */
static void test_reserve(void) {
  const uint64_t r = allocate(m, tokens_, 4, 0);
  OK(kvc_manager_reserve_tokens(m, r, 32));
  uint64_t other = POISON;
  REFUSED(m, KVC_ERROR_NO_SPACE,
          kvc_manager_allocate_request(m, PROMPT(0, tokens_, 1, NULL, 0), NULL, &other, NULL));
  for (int i = 4; i < 32; ++i) {
    OK(kvc_manager_append_tokens(m, r, tokens_ + i, 1));
    OK(kvc_manager_commit_tokens(m, r, (uint64_t)i));
  }
  REFUSED(m, KVC_ERROR_NEVER_FITS, kvc_manager_append_tokens(m, r, tokens_, 1));
  OK(kvc_manager_free_request(m, r));
}

static void test_arrays(void) {
  kvc_storage_config config = {
      .struct_size = sizeof config, .num_blocks = 8, .num_layers = 2, .num_heads = 1, .head_dim = 8};
  kvc_storage* s = NULL;
  OK(kvc_storage_create(&config, &s));
  kvc_view view;
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_view(s, 0, 2, &view));
  check_text("layer is 2", "2 layers", "view", __FILE__, __LINE__);
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_view(s, 4, 0, &view));
  check_text("plane is 4", "to 3", "view", __FILE__, __LINE__);
  float rows[16] = {0};
  int64_t slot = 0;
  kvc_rows huge = {
      .struct_size = sizeof huge, .k = rows, .v = rows, .num_tokens = SIZE_MAX / 2, .slots = &slot};
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_store(s, &huge, NULL));
  check_text("k: its lengths", "more elements than memory", "store", __FILE__, __LINE__);
  CHECK(strstr(kvc_last_error(), "product") == NULL);
  kvc_rows past = {.struct_size = sizeof past, .k = rows, .v = rows, .num_tokens = 1, .slots = &slot};
  past.first_layer = 2;
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_store(s, &past, NULL));
  check_text("first_layer is 2", "2 layers", "store", __FILE__, __LINE__);
  const kvc_quant_format format = {.struct_size = sizeof format, .dtype = KVC_INT8};
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_quantize(&format, NULL, 2, 8, rows, rows));
  check_text("in is NULL", "lengths", "quantize", __FILE__, __LINE__);
  const uint64_t offsets[] = {0, 3}, lengths[] = {2};
  const int32_t table[] = {0};
  float q[24] = {0}, out[24];
  const kvc_attention a = {.struct_size = sizeof a,
                           .q = q,
                           .out = out,
                           .q_offsets = offsets,
                           .kv_lens = lengths,
                           .num_requests = 1,
                           .block_tables = table,
                           .table_stride = 1,
                           .num_q_heads = 1};
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_attend(s, &a, NULL));
  check_text("kv_lens[0] is 2, less than its 3 queries", "q_starts", "attend", __FILE__, __LINE__);
  config.num_layers = 65537;
  EXPECT(KVC_ERROR_INVALID_ARGUMENT, kvc_storage_size(&config, NULL, NULL));
  check_text("num_layers is 65537", "65536", "size", __FILE__, __LINE__);
  kvc_storage_destroy(s);
}

int main(void) {
  for (int i = 0; i < 64; ++i) tokens_[i] = i;
  m = small_manager(8);
  test_ids();
  test_configs();
  test_space();
  test_waiting();
  test_reserve();
  test_arrays();
  end_manager(m);
  puts("each text says what to do");
  return 0;
}
