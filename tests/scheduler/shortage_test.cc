// SPDX-License-Identifier: Apache-2.0
// Who ends, who waits and who goes on when something else than running requests holds the blocks.
#include "scheduler/engine.h"

namespace kvc::test {
namespace {

// A waiting request is looked up in the tiers before it is known whether it is admitted. The blocks that its
// pages have come to are given back when a running request lacks them.
TEST(SchedulerShortageTest, LoadsOfWaitingRequestsEndBeforeARunningRequestDoes) {
  EngineConfig config;
  config.num_blocks = 16;  // 64 tokens
  config.offload = true;
  config.scheduler.admission = KVC_ADMIT_WORST;
  Engine engine(config);
  const uint64_t stored = engine.add(prompt_of(40, 1), job_of(2));
  engine.run();
  engine.add(prompt_of(60, 2), job_of(2));  // evicts it
  engine.run();
  const uint64_t fits = engine.add(prompt_of(12, 3), job_of(44));
  while (engine.plan() == 0) ASSERT_LT(++engine.now, 100u);  // it was looked up too
  engine.finish();
  const uint64_t waits = engine.add(engine.sequences().at(stored).tokens, job_of(4));
  engine.run();
  engine.check();
  EXPECT_EQ(engine.sequences().at(fits).reason, KVC_ENDED_LENGTH);
  EXPECT_EQ(engine.sequences().at(waits).reason, KVC_ENDED_LENGTH);
  EXPECT_EQ(engine.preemptions, 0u);
  kvc_offload_stats stats = {};
  stats.struct_size = sizeof stats;
  ASSERT_EQ(kvc_offload_read_stats(engine.offload(), &stats), KVC_OK);
  EXPECT_GT(stats.loaded_tokens, 0u) << "no load held blocks";
}

// Two requests are looked up while nothing runs. The loads of the second one hold what the first one needs.
TEST(SchedulerShortageTest, LoadsOfOthersEndBeforeAWaitingRequestDoes) {
  EngineConfig config;
  config.num_blocks = 16;
  config.offload = true;
  config.scheduler.admission = KVC_ADMIT_PROMPT;
  Engine engine(config);
  engine.add(prompt_of(40, 1), job_of(2));
  engine.run();
  engine.add(prompt_of(24, 2), job_of(2));
  engine.run();
  engine.add(prompt_of(60, 3), job_of(2));  // evicts them
  engine.run();
  std::vector<uint64_t> ids;
  for (const size_t size : {60u, 40u}) {
    std::vector<int32_t> prompt = prompt_of(size == 60 ? 40 : 24, size == 60 ? 1 : 2);
    prompt.resize(size, 9);
    ids.push_back(engine.add(prompt, job_of(2)));
  }
  engine.run();
  engine.check();
  for (const uint64_t id : ids) EXPECT_EQ(engine.sequences().at(id).reason, KVC_ENDED_LENGTH);
}

// A request that its namespace's quota can never hold ends, as one that the pool cannot hold does.
TEST(SchedulerShortageTest, ARequestLargerThanItsQuotaEndsAndStopsNobody) {
  EngineConfig config;
  config.num_blocks = 64;
  config.quotas = 1;
  config.scheduler.admission = KVC_ADMIT_PROMPT;
  config.scheduler.max_wait_ns = 5;
  Engine engine(config);
  engine.set_quota(0, 0, 4);
  const uint64_t large = engine.add(prompt_of(40, 1), job_of(2));
  for (int i = 0; i < 20; ++i) {
    if (engine.plan() != 0) engine.finish();
    ++engine.now;
  }
  const uint64_t small = engine.add(prompt_of(8, 2), job_of(2));
  engine.run(200);
  engine.check();
  EXPECT_EQ(engine.sequences().at(large).reason, KVC_ENDED_NO_SPACE);
  EXPECT_EQ(engine.sequences().at(small).reason, KVC_ENDED_LENGTH);
}

// Two lack blocks in the same plan. One can never get them and ends; the other one waits for its blocks.
TEST(SchedulerShortageTest, WhatEndsForGoodLeavesItsBlocksToTheOthers) {
  EngineConfig config;
  config.num_blocks = 10;
  config.block_size = 16;
  config.quotas = 1;
  config.scheduler.max_plans = 1;
  Engine engine(config);
  engine.set_quota(1, 0, 4);
  const uint64_t never = engine.add(prompt_of(60, 1), job_of(20), nullptr, 1);
  const uint64_t other = engine.add(prompt_of(92, 2), job_of(20));
  engine.run(200);
  engine.check();
  EXPECT_EQ(engine.sequences().at(never).reason, KVC_ENDED_NO_SPACE);
  EXPECT_EQ(engine.sequences().at(other).reason, KVC_ENDED_LENGTH);
  EXPECT_EQ(engine.preemptions, 0u);
}

// The prompt fills the pool. Its first token ends it, so it never needs the slot of its lookahead.
TEST(SchedulerShortageTest, ALookaheadThatNeverFitsDoesNotEndItsRequest) {
  EngineConfig config;
  config.num_blocks = 4;
  config.scheduler.max_plans = 2;
  config.scheduler.max_tokens = config.scheduler.max_chunk = 8;
  config.scheduler.max_request_tokens = 32;
  config.scheduler.max_running = 4;
  const std::vector<int32_t> prompt = prompt_of(16, 1);
  {
    EngineConfig large = config;
    large.num_blocks = 64;
    Engine engine(large);
    const uint64_t id = engine.add(prompt, job_of(4));
    engine.run();
    config.stop_token = engine.sequences().at(id).tokens.at(16);
  }
  Engine engine(config);
  const uint64_t fits = engine.add(prompt, job_of(4));
  const uint64_t never = engine.add(prompt_of(17, 2), job_of(4));
  engine.run(200);
  engine.check();
  EXPECT_EQ(engine.sequences().at(fits).reason, KVC_ENDED_STOPPED);
  EXPECT_EQ(engine.sequences().at(never).reason, KVC_ENDED_NO_SPACE);
  EXPECT_EQ(engine.sequences().at(never).first_plan, 0u) << "it was admitted";
}

}  // namespace
}  // namespace kvc::test
