// SPDX-License-Identifier: Apache-2.0
// kvc_request_config.headroom: what admissions take by the lengths of ended requests, that appends within
// it never lack a block, and when it does not apply. Random sequences are compared with a model in
// tests/property.
#include <kvcache/external.h>
#include <kvcache/step.h>

#include "base/counting_heap.h"
#include "resize/scene.h"

namespace kvc::test {
namespace {

kvc_manager_config remembering(uint64_t num_blocks) {
  kvc_manager_config config = config_of(num_blocks);
  config.flags = KVC_MANAGER_HEADROOM;
  return config;
}

kvc_request_config with_headroom(uint32_t headroom) {
  kvc_request_config config = {};
  config.struct_size = sizeof config, config.headroom = headroom;
  return config;
}

// A request gets `count` tokens after its prompt of one block, and ends.
void generate(kvc_manager* m, size_t count) {
  const uint64_t request = allocate(m, prompt_of(5000, 1));
  const std::vector<int32_t> tokens = tokens_from(0, count);
  EXPECT_EQ(kvc_manager_append_tokens(m, request, tokens.data(), count), KVC_OK) << kvc_last_error();
  EXPECT_EQ(kvc_manager_free_request(m, request), KVC_OK);
}

uint64_t expected(kvc_manager* m, uint32_t headroom, uint64_t generated = 0) {
  uint64_t tokens = 77;
  EXPECT_EQ(kvc_manager_expected_tokens(m, headroom, generated, &tokens), KVC_OK) << kvc_last_error();
  return tokens;
}

uint64_t capacity_of(kvc_manager* m, uint64_t request) {
  kvc_request_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_manager_request_info(m, request, &info), KVC_OK);
  return info.capacity;
}

kvc_status append_one(kvc_manager* m, uint64_t request) {
  const int32_t token = 1;
  return kvc_manager_append_tokens(m, request, &token, 1);
}

TEST(Headroom, ExpectsWhatEndedRequestsGot) {
  const ManagerOf a(remembering(64));
  for (const uint32_t headroom : {0u, 1u, 2u, 3u}) EXPECT_EQ(expected(a.m, headroom), 0u);
  for (size_t count = 1; count <= 10; ++count) generate(a.m, count);
  EXPECT_EQ(expected(a.m, KVC_HEADROOM_NONE), 0u);
  EXPECT_EQ(expected(a.m, KVC_HEADROOM_MINIMAL), 5u);
  EXPECT_EQ(expected(a.m, KVC_HEADROOM_BALANCED), 8u);
  EXPECT_EQ(expected(a.m, KVC_HEADROOM_AGGRESSIVE), 10u);
  EXPECT_EQ(expected(a.m, KVC_HEADROOM_MINIMAL, 8), 1u) << "of 8, 9, 10";
  EXPECT_EQ(expected(a.m, KVC_HEADROOM_AGGRESSIVE, 11), 0u);
  // A waiting request that was never admitted says nothing; one that was preempted does.
  uint64_t waiting = 0;
  const std::vector<int32_t> prompt = prompt_of(0, 1);
  ASSERT_EQ(kvc_manager_create_request(a.m, PROMPT(0, prompt.data(), 4, nullptr, 0), nullptr, &waiting),
            KVC_OK);
  ASSERT_EQ(kvc_manager_append_tokens(a.m, waiting, prompt_of(0, 8).data(), 32), KVC_OK);
  ASSERT_EQ(kvc_manager_free_request(a.m, waiting), KVC_OK);
  EXPECT_EQ(expected(a.m, KVC_HEADROOM_AGGRESSIVE), 10u);
  const uint64_t preempted = allocate(a.m, prompt);
  ASSERT_EQ(kvc_manager_append_tokens(a.m, preempted, prompt_of(0, 3).data(), 12), KVC_OK);
  ASSERT_EQ(kvc_manager_preempt_request(a.m, preempted), KVC_OK);
  ASSERT_EQ(kvc_manager_free_request(a.m, preempted), KVC_OK);
  EXPECT_EQ(expected(a.m, KVC_HEADROOM_AGGRESSIVE), 12u);
}

TEST(Headroom, AppendsWithinItNeverFail) {
  for (const uint32_t headroom : {uint32_t{KVC_HEADROOM_NONE}, uint32_t{KVC_HEADROOM_AGGRESSIVE}}) {
    const ManagerOf a(remembering(16));
    generate(a.m, 12);
    const kvc_request_config config = with_headroom(headroom);
    const uint64_t request = allocate(a.m, prompt_of(0, 2), 0, &config);
    EXPECT_EQ(capacity_of(a.m, request), headroom == KVC_HEADROOM_NONE ? 8u : 20u);
    std::vector<int32_t> blocks(16);
    size_t taken = 0;
    while (kvc_manager_acquire_blocks(a.m, 0, &blocks[taken], 1) == KVC_OK) ++taken;  // all that is left
    EXPECT_EQ(taken, headroom == KVC_HEADROOM_NONE ? 14u : 11u);
    for (int i = 0; i < 12; ++i) {
      EXPECT_EQ(append_one(a.m, request), headroom == KVC_HEADROOM_NONE ? KVC_ERROR_NO_SPACE : KVC_OK) << i;
    }
    EXPECT_EQ(append_one(a.m, request), KVC_ERROR_NO_SPACE);
    EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
  }
}

TEST(Headroom, LookaheadAndChunksComeWithIt) {
  const ManagerOf a(remembering(64));
  generate(a.m, 8);
  kvc_request_config config = with_headroom(KVC_HEADROOM_MINIMAL);
  config.slots = 4, config.lookahead = 3;
  const std::vector<int32_t> prompt = prompt_of(0, 4);
  uint64_t request = 0;
  ASSERT_EQ(
      kvc_manager_allocate_request(a.m, PROMPT(0, prompt.data(), 16, nullptr, 0), &config, &request, nullptr),
      KVC_OK);
  EXPECT_EQ(capacity_of(a.m, request), 16u + 8 + 3);
  // A second admission counts what the request has got.
  ASSERT_EQ(kvc_manager_commit_tokens(a.m, request, 16), KVC_OK);
  for (int i = 0; i < 6; ++i) ASSERT_EQ(append_one(a.m, request), KVC_OK);
  ASSERT_EQ(kvc_manager_preempt_request(a.m, request), KVC_OK);
  ASSERT_EQ(kvc_manager_admit_request(a.m, request, nullptr), KVC_OK);
  EXPECT_EQ(capacity_of(a.m, request), 16u + 8 + 3);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(append_one(a.m, request), KVC_OK);
  EXPECT_EQ(capacity_of(a.m, request), 16u + 8 + 3);
}

TEST(Headroom, WithNothingExpectedItIsAsWithout) {
  const ManagerOf a(remembering(64));
  kvc_request_config config = with_headroom(KVC_HEADROOM_AGGRESSIVE);
  config.slots = 4;
  const std::vector<int32_t> prompt = prompt_of(0, 4);
  uint64_t request = 0;
  ASSERT_EQ(
      kvc_manager_allocate_request(a.m, PROMPT(0, prompt.data(), 16, nullptr, 0), &config, &request, nullptr),
      KVC_OK);
  EXPECT_EQ(capacity_of(a.m, request), 4u);
}

TEST(Headroom, WaitsForOthersButNotForNobody) {
  const ManagerOf a(remembering(8));
  generate(a.m, 28);
  const kvc_request_config config = with_headroom(KVC_HEADROOM_BALANCED);
  const std::vector<int32_t> prompt = prompt_of(0, 2);
  const uint64_t other = allocate(a.m, prompt_of(1000, 1));
  kvc_probe_info probe = {};
  probe.struct_size = sizeof probe;
  uint64_t request = 0;
  ASSERT_EQ(kvc_manager_create_request(a.m, PROMPT(0, prompt.data(), 8, nullptr, 0), &config, &request),
            KVC_OK);
  ASSERT_EQ(kvc_manager_probe_request(a.m, request, &probe), KVC_OK);
  EXPECT_EQ(probe.fits, 0u);
  EXPECT_EQ(probe.blocks_needed, 10u) << "for 8 tokens and 28, rounded up to 29";
  const uint64_t before = digest_of(a.m);
  EXPECT_EQ(kvc_manager_admit_request(a.m, request, nullptr), KVC_ERROR_NO_SPACE);
  EXPECT_EQ(digest_of(a.m), before);
  ASSERT_EQ(kvc_manager_free_request(a.m, other), KVC_OK);
  ASSERT_EQ(kvc_manager_probe_request(a.m, request, &probe), KVC_OK);
  EXPECT_EQ(probe.fits, 1u);
  EXPECT_EQ(kvc_manager_admit_request(a.m, request, nullptr), KVC_OK) << kvc_last_error();
  EXPECT_EQ(capacity_of(a.m, request), 8u);
}

TEST(Headroom, IsCutToARowAndToTheLongestRequest) {
  kvc_manager_config config = remembering(64);
  config.max_request_tokens = 30;
  const ManagerOf a(config);
  generate(a.m, 26);
  const kvc_request_config headroom = with_headroom(KVC_HEADROOM_AGGRESSIVE);
  EXPECT_EQ(capacity_of(a.m, allocate(a.m, prompt_of(0, 2), 0, &headroom)), 30u);
  const std::vector<int32_t> prompt = prompt_of(100, 2);
  const uint64_t offsets[2] = {0, 8};
  std::vector<int32_t> row(5, -1);
  std::vector<kvc_table_change> changes(5);
  uint64_t admitted = 0, hit = 0;
  kvc_status status = KVC_OK;
  kvc_step step = {};
  step.struct_size = sizeof step;
  step.num_admissions = 1, step.admit_offsets = offsets, step.admit_tokens = prompt.data();
  step.admit_configs = &headroom, step.admitted = &admitted, step.cached = &hit, step.status = &status;
  step.block_tables = row.data(), step.num_rows = 1, step.row_stride = 5;
  step.changes = changes.data(), step.change_capacity = 4;
  EXPECT_EQ(kvc_manager_step(a.m, &step), KVC_ERROR_BUFFER_TOO_SMALL);
  EXPECT_EQ(step.num_changes, 5u);
  step.change_capacity = 5;
  ASSERT_EQ(kvc_manager_step(a.m, &step), KVC_OK) << kvc_last_error();
  EXPECT_EQ(status, KVC_OK);
  EXPECT_EQ(step.num_changes, 5u);
  EXPECT_EQ(capacity_of(a.m, admitted), 20u);
  EXPECT_EQ(table_of(a.m, admitted), row);
}

TEST(Headroom, NeedsAManagerThatRemembers) {
  const ManagerOf a(config_of(16));
  const kvc_request_config config = with_headroom(KVC_HEADROOM_MINIMAL);
  const std::vector<int32_t> prompt = prompt_of(0, 1);
  uint64_t request = 77, tokens = 77;
  EXPECT_EQ(kvc_manager_create_request(a.m, PROMPT(0, prompt.data(), 4, nullptr, 0), &config, &request),
            KVC_ERROR_UNSUPPORTED);
  EXPECT_NE(std::string(kvc_last_error()).find("KVC_MANAGER_HEADROOM"), std::string::npos);
  EXPECT_EQ(kvc_manager_expected_tokens(a.m, KVC_HEADROOM_MINIMAL, 0, &tokens), KVC_ERROR_UNSUPPORTED);
  const ManagerOf b(remembering(16));
  const kvc_request_config wrong = with_headroom(4);
  EXPECT_EQ(kvc_manager_create_request(b.m, PROMPT(0, prompt.data(), 4, nullptr, 0), &wrong, &request),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("headroom is 4"), std::string::npos);
  EXPECT_EQ(kvc_manager_expected_tokens(b.m, 4, 0, &tokens), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_manager_expected_tokens(b.m, 1, 0, nullptr), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(request, 77u);
  EXPECT_EQ(tokens, 77u);
}

TEST(Headroom, WhatIsRememberedIsState) {
  const ManagerOf a(remembering(16)), b(remembering(16));
  for (kvc_manager* m : {a.m, b.m}) {
    generate(m, 4);
    ASSERT_EQ(kvc_manager_reset_all(m), KVC_OK);
    resize(m, 15);
    resize(m, 16);
  }
  EXPECT_EQ(digest_of(a.m), digest_of(b.m));
  generate(b.m, 4);
  ASSERT_EQ(kvc_manager_reset_all(b.m), KVC_OK);
  resize(b.m, 15);
  resize(b.m, 16);
  ASSERT_EQ(kvc_manager_reset_all(a.m), KVC_OK);
  EXPECT_NE(digest_of(a.m), digest_of(b.m));
}

// Each allocation fails in turn; the call then says so and has changed nothing.
TEST(Headroom, WithoutMemoryNothingChanges) {
  for (uint64_t after = 0;; ++after) {
    CountingHeap heap;
    ManagerOf a;
    kvc_manager_config config = remembering(20000);
    ASSERT_EQ(a.create(config, heap.env()), KVC_OK);
    for (int i = 0; i < 2; ++i) generate(a.m, 60000);
    const kvc_request_config headroom = with_headroom(KVC_HEADROOM_MINIMAL);
    const std::vector<int32_t> prompt = prompt_of(0, 2);
    uint64_t request = 0;
    ASSERT_EQ(kvc_manager_create_request(a.m, PROMPT(0, prompt.data(), 8, nullptr, 0), &headroom, &request),
              KVC_OK);
    const uint64_t before = digest_of(a.m);
    heap.fail_after(after);
    const kvc_status status = kvc_manager_admit_request(a.m, request, nullptr);
    const bool failed = heap.failures() != 0;
    heap.fail_after(CountingHeap::kNever);
    EXPECT_EQ(status, failed ? KVC_ERROR_OUT_OF_MEMORY : KVC_OK);
    if (!failed) break;
    EXPECT_EQ(digest_of(a.m), before);
    EXPECT_EQ(kvc_manager_check(a.m), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_manager_admit_request(a.m, request, nullptr), KVC_OK);
    ASSERT_LT(after, 10u);
  }
}

}  // namespace
}  // namespace kvc::test
