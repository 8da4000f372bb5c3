// SPDX-License-Identifier: Apache-2.0
// A step that is retired by one thread while another is still carrying it out: nothing waits for it any more,
// but its blocks stay where they are until it has ended.
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/prefix.h>
#include <kvcache/step.h>

#include <numeric>
#include <thread>
#include <vector>

#include "calls.h"

namespace {

template <class T>
T sized() {
  T value = {};
  value.struct_size = sizeof value;
  return value;
}

// A step that makes a copy and then, without the lock, hashes a prompt so long that others get in.
struct LongStep {
  static constexpr uint32_t kBlock = 16;

  LongStep() : prompt(size_t{1} << 21) {
    auto config = sized<kvc_manager_config>();
    config.num_blocks = 16, config.block_size = kBlock;
    EXPECT_EQ(kvc_manager_create(&config, &m), KVC_OK) << kvc_last_error();
    std::iota(prompt.begin(), prompt.end(), 0);
    const uint64_t below = allocate(4 * kBlock);
    request = allocate(2 * kBlock + 1);
    size_t evicted = 0;
    EXPECT_EQ(kvc_manager_fork_request(m, request, &child), KVC_OK);
    EXPECT_EQ(kvc_manager_free_request(m, below), KVC_OK);
    EXPECT_EQ(kvc_manager_evict_blocks(m, -1, 16, &evicted),
              KVC_OK);  // compaction would move the request down
    step.num_requests = step.num_admissions = step.copy_capacity = step.slot_capacity = 1;
    step.requests = &child, step.extend_offsets = extend_offsets, step.extend_tokens = prompt.data();
    step.admit_offsets = admit_offsets, step.admit_tokens = prompt.data();
    step.status = status, step.admitted = &admitted, step.cached = &cached, step.copies = &copy;
    admit_offsets[1] = prompt.size();
  }
  ~LongStep() { kvc_manager_destroy(m); }
  LongStep(const LongStep&) = delete;

  uint64_t allocate(size_t tokens) {
    uint64_t id = 0;
    EXPECT_EQ(
        kvc_manager_allocate_request(m, PROMPT(0, prompt.data(), tokens, nullptr, 0), nullptr, &id, nullptr),
        KVC_OK);
    EXPECT_EQ(kvc_manager_commit_tokens(m, id, tokens), KVC_OK);
    return id;
  }
  kvc_status compact() {
    kvc_block_copy moves[16];
    size_t count = 0;
    return kvc_manager_compact(m, 0, moves, 16, &count);
  }

  kvc_manager* m = nullptr;
  std::vector<int32_t> prompt;
  uint64_t request = 0, child = 0, admitted = 0, cached = 0;
  const uint64_t extend_offsets[2] = {0, 1};
  uint64_t admit_offsets[2] = {0, 0};
  kvc_status status[2] = {-1, -1};
  kvc_block_copy copy = {-1, -1};
  kvc_step step = sized<kvc_step>();
};

TEST(StepThreads, ARetiredStepKeepsItsBlocksInPlaceUntilItHasEnded) {
  bool caught = false;
  for (int i = 0; i < 100 && !caught; ++i) {  // until the step is still under way when it is retired
    LongStep s;
    std::thread other([&] { EXPECT_EQ(kvc_manager_step(s.m, &s.step), KVC_OK) << kvc_last_error(); });
    while (kvc_manager_retire_step(s.m, 1) != KVC_OK) std::this_thread::yield();
    caught = s.compact() == KVC_ERROR_BUSY;
    other.join();
    EXPECT_EQ(s.status[0], KVC_OK);
    EXPECT_EQ(s.status[1], KVC_ERROR_NEVER_FITS) << "its prompt is larger than the pool";
    ASSERT_EQ(s.step.num_copies, 1u);
    int32_t row[3];
    ASSERT_EQ(kvc_manager_export_tables(s.m, &s.request, 1, 0, -1, row, 3), KVC_OK);
    EXPECT_EQ(row[2] == s.copy.source, caught);
    auto stats = sized<kvc_stats>();
    ASSERT_EQ(kvc_manager_read_stats(s.m, &stats), KVC_OK);
    EXPECT_EQ(stats.blocks_fenced, 0u) << "its kernels were said to have finished";
    EXPECT_EQ(s.compact(), KVC_OK) << kvc_last_error();
    EXPECT_EQ(kvc_manager_check(s.m), KVC_OK) << kvc_last_error();
  }
  EXPECT_TRUE(caught) << "it was never refused";
}

}  // namespace
