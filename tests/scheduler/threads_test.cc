// SPDX-License-Identifier: Apache-2.0
// Requests come and go from other threads while one plans.
#include <gtest/gtest.h>
#include <kvcache/manager.h>
#include <kvcache/request.h>
#include <kvcache/scheduler.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

TEST(SchedulerThreadsTest, RequestsComeAndGoWhileAnotherThreadPlans) {
  kvc_manager_config m = {};
  m.struct_size = sizeof m;
  m.num_blocks = 64, m.block_size = 4;
  kvc_manager* manager = nullptr;
  ASSERT_EQ(kvc_manager_create(&m, &manager), KVC_OK);
  kvc_scheduler_config config = {};
  config.struct_size = sizeof config;
  config.manager = manager;
  config.max_running = 8, config.max_tokens = 32;
  kvc_scheduler* s = nullptr;
  ASSERT_EQ(kvc_scheduler_create(&config, &s), KVC_OK);
  constexpr uint64_t kThreads = 3, kEach = 100;
  std::atomic<uint64_t> ended{0};
  const auto client = [&](uint64_t number) {
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < kEach; ++i) {
      std::vector<int32_t> tokens(5 + i % 20, static_cast<int32_t>(number));
      kvc_prompt prompt = {};
      prompt.struct_size = sizeof prompt;
      prompt.tokens = tokens.data(), prompt.num_tokens = tokens.size();
      kvc_schedule_job job = {};
      job.struct_size = sizeof job;
      job.prompt = &prompt;
      job.max_new_tokens = 1 + i % 7;
      uint64_t id = 0;
      ASSERT_EQ(kvc_scheduler_add(s, &job, &id), KVC_OK) << kvc_last_error();
      ids.push_back(id);
      kvc_scheduled_info info = {};
      info.struct_size = sizeof info;
      static_cast<void>(kvc_scheduler_request_info(s, ids[i / 2], &info));
      if (i % 5 == 0 && kvc_scheduler_abort(s, id) == KVC_OK) ++ended;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) threads.emplace_back(client, t + 1);
  while (ended < kThreads * kEach && !HasFailure()) {
    kvc_plan plan = {};
    plan.struct_size = sizeof plan;
    ASSERT_EQ(kvc_scheduler_plan(s, 0, &plan), KVC_OK) << kvc_last_error();
    ended += plan.num_ended;
    if (plan.num_items == 0) continue;
    std::vector<uint64_t> offsets{0};
    for (size_t i = 0; i < plan.num_items; ++i) offsets.push_back(offsets.back() + plan.samples[i]);
    const std::vector<int32_t> tokens(plan.num_items, 1);
    kvc_plan_result result = {};
    result.struct_size = sizeof result;
    result.plan_id = plan.plan_id, result.num_items = plan.num_items;
    result.token_offsets = offsets.data(), result.tokens = tokens.data();
    ASSERT_EQ(kvc_scheduler_finish(s, &result), KVC_OK) << kvc_last_error();
    ended += result.num_ended;
    ASSERT_EQ(kvc_scheduler_check(s), KVC_OK) << kvc_last_error();
  }
  for (std::thread& thread : threads) thread.join();
  kvc_scheduler_destroy(s);
  kvc_manager_destroy(manager);
}

}  // namespace
