/* SPDX-License-Identifier: Apache-2.0 */
/* What the C programs of this folder share: checks that end the program with a line number, small managers,
 * questions with their answers as values, and REFUSED, the test of a call that must fail and change nothing.
 * Pure C11. */
#ifndef KVC_TESTS_C_API_CHECK_H
#define KVC_TESTS_C_API_CHECK_H

#include <inttypes.h>
#include <kvcache/manager.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../calls.h"

/* Put into out-parameters before a call that must leave them alone. */
#define POISON 0xa5a5a5a5a5a5a5a5u
#define POISON_BYTE 0xa5

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))
#define CHECK_EQ(actual, expected) \
  check_equal((int64_t)(actual), (int64_t)(expected), #actual " == " #expected, __FILE__, __LINE__)
#define EXPECT(status, call) check_status((status), (call), #call, __FILE__, __LINE__)
#define OK(call) EXPECT(KVC_OK, call)

/* The call fails with `status`, leaves the state of `m` as it was, and says why in a new error text. */
#define REFUSED(m, status, call) REFUSED_SAYING(m, status, call, "", "")
/* The same, and the text names the offending value and the limit. */
#define REFUSED_SAYING(m, status, call, value, limit)        \
  do {                                                       \
    const uint64_t digest_before = digest(m);                \
    set_marker_error(m);                                     \
    EXPECT(status, call);                                    \
    CHECK_EQ(digest(m), digest_before);                      \
    check_text((value), (limit), #call, __FILE__, __LINE__); \
  } while (0)

static inline void check_failed(const char* file, int line, const char* what) {
  fprintf(stderr, "%s:%d: failed: %s\n", file, line, what);
  exit(1);
}

static inline void check_equal(int64_t actual, int64_t expected, const char* what, const char* file,
                               int line) {
  if (actual == expected) return;
  fprintf(stderr, "%s:%d: failed: %s: %" PRId64 " is not %" PRId64 "\n", file, line, what, actual, expected);
  exit(1);
}

static inline void check_status(kvc_status expected, kvc_status actual, const char* what, const char* file,
                                int line) {
  if (actual == expected) return;
  fprintf(stderr, "%s:%d: failed: %s\n  returned %s (\"%s\"), expected %s\n", file, line, what,
          kvc_status_name(actual), kvc_last_error(), kvc_status_name(expected));
  exit(1);
}

static inline void check_text(const char* value, const char* limit, const char* what, const char* file,
                              int line) {
  const char* text = kvc_last_error();
  if (*text != '\0' && strstr(text, "31337") == NULL && strstr(text, value) != NULL &&
      strstr(text, limit) != NULL)
    return;
  fprintf(stderr,
          "%s:%d: failed: %s\n  its error text is \"%s\"; it must be its own and name \"%s\" and \"%s\"\n",
          file, line, what, text, value, limit);
  exit(1);
}

/* Leaves a text that no call under test writes, so that one which forgets its own is found out. */
static inline void set_marker_error(kvc_manager* m) {
  kvc_block_info info = {.struct_size = sizeof info};
  check_status(KVC_ERROR_INVALID_ARGUMENT, kvc_manager_block_info(m, -31337, &info), "marker", __FILE__,
               __LINE__);
}

static inline uint64_t digest(kvc_manager* m) {
  uint64_t value = 0;
  OK(kvc_manager_digest(m, &value));
  return value;
}

static inline kvc_stats stats(kvc_manager* m) {
  kvc_stats value = {.struct_size = sizeof value};
  OK(kvc_manager_read_stats(m, &value));
  return value;
}

static inline kvc_request_info request_info(kvc_manager* m, uint64_t request) {
  kvc_request_info value = {.struct_size = sizeof value};
  OK(kvc_manager_request_info(m, request, &value));
  return value;
}

static inline kvc_block_info block_info(kvc_manager* m, int32_t block) {
  kvc_block_info value = {.struct_size = sizeof value};
  OK(kvc_manager_block_info(m, block, &value));
  return value;
}

/* Blocks of 4 tokens, token ids below 1000, requests of at most 4096 tokens. */
static inline kvc_manager_config small_config(uint64_t num_blocks) {
  return (kvc_manager_config){.struct_size = sizeof(kvc_manager_config),
                              .num_blocks = num_blocks,
                              .block_size = 4,
                              .vocab_size = 1000,
                              .max_request_tokens = 4096,
                              .max_requests = 64};
}

static inline kvc_manager* make_manager(const kvc_manager_config* config) {
  kvc_manager* m = NULL;
  OK(kvc_manager_create(config, &m));
  CHECK(m != NULL);
  return m;
}

static inline kvc_manager* small_manager(uint64_t num_blocks) {
  const kvc_manager_config config = small_config(num_blocks);
  return make_manager(&config);
}

/* Every invariant holds, and it goes. */
static inline void end_manager(kvc_manager* m) {
  OK(kvc_manager_check(m));
  kvc_manager_destroy(m);
}

/* Token ids below 1000; equal seeds give equal tokens, others differ. */
static inline void fill_tokens(int32_t* tokens, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; ++i) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + i + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    tokens[i] = (int32_t)((x ^ (x >> 31)) % 1000);
  }
}

static inline uint64_t allocate(kvc_manager* m, const int32_t* tokens, size_t count,
                                uint64_t expected_cached) {
  uint64_t request = 0, cached = POISON;
  OK(kvc_manager_allocate_request(m, PROMPT(0, tokens, count, NULL, 0), NULL, &request, &cached));
  CHECK(request != 0);
  CHECK_EQ(cached, expected_cached);
  return request;
}

/* Admits a prompt, commits all of it and frees it: its full blocks stay cached. */
static inline void cache_prompt(kvc_manager* m, const int32_t* tokens, size_t count,
                                uint64_t expected_cached) {
  const uint64_t request = allocate(m, tokens, count, expected_cached);
  OK(kvc_manager_commit_tokens(m, request, count));
  OK(kvc_manager_free_request(m, request));
}

#endif /* KVC_TESTS_C_API_CHECK_H */
