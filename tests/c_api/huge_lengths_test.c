/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths far beyond the memory given, and lengths whose product or sum overflows, must be refused before
 * anything is read: every array here ends at a page that cannot be touched, so reading past it ends the
 * program. */
#define _DEFAULT_SOURCE 1
#include <kvcache/external.h>
#include <kvcache/prefix.h>
#include <kvcache/retention.h>
#include <kvcache/step.h>
#include <sys/mman.h>

#include "check.h"

enum { kPage = 65536, kPrompt = 16 };

static const size_t huge_[] = {(size_t)1 << 31, ((size_t)1 << 31) + 16, (size_t)1 << 32,
                               (size_t)1 << 60, (size_t)1 << 61,        (size_t)1 << 62,
                               SIZE_MAX / 4,    SIZE_MAX - 15,          SIZE_MAX};
enum { kHuge = sizeof huge_ / sizeof *huge_ };

/* Room for `size` bytes that ends where the forbidden page begins. */
static void* at_the_edge(const void* content, size_t size) {
  unsigned char* pages = mmap(NULL, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && size <= kPage);
  CHECK(mprotect(pages + kPage, kPage, PROT_NONE) == 0);
  if (size > 0) memcpy(pages + kPage - size, content, size);
  return pages + kPage - size;
}

/* Too many tokens for a request or for any request: which of the two statuses is not said everywhere. */
static void too_long(kvc_manager* m, kvc_status status, uint64_t digest_before) {
  CHECK(status == KVC_ERROR_LIMIT || status == KVC_ERROR_INVALID_ARGUMENT);
  CHECK_EQ(digest(m), digest_before);
}

static void test_tokens(kvc_manager* m, const int32_t* tokens, uint64_t admitted, uint64_t waiting,
                        int32_t held) {
  uint64_t id = POISON, number = POISON;
  size_t count = POISON;
  int32_t blocks[4] = {-77, -77, -77, -77};
  kvc_probe_info probe = {.struct_size = sizeof probe, .num_cached = POISON};
  for (int i = 0; i < kHuge; ++i) {
    const size_t n = huge_[i];
    char value[32];
    snprintf(value, sizeof value, "%zu", n);
    REFUSED_SAYING(m, KVC_ERROR_LIMIT,
                   kvc_manager_create_request(m, PROMPT(0, tokens, n, NULL, 0), NULL, &id), value, "4096");
    REFUSED_SAYING(m, KVC_ERROR_LIMIT,
                   kvc_manager_allocate_request(m, PROMPT(0, tokens, n, NULL, 0), NULL, &id, &number), value,
                   "4096");
    REFUSED(m, KVC_ERROR_LIMIT, kvc_manager_append_tokens(m, admitted, tokens, n));
    REFUSED(m, KVC_ERROR_LIMIT, kvc_manager_append_tokens(m, waiting, tokens, n));
    REFUSED(m, KVC_ERROR_LIMIT, kvc_manager_probe(m, PROMPT(0, tokens, n, NULL, 0), &probe));
    REFUSED(m, KVC_ERROR_LIMIT, kvc_manager_pin_prefix(m, PROMPT(0, tokens, n, NULL, 0), &id, &number));
    REFUSED(m, KVC_ERROR_LIMIT, kvc_manager_register_prompt(m, "p", PROMPT(0, tokens, n, NULL, 0), &number));
    const uint64_t before = digest(m);
    too_long(m, kvc_manager_drop_prefix(m, PROMPT(0, tokens, n, NULL, 0), &number), before);
    too_long(m, kvc_manager_acquire_prefix(m, PROMPT(0, tokens, n, NULL, 0), 0, blocks, 4, &count), before);
    too_long(m, kvc_manager_publish_blocks(m, PROMPT(0, tokens, n, NULL, 0), 0, &held, 1), before);
  }
  CHECK(id == POISON && number == POISON && count == POISON && probe.num_cached == POISON &&
        blocks[0] == -77);
}

static void test_keys(kvc_manager* m, const int32_t* tokens) {
  uint64_t id = POISON, number = POISON;
  size_t count = POISON;
  int32_t blocks[4] = {-77, -77, -77, -77};
  kvc_probe_info probe = {.struct_size = sizeof probe, .num_cached = POISON};
  const kvc_extra_key key = {.first_token = 0, .num_tokens = 1};
  const kvc_extra_key* keys = at_the_edge(&key, sizeof key);
  const kvc_status bad = KVC_ERROR_INVALID_ARGUMENT;
  for (int i = 0; i < kHuge; ++i) { /* more keys than tokens can never be right */
    const size_t n = huge_[i];
    REFUSED(m, bad, kvc_manager_create_request(m, PROMPT(0, tokens, kPrompt, keys, n), NULL, &id));
    REFUSED(m, bad, kvc_manager_allocate_request(m, PROMPT(0, tokens, kPrompt, keys, n), NULL, &id, &number));
    REFUSED(m, bad, kvc_manager_probe(m, PROMPT(0, tokens, kPrompt, keys, n), &probe));
    REFUSED(m, bad, kvc_manager_pin_prefix(m, PROMPT(0, tokens, kPrompt, keys, n), &id, &number));
    REFUSED(m, bad, kvc_manager_drop_prefix(m, PROMPT(0, tokens, kPrompt, keys, n), &number));
    REFUSED(m, bad, kvc_manager_acquire_prefix(m, PROMPT(0, tokens, kPrompt, keys, n), 0, blocks, 4, &count));
  }
  CHECK(id == POISON && number == POISON && count == POISON && probe.num_cached == POISON &&
        blocks[0] == -77);
}

static void test_arrays(kvc_manager* m, const int32_t* tokens, uint64_t admitted, int32_t held) {
  const uint64_t* requests = at_the_edge(&admitted, sizeof admitted);
  const int32_t* blocks = at_the_edge(&held, sizeof held);
  int32_t* row = at_the_edge(NULL, 0);
  int64_t* slots = at_the_edge(NULL, 0);
  for (int i = 0; i < kHuge; ++i) {
    const size_t n = huge_[i];
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT,
            kvc_manager_publish_blocks(m, PROMPT(0, tokens, kPrompt, NULL, 0), 0, blocks, n));
    REFUSED(m, KVC_ERROR_NEVER_FITS, kvc_manager_acquire_blocks(m, 0, row, n));
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_export_slots(m, admitted, 0, 0, n, slots, 8));
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_export_slots(m, admitted, 0, n, n, slots, 4));
    /* num_requests * row_stride * 4 bytes do not fit any memory */
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT,
            kvc_manager_export_tables(m, requests, n, 0, -1, row, SIZE_MAX / 2));
  }
}

/* A step whose only item was refused changes nothing once its number is retired. */
static void too_long_item(kvc_manager* m, kvc_status whole, const kvc_step* s, kvc_status item,
                          uint64_t digest_before) {
  if (whole == KVC_OK) OK(kvc_manager_retire_step(m, s->step_id));
  too_long(m, whole == KVC_OK ? item : whole, digest_before);
}

/* The counts of a step: more than requests can exist, or offsets that send the library far away. */
static void test_step(kvc_manager* m, const int32_t* tokens, uint64_t admitted) {
  const uint64_t* ids = at_the_edge(&admitted, sizeof admitted);
  const int32_t* rows = at_the_edge(NULL, 0);
  kvc_status* status = at_the_edge(NULL, 0);
  uint64_t* numbers = at_the_edge(NULL, 0);
  kvc_block_copy copies[4];
  const kvc_step good = {.struct_size = sizeof good,
                         .fill_id = -1,
                         .frees = ids,
                         .preempts = ids,
                         .truncates = ids,
                         .truncate_lengths = ids,
                         .requests = ids,
                         .committed = ids,
                         .admit_requests = ids,
                         .rows = rows,
                         .status = status,
                         .admitted = numbers,
                         .cached = numbers,
                         .copies = copies,
                         .copy_capacity = 4};
  kvc_step s;
  for (int i = 0; i < kHuge; ++i) {
    const size_t n = huge_[i];
    s = good, s.num_requests = n; /* more than requests can exist, and none may stand twice */
    REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, &s));
    if (n > UINT32_MAX) {
      s = good, s.num_frees = n;
      REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, &s));
      s = good, s.num_preempts = n;
      REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, &s));
      s = good, s.num_truncates = n;
      REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, &s));
      s = good, s.num_admissions = n;
      REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_step(m, &s));
    }

    kvc_status one = -77;
    uint64_t id = POISON, cached = POISON;
    const uint64_t offsets[2] = {0, n};
    s = (kvc_step){.struct_size = sizeof s,
                   .fill_id = -1,
                   .num_requests = 1,
                   .requests = ids,
                   .extend_offsets = offsets,
                   .extend_tokens = tokens,
                   .status = &one,
                   .copies = copies,
                   .copy_capacity = 4};
    const uint64_t before = digest(m);
    kvc_status whole = kvc_manager_step(m, &s); /* refused as a whole or, with one item, that item */
    too_long_item(m, whole, &s, one, before);
    s = (kvc_step){.struct_size = sizeof s,
                   .fill_id = -1,
                   .num_requests = 1,
                   .requests = ids,
                   .committed = &(uint64_t){0},
                   .commit_offsets = offsets,
                   .commit_tokens = tokens,
                   .status = &one,
                   .copies = copies,
                   .copy_capacity = 4};
    whole = kvc_manager_step(m, &s);
    too_long_item(m, whole, &s, one, before);
    s = (kvc_step){.struct_size = sizeof s,
                   .fill_id = -1,
                   .num_admissions = 1,
                   .admit_offsets = offsets,
                   .admit_tokens = tokens,
                   .status = &one,
                   .admitted = &id,
                   .cached = &cached};
    whole = kvc_manager_step(m, &s);
    too_long_item(m, whole, &s, one, before);
    CHECK(whole == KVC_OK ? id == 0 : id == POISON);
  }
}

int main(void) {
  kvc_manager* m = small_manager(32);
  int32_t prompt[kPrompt], held = -77;
  fill_tokens(prompt, kPrompt, 1);
  const int32_t* tokens = at_the_edge(prompt, sizeof prompt);
  const uint64_t admitted = allocate(m, tokens, kPrompt, 0); /* reading up to the edge is fine */
  uint64_t waiting = 0;
  OK(kvc_manager_create_request(m, PROMPT(0, tokens, kPrompt, NULL, 0), NULL, &waiting));
  OK(kvc_manager_acquire_blocks(m, 0, &held, 1));
  test_tokens(m, tokens, admitted, waiting, held);
  test_keys(m, tokens);
  test_arrays(m, tokens, admitted, held);
  test_step(m, tokens, admitted);
  OK(kvc_manager_release_blocks(m, &held, 1));
  end_manager(m);
  return 0;
}
