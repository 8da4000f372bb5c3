// SPDX-License-Identifier: Apache-2.0
// Why a request waits: what the last plan has found.
#include "scheduler/engine.h"

namespace kvc::test {
namespace {

kvc_scheduled_info info_of(Engine& engine, uint64_t id) {
  kvc_scheduled_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_scheduler_request_info(engine.scheduler(), id, &info), KVC_OK) << kvc_last_error();
  return info;
}
uint32_t reason(Engine& engine, uint64_t id) { return info_of(engine, id).wait_reason; }

TEST(WaitReason, NobodyWhoRunsWaits) {
  Engine engine({});
  const uint64_t a = engine.add(prompt_of(8, 1));
  EXPECT_EQ(reason(engine, a), KVC_WAIT_TURN) << "no plan has seen it";
  engine.plan();
  EXPECT_EQ(reason(engine, a), KVC_WAIT_NONE);
}

TEST(WaitReason, RowsAndTokensOfAPlan) {
  EngineConfig config;
  config.scheduler.max_running = 2, config.scheduler.max_tokens = 16;
  Engine engine(config);
  const uint64_t a = engine.add(prompt_of(20, 1)), b = engine.add(prompt_of(4, 2)),
                 c = engine.add(prompt_of(4, 3));
  engine.plan();
  EXPECT_EQ(reason(engine, a), KVC_WAIT_NONE);
  EXPECT_EQ(reason(engine, b), KVC_WAIT_TURN) << "no tokens are left";
  engine.finish();
  engine.plan();
  EXPECT_EQ(reason(engine, b), KVC_WAIT_NONE);
  EXPECT_EQ(reason(engine, c), KVC_WAIT_TURN) << "no rows are left";
}

TEST(WaitReason, BlocksThatOthersHoldOrWillNeed) {
  EngineConfig config;
  config.num_blocks = 8;  // 32 tokens
  Engine space(config);
  space.add(prompt_of(20, 1), job_of(8));
  const uint64_t large = space.add(prompt_of(20, 2), job_of(8)), behind = space.add(prompt_of(4, 3));
  space.plan();
  EXPECT_EQ(reason(space, large), KVC_WAIT_SPACE);
  EXPECT_EQ(reason(space, behind), KVC_WAIT_TURN) << "the one before it comes first";
  config.scheduler.admission = KVC_ADMIT_WORST;
  Engine peak(config);
  peak.add(prompt_of(8, 1), job_of(20));
  const uint64_t grows = peak.add(prompt_of(4, 2), job_of(20));
  peak.plan();
  EXPECT_EQ(reason(peak, grows), KVC_WAIT_PEAK);
}

TEST(WaitReason, ThoseThatAreNotTriedBecauseARunningRequestLacksBlocks) {
  EngineConfig config;
  config.num_blocks = 12;  // 48 tokens
  Engine engine(config);
  engine.add(prompt_of(12, 1), job_of(20));
  const uint64_t b = engine.add(prompt_of(12, 2), job_of(20));
  uint64_t late = 0;
  while (engine.preemptions == 0) {
    if (late == 0) late = engine.add(prompt_of(40, 3));
    engine.plan();
    if (engine.preemptions == 0) engine.finish();
  }
  EXPECT_EQ(info_of(engine, b).state, KVC_SCHEDULED_WAITING);
  EXPECT_EQ(reason(engine, b), KVC_WAIT_SPACE);
  EXPECT_EQ(reason(engine, late), KVC_WAIT_SPACE);
  EXPECT_EQ(reason(engine, engine.add(prompt_of(4, 4))), KVC_WAIT_TURN) << "no plan has seen it";
}

TEST(WaitReason, PlansInFlightOfAPreemptedRequest) {
  EngineConfig config;
  config.num_blocks = 12;
  config.scheduler.max_plans = 2;
  Engine engine(config);
  engine.add(prompt_of(12, 1), job_of(20));
  const uint64_t b = engine.add(prompt_of(12, 2), job_of(20));
  engine.plan();
  while (engine.preemptions == 0) {
    engine.plan();
    if (engine.preemptions == 0) engine.finish();
  }
  EXPECT_EQ(reason(engine, b), KVC_WAIT_PLANS);
}

TEST(WaitReason, Pressure) {
  EngineConfig config;
  config.num_blocks = 20;
  config.scheduler.high_watermark = 0.5, config.scheduler.low_watermark = 0.3;
  Engine engine(config);
  engine.add(prompt_of(48, 1), job_of(12));
  engine.plan(), engine.finish();
  const uint64_t late = engine.add(prompt_of(4, 2));
  engine.plan();
  EXPECT_EQ(reason(engine, late), KVC_WAIT_PRESSURE);
  kvc_schedule_job job = job_of(4);
  const uint64_t added = engine.add(prompt_of(4, 3), job);
  job.flags = KVC_JOB_NOT_READY;
  const uint64_t ready = engine.add(prompt_of(4, 4), job);
  EXPECT_EQ(kvc_scheduler_set_ready(engine.scheduler(), ready), KVC_OK);
  EXPECT_EQ(reason(engine, added), KVC_WAIT_TURN) << "no plan has seen it";
  EXPECT_EQ(reason(engine, ready), KVC_WAIT_TURN) << "no plan has seen it";
  engine.finish(), engine.plan();
  EXPECT_EQ(reason(engine, added), KVC_WAIT_PRESSURE);
  EXPECT_EQ(reason(engine, ready), KVC_WAIT_PRESSURE);
}

TEST(WaitReason, TheQuotaOfANamespace) {
  EngineConfig config;
  config.quotas = 1;
  Engine engine(config);
  engine.set_quota(1, 0, 8);  // 32 tokens
  engine.add(prompt_of(20, 1), job_of(12), nullptr, 1);
  const uint64_t second = engine.add(prompt_of(20, 2), job_of(4), nullptr, 1),
                 third = engine.add(prompt_of(4, 3), job_of(4), nullptr, 1);
  const uint64_t other = engine.add(prompt_of(4, 4), job_of(4));
  engine.plan();
  EXPECT_EQ(reason(engine, second), KVC_WAIT_QUOTA);
  EXPECT_EQ(reason(engine, third), KVC_WAIT_QUOTA) << "it comes behind the second";
  EXPECT_EQ(reason(engine, other), KVC_WAIT_NONE);
}

TEST(WaitReason, AdaptersEncodersAndTheEngine) {
  EngineConfig config;
  config.scheduler.max_adapters = 1, config.scheduler.max_encoder_tokens = 8;
  Engine engine(config);
  kvc_schedule_job job = job_of(4);
  job.adapter = 1;
  engine.add(prompt_of(8, 1), job);
  job.adapter = 2;
  const uint64_t b = engine.add(prompt_of(8, 2), job);
  const kvc_encoder_input first[] = {{0, 6}};
  job = job_of(4);
  job.inputs = first, job.num_inputs = 1;
  engine.add(prompt_of(8, 3), job);
  const uint64_t d = engine.add(prompt_of(8, 4), job);
  job = job_of(4);
  job.flags = KVC_JOB_NOT_READY;
  const uint64_t e = engine.add(prompt_of(8, 5), job);
  engine.plan();
  EXPECT_EQ(reason(engine, b), KVC_WAIT_ADAPTER);
  EXPECT_EQ(reason(engine, d), KVC_WAIT_ENCODER);
  EXPECT_EQ(reason(engine, e), KVC_WAIT_READY);
}

TEST(WaitReason, TokensThatAnotherRequestComputes) {
  EngineConfig config;
  config.manager_flags = KVC_MANAGER_FILLS;
  Engine engine(config);
  kvc_request_config waits = {};
  waits.struct_size = sizeof waits;
  waits.wait_until_ns = 1000;
  engine.now = 1;
  engine.add(prompt_of(12, 1));
  const uint64_t b = engine.add(prompt_of(12, 1), job_of(8), &waits);
  engine.plan();
  EXPECT_EQ(reason(engine, b), KVC_WAIT_FILLING);
}

TEST(WaitReason, TheOffload) {
  EngineConfig config;
  config.offload = true;
  Engine engine(config);
  const uint64_t a = engine.add(prompt_of(40, 1));
  engine.plan();
  EXPECT_EQ(info_of(engine, a).state, KVC_SCHEDULED_LOADING);
  EXPECT_EQ(reason(engine, a), KVC_WAIT_LOAD);
  engine.run(1000000);
}

}  // namespace
}  // namespace kvc::test
