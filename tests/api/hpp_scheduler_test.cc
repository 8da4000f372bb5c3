// SPDX-License-Identifier: Apache-2.0
// kvcache/scheduler.hpp: an engine's loop over requests that share prefixes in a small pool computes every
// token of every prompt; owners move and end once, errors carry status and text.
#include <gtest/gtest.h>

#include <cstring>
#include <kvcache.hpp>
#include <map>
#include <vector>

namespace {

struct Progress {
  size_t prompt, written = 0, generated = 0;
};

std::vector<int32_t> prompt_of(int32_t i) {
  std::vector<int32_t> prompt(static_cast<size_t>(20 + i));
  for (size_t t = 0; t < prompt.size(); ++t)
    prompt[t] = t < 16 ? static_cast<int32_t>(t) : i * 100 + static_cast<int32_t>(t);
  return prompt;
}

TEST(HppScheduler, RunsAnEngineInASmallPool) {
  kvc::Manager manager(24, 4);
  auto config = kvc::Scheduler::config(manager.get());
  config.max_running = 6, config.max_tokens = 16;
  kvc::Scheduler first(config);
  kvc::Scheduler scheduler = std::move(first);
  EXPECT_EQ(first.get(), nullptr);
  std::map<uint64_t, Progress> live;
  for (int32_t i = 0; i < 20; ++i) {
    const auto prompt = prompt_of(i);
    live.emplace(scheduler.add(kvc::ScheduleJob(kvc::Prompt(prompt).get(), 9)), Progress{prompt.size()});
  }
  std::vector<kvc_ended_request> room(config.max_running);
  size_t preempted = 0;
  for (int round = 0; !live.empty(); ++round) {
    ASSERT_LT(round, 2000);
    const kvc_plan plan = scheduler.plan();
    ASSERT_GT(plan.num_items, 0u);
    EXPECT_LE(plan.num_tokens, config.max_tokens);
    for (size_t i = 0; i < plan.num_preempted; ++i) live.at(plan.preempted[i]).written = 0;
    preempted += plan.num_preempted;
    std::vector<uint64_t> offsets = {0};
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < plan.num_items; ++i) {
      Progress& seen = live.at(plan.requests[i]);
      if (plan.is_new[i] == 0) {
        EXPECT_EQ(plan.first_tokens[i], seen.written) << "no token is left out";
      }
      seen.written = plan.first_tokens[i] + plan.token_offsets[i + 1] - plan.token_offsets[i];
      EXPECT_EQ(plan.samples[i] != 0, seen.written == seen.prompt + seen.generated);
      if (plan.samples[i] != 0) ++seen.generated, tokens.push_back(7);
      offsets.push_back(tokens.size());
    }
    ASSERT_EQ(plan.num_rows, config.max_running);
    const auto result =
        round % 2 == 0 ? kvc::PlanResult(plan, offsets, tokens) : kvc::PlanResult(plan, tokens);
    for (const kvc_ended_request& end : scheduler.finish(result, room)) {
      EXPECT_EQ(end.reason, KVC_ENDED_LENGTH);
      EXPECT_EQ(live.at(end.request).generated, 9u);
      live.erase(end.request);
    }
    scheduler.check();
  }
  EXPECT_GT(preempted, 0u);
  EXPECT_EQ(scheduler.stats().ended, 20u);
  EXPECT_GT(scheduler.stats().cached_tokens, 0u);
}

TEST(HppScheduler, SetsStatesAndThrowsErrors) {
  kvc::Manager manager(24, 4);
  auto config = kvc::Scheduler::config(manager.get());
  config.max_tenants = 2, config.max_drafts = 2;
  kvc::Scheduler scheduler(config);
  EXPECT_THROW(kvc::Scheduler second(config), kvc::Error);
  const auto tokens = prompt_of(0);
  const kvc::Prompt prompt(tokens);
  kvc::ScheduleJob job(prompt.get(), 5);
  job.flags = KVC_JOB_NOT_READY, job.tenant = 1;
  const uint64_t id = scheduler.add(job);
  EXPECT_EQ(scheduler.info(id).state, uint32_t{KVC_SCHEDULED_NOT_READY});
  EXPECT_EQ(scheduler.plan().num_items, 0u);
  scheduler.set_ready(id);
  scheduler.set_priority(id, -3);
  scheduler.set_weight(1, 2.0);
  EXPECT_EQ(scheduler.info(id).priority, -3);
  const kvc_plan plan = scheduler.plan();
  ASSERT_EQ(plan.num_items, 1u);
  try {
    scheduler.finish(kvc::PlanResult(plan, std::vector<uint64_t>{0, 0}, {}));
    FAIL() << "no error";
  } catch (const kvc::Error& error) {
    EXPECT_EQ(error.status(), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(error.what(), "item 0 brings 0 tokens"), nullptr) << error.what();
  }
  scheduler.finish(kvc::PlanResult::failed(plan));
  EXPECT_THROW(scheduler.finish(kvc::PlanResult::failed(plan)), kvc::Error);
  const kvc_plan again = scheduler.plan();
  EXPECT_EQ(again.num_tokens, tokens.size());
  scheduler.finish(kvc::PlanResult(again, std::vector<uint64_t>{0, 1}, std::vector<int32_t>{3}));
  const std::vector<uint64_t> ids = {id};
  const std::vector<uint32_t> drafts = {2};
  scheduler.set_drafts(ids, drafts);
  const kvc_plan drafted = scheduler.plan();
  EXPECT_EQ(drafted.num_drafts[0], 2u);
  const uint8_t stopped[] = {1};
  kvc_ended_request room[1];
  const auto ends = scheduler.finish(
      kvc::PlanResult(drafted, std::vector<uint64_t>{0, 2}, std::vector<int32_t>{1, 2}, stopped), room);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].reason, uint32_t{KVC_ENDED_STOPPED});
  EXPECT_EQ(ends[0].num_new_tokens, 3u);
  EXPECT_FALSE(scheduler.abort(id));
  EXPECT_TRUE(scheduler.abort(scheduler.add(kvc::ScheduleJob(prompt.get(), 1))));
}

}  // namespace
