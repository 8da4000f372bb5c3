/* SPDX-License-Identifier: Apache-2.0 */
/* Keys that come after a request's first tokens: what is appended under them is found by those alone that ask
 * with them. Whether they come with the prompt or later, in one call or several, is no part of an identity.
 */
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include "check.h"

enum { kText = 8, kImage = 6, kAll = 24 }; /* blocks of 4 */

static kvc_manager* m;
static int32_t tokens_[kAll + 1];
static const kvc_extra_key image_ = {.first_token = kText, .num_tokens = kImage, .digest = {7}};
static const kvc_extra_key sound_ = {.first_token = kText + 2, .num_tokens = 10, .digest = {8}};

static uint64_t hit(const kvc_extra_key* keys, size_t num_keys) {
  kvc_probe_info info = {.struct_size = sizeof info};
  OK(kvc_manager_probe(m, PROMPT(0, tokens_, kAll + 1, keys, num_keys), &info));
  return info.num_cached;
}

static void begin(void) {
  const kvc_manager_config config = small_config(64);
  m = make_manager(&config);
  for (int i = 0; i <= kAll; ++i) tokens_[i] = i < kText ? i : 500;
}

static uint64_t session(void) {
  const uint64_t id = allocate(m, tokens_, kText, 0);
  OK(kvc_manager_commit_tokens(m, id, kText));
  return id;
}

static void test_a_session(void) {
  begin();
  const kvc_extra_key both[] = {sound_, image_};
  const uint64_t id = session();
  OK(kvc_manager_add_keys(m, id, &image_, 1));
  OK(kvc_manager_append_tokens(m, id, tokens_ + kText, 1)); /* known, and not written */
  OK(kvc_manager_add_keys(m, id, both, 2));                 /* one of them again */
  OK(kvc_manager_append_tokens(m, id, tokens_ + kText + 1, kAll - kText - 1));
  OK(kvc_manager_commit_tokens(m, id, kAll));
  CHECK_EQ(hit(NULL, 0), kText);
  CHECK_EQ(hit(&image_, 1), kText);
  CHECK_EQ(hit(both, 2), kAll);

  /* A prompt of the same, and one that waits and gets its keys later, are the same to the byte. */
  uint64_t other = 0, cached = 0;
  OK(kvc_manager_create_request(m, PROMPT(0, tokens_, kAll + 1, both, 2), NULL, &other));
  const uint64_t with_prompt = digest(m);
  OK(kvc_manager_free_request(m, other));
  OK(kvc_manager_create_request(m, PROMPT(0, tokens_, kAll + 1, NULL, 0), NULL, &other));
  OK(kvc_manager_add_keys(m, other, both, 1));
  OK(kvc_manager_add_keys(m, other, both + 1, 1));
  CHECK_EQ(digest(m), with_prompt);
  OK(kvc_manager_admit_request(m, other, &cached));
  CHECK_EQ(cached, kAll);
  OK(kvc_manager_check(m));

  /* Not over what is there, except for what it has already. */
  kvc_extra_key late = {.first_token = kAll - 1, .num_tokens = 4, .digest = {9}};
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_add_keys(m, id, &late, 1), "token 23",
                 "token 24");
  OK(kvc_manager_add_keys(m, id, both, 2));
  late.num_tokens = 0;
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_add_keys(m, id, &late, 1));
  late.first_token = UINT64_MAX, late.num_tokens = 2;
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_add_keys(m, id, &late, 1));
  REFUSED(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_add_keys(m, id, NULL, 1));
  OK(kvc_manager_add_keys(m, id, NULL, 0));
  kvc_extra_key many[KVC_MAX_KEYS_OF_TOKEN + 1];
  for (int i = 0; i <= KVC_MAX_KEYS_OF_TOKEN; ++i)
    many[i] = (kvc_extra_key){.first_token = kAll + 1, .num_tokens = 1, .digest = {(uint8_t)i}};
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_add_keys(m, id, many, KVC_MAX_KEYS_OF_TOKEN + 1), "token 25",
                 "16");
  OK(kvc_manager_add_keys(m, id, many, KVC_MAX_KEYS_OF_TOKEN));
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_add_keys(m, id, many + KVC_MAX_KEYS_OF_TOKEN, 1), "token 25",
                 "16");
  /* The library's own digest of a cut is no way around the limit. */
  for (int i = 0; i <= KVC_MAX_KEYS_OF_TOKEN; ++i) {
    many[i] = (kvc_extra_key){.first_token = kAll + 2, .num_tokens = (uint64_t)i + 2};
    memcpy(many[i].digest, "kvcache: a key's span was cut", 29);
  }
  REFUSED_SAYING(m, KVC_ERROR_LIMIT, kvc_manager_add_keys(m, id, many, KVC_MAX_KEYS_OF_TOKEN + 1), "token 26",
                 "16");
  end_manager(m);
}

/* Tokens that are transferred are called what they were called at the admission. */
static void test_transfers(void) {
  begin();
  uint64_t id = 0;
  const kvc_request_config config = {.struct_size = sizeof config, .external_tokens = 8};
  OK(kvc_manager_allocate_request(m, PROMPT(0, tokens_, kAll, NULL, 0), &config, &id, NULL));
  kvc_extra_key key = {.first_token = 7, .num_tokens = 2, .digest = {1}};
  REFUSED_SAYING(m, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_add_keys(m, id, &key, 1), "token 7", "first 8");
  key.first_token = 8;
  OK(kvc_manager_add_keys(m, id, &key, 1));
  end_manager(m);
}

/* A step brings the tokens: extended, or known after they were computed. */
static void test_steps(int known_later) {
  begin();
  uint64_t id = session(), committed = kText, offsets[2] = {0, kAll - kText}, none[2] = {0, 0};
  OK(kvc_manager_add_keys(m, id, &image_, 1));
  kvc_status status = KVC_OK;
  kvc_step step = {.struct_size = sizeof step, .num_requests = 1, .requests = &id, .status = &status};
  step.extend_offsets = offsets, step.extend_tokens = known_later ? NULL : tokens_ + kText;
  OK(kvc_manager_step(m, &step));
  OK(status);
  committed = kAll;
  step.retired_step = step.step_id, step.committed = &committed, step.extend_offsets = none;
  step.commit_offsets = known_later ? offsets : none, step.commit_tokens = tokens_ + kText;
  OK(kvc_manager_step(m, &step));
  OK(status);
  CHECK_EQ(hit(NULL, 0), kText);
  CHECK_EQ(hit(&image_, 1), kAll);
  end_manager(m);
}

/* A cut below a key drops it. A cut inside one leaves it where it is, and what comes behind is no part of it.
 */
static void test_cuts(int waits) {
  for (uint64_t at = kText; at <= kText + kImage; ++at) {
    begin();
    const uint64_t id = session();
    OK(kvc_manager_add_keys(m, id, &image_, 1));
    OK(kvc_manager_append_tokens(m, id, tokens_ + kText, kImage));
    OK(kvc_manager_commit_tokens(m, id, at / 4 * 4));
    if (waits) OK(kvc_manager_preempt_request(m, id));
    OK(kvc_manager_truncate_request(m, id, at));
    if (waits) OK(kvc_manager_admit_request(m, id, NULL));
    OK(kvc_manager_append_tokens(m, id, tokens_ + at, kAll - at));
    OK(kvc_manager_commit_tokens(m, id, kAll));
    CHECK_EQ(hit(NULL, 0), at == kText ? kAll : kText);
    CHECK_EQ(hit(&image_, 1), at == kText + kImage ? kAll : kText);
    OK(kvc_manager_check(m));
    end_manager(m);
  }
}

/* A fork of a request inside a key does not continue it. */
static void test_forks(void) {
  begin();
  const uint64_t id = session();
  uint64_t child = 0;
  OK(kvc_manager_add_keys(m, id, &image_, 1));
  OK(kvc_manager_append_tokens(m, id, tokens_ + kText, kAll - kText));
  OK(kvc_manager_commit_tokens(m, id, kText + 4));
  OK(kvc_manager_fork_request(m, id, &child));
  OK(kvc_manager_append_tokens(m, child, tokens_ + kText + 4, kAll - kText - 4));
  OK(kvc_manager_commit_tokens(m, child, kAll));
  CHECK_EQ(hit(NULL, 0), kText);
  CHECK_EQ(hit(&image_, 1), kText);
  OK(kvc_manager_commit_tokens(m, id, kAll));
  CHECK_EQ(hit(&image_, 1), kAll);
  end_manager(m);
}

int main(void) {
  test_a_session();
  test_steps(0);
  test_steps(1);
  test_transfers();
  test_cuts(0);
  test_cuts(1);
  test_forks();
  return 0;
}
