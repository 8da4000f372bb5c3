/* SPDX-License-Identifier: Apache-2.0 */
/* While serving, nothing is allocated: 10,000 steps of 256 requests that cross block edges, finish, are
 * replaced and evict, with statistics, probes and events read in between, ask neither the manager's allocator
 * nor malloc nor mmap for a byte. The C library's functions are counted by definitions of the same names,
 * which the dynamic linker prefers to its own. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../event_calls.h"
#include "check.h"

static uint64_t own_calls_, libc_calls_;

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KVC_NO_INTERPOSITION 1
#endif
#endif
#else
#define KVC_NO_INTERPOSITION 1
#endif

#ifndef KVC_NO_INTERPOSITION
#define EXPORT __attribute__((visibility("default")))
extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* memory, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

EXPORT void* malloc(size_t size) { return ++libc_calls_, __libc_malloc(size); }
EXPORT void* calloc(size_t count, size_t size) { return ++libc_calls_, __libc_calloc(count, size); }
EXPORT void* realloc(void* memory, size_t size) { return ++libc_calls_, __libc_realloc(memory, size); }
EXPORT void* memalign(size_t alignment, size_t size) {
  return ++libc_calls_, __libc_memalign(alignment, size);
}
EXPORT void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
EXPORT int posix_memalign(void** memory, size_t alignment, size_t size) {
  *memory = memalign(alignment, size);
  return *memory == NULL ? ENOMEM : 0;
}
EXPORT void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) {
  ++libc_calls_;
  return (void*)syscall(SYS_mmap, address, size, protection, flags, file, offset); /* NOLINT */
}
#endif

static void* take(void* user_data, size_t size, size_t alignment) {
  (void)user_data;
  ++own_calls_;
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  return aligned_alloc(alignment, rounded);
}

static void give_back(void* user_data, void* memory, size_t size, size_t alignment) {
  (void)user_data, (void)size, (void)alignment;
  free(memory);
}

enum {
  kRequests = 256,
  kLife = 256, /* steps of a request: one ends and one begins in each step */
  kPrompt = 72,
  kShared = 32,
  kBlocks = 8192,
  kRowStride = (kPrompt + kLife) / 16 + 2,
  kWarmUp = 20 * kLife,
  kSteps = 10000
};

static kvc_manager* m;
static kvc_step* s;
static uint64_t ids_[kRequests], length_[kRequests];
static uint64_t *frees_, *requests_, *committed_, *extend_, *admit_offsets_, cursor_;
static int32_t *extend_tokens_, *admit_tokens_, *rows_;

static void* array(int32_t which) {
  kvc_view view;
  OK(kvc_step_view(s, which, &view));
  return view.data;
}

static void run_step(uint64_t now) {
  const size_t leaver = now % kRequests;
  s->retired_step = s->step_id;
  s->num_frees = ids_[leaver] != 0;
  frees_[0] = ids_[leaver];
  ids_[leaver] = 0;
  size_t n = 0;
  for (size_t i = 0; i < kRequests; ++i) {
    if (ids_[i] == 0) continue;
    requests_[n] = ids_[i];
    committed_[n] = length_[i]++;
    extend_tokens_[n] = (int32_t)((now * 31 + i * 7) % 1000);
    rows_[n] = (int32_t)i;
    ++n;
    extend_[n] = n;
  }
  s->num_requests = n;
  s->num_admissions = 1;
  int32_t prompt[kPrompt];
  fill_tokens(prompt, kShared, now % 5); /* five system prompts, then something of its own */
  fill_tokens(prompt + kShared, kPrompt - kShared, 1000 + now);
  memcpy(admit_tokens_, prompt, sizeof prompt);
  admit_offsets_[1] = kPrompt;
  rows_[n] = (int32_t)leaver;
  OK(kvc_manager_step(m, s));
  for (size_t i = 0; i < s->num_frees + n + 1; ++i) CHECK_EQ(s->status[i], KVC_OK);
  ids_[leaver] = s->admitted[0];
  length_[leaver] = kPrompt;

  if (now % 16 != 0) return;
  static kvc_event events[4096];
  size_t count = 0;
  kvc_probe_info probe = {.struct_size = sizeof probe};
  OK(poll_events(m, &cursor_, events, sizeof *events, 4096, &count, NULL, 0));
  OK(kvc_manager_probe(m, PROMPT(0, prompt, kPrompt, NULL, 0), &probe));
  CHECK(stats(m).live_requests <= kRequests);
}

int main(void) {
  const kvc_allocator allocator = {.struct_size = sizeof allocator, .allocate = take, .release = give_back};
  const kvc_manager_config config = {.struct_size = sizeof config,
                                     .num_blocks = kBlocks,
                                     .vocab_size = 1000,
                                     .event_capacity = 4096,
                                     .allocator = &allocator};
  m = make_manager(&config);
  CHECK(own_calls_ > 0);
  const kvc_step_limits limits = {.struct_size = sizeof limits,
                                  .max_frees = 1,
                                  .max_requests = kRequests,
                                  .max_admissions = 1,
                                  .max_tokens = kRequests,
                                  .max_prompt_tokens = kPrompt,
                                  .max_rows = kRequests,
                                  .row_stride = kRowStride};
  OK(kvc_step_create(m, &limits, &s));
  frees_ = array(KVC_STEP_FREES), requests_ = array(KVC_STEP_REQUESTS),
  committed_ = array(KVC_STEP_COMMITTED);
  extend_ = array(KVC_STEP_EXTEND_OFFSETS), extend_tokens_ = array(KVC_STEP_EXTEND_TOKENS),
  rows_ = array(KVC_STEP_ROWS);
  admit_offsets_ = array(KVC_STEP_ADMIT_OFFSETS), admit_tokens_ = array(KVC_STEP_ADMIT_TOKENS);
#ifndef KVC_NO_INTERPOSITION
  kvc_manager* plain =
      small_manager(4); /* the library's own allocator is seen, or this test would see nothing */
  CHECK(libc_calls_ > own_calls_);
  kvc_manager_destroy(plain);
#endif

  uint64_t now = 0;
  for (; now < kWarmUp; ++now) run_step(now);
  const kvc_stats before = stats(m);
  const uint64_t own_before = own_calls_, libc_before = libc_calls_;
  for (; now < kWarmUp + kSteps; ++now) run_step(now);
  CHECK_EQ(own_calls_ - own_before, 0);
  CHECK_EQ(libc_calls_ - libc_before, 0);

  const kvc_stats after = stats(m);
  CHECK_EQ(after.metadata_bytes, before.metadata_bytes);
  CHECK_EQ(after.admissions - before.admissions, kSteps);
  CHECK_EQ(after.live_requests, kRequests);
  CHECK(after.evictions - before.evictions > kSteps); /* more than one block evicted in each step */
  CHECK(cursor_ > kSteps);
  CHECK(after.cached_tokens - before.cached_tokens == (uint64_t)kSteps * kShared);
  printf("%d steps, %" PRIu64 " evictions, no allocation\n", kSteps, after.evictions - before.evictions);
  kvc_step_destroy(s);
  end_manager(m);
  return 0;
}
