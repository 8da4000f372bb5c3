// SPDX-License-Identifier: Apache-2.0
// Every input of the encoder is encoded, wherever chunks end. engine.h holds each plan against that.
#include "scheduler/engine.h"

namespace kvc::test {
namespace {

TEST(SchedulerEncoderTest, AnInputOfOnlyTheLastTokenIsEncoded) {
  for (const uint32_t chunk : {0u, 3u, 9u}) {
    EngineConfig config;
    config.scheduler.max_chunk = chunk, config.scheduler.max_encoder_tokens = 4;
    Engine engine(config);
    const kvc_encoder_input inputs[] = {{2, 4}, {9, 1}};
    kvc_schedule_job job = {};
    job.inputs = inputs, job.num_inputs = 2;
    const uint64_t id = engine.add(std::vector<int32_t>(10, 7), job);
    engine.run();
    EXPECT_EQ(engine.sequences().at(id).encoded.size(), 2u) << "max_chunk " << chunk;
    engine.check();
  }
}

// In any order, over each other; what a hit has passed is not needed, also inside a longer one.
TEST(SchedulerEncoderTest, InputsMayOverlapInAnyOrder) {
  for (const uint32_t chunk : {0u, 1u, 7u}) {
    for (const uint64_t most : {0u, 5u, 40u}) {
      EngineConfig config;
      config.scheduler.max_chunk = chunk, config.scheduler.max_encoder_tokens = most;
      Engine engine(config);
      const kvc_encoder_input inputs[] = {{20, 20}, {2, 30}, {20, 20}, {4, 3}, {20, 1}, {39, 1}};
      for (const size_t needed : {6u, 3u}) {
        kvc_schedule_job job = job_of(1);
        job.inputs = inputs, job.num_inputs = 6;
        const uint64_t id = engine.add(prompt_of(40, 1), job);
        engine.run();
        EXPECT_EQ(engine.sequences().at(id).encoded.size(), needed) << "chunk " << chunk << " most " << most;
        engine.check();
      }
    }
  }
}

TEST(SchedulerEncoderTest, AtMostSixteenInputsLieOverAToken) {
  EngineConfig config;
  Engine engine(config);
  std::vector<kvc_encoder_input> inputs;
  for (uint64_t i = 0; i < KVC_MAX_KEYS_OF_TOKEN; ++i) inputs.push_back({16 - i, i + 4});
  const std::vector<int32_t> tokens(40, 7);
  kvc_prompt prompt = {};
  prompt.struct_size = sizeof prompt, prompt.tokens = tokens.data(), prompt.num_tokens = tokens.size();
  kvc_schedule_job job = job_of(1);
  job.struct_size = sizeof job, job.prompt = &prompt, job.max_new_tokens = 1;
  uint64_t id = 0;
  for (const kvc_status answer : {KVC_OK, KVC_ERROR_LIMIT}) {
    job.inputs = inputs.data(), job.num_inputs = inputs.size();
    EXPECT_EQ(kvc_scheduler_add(engine.scheduler(), &job, &id), answer) << kvc_last_error();
    if (answer == KVC_OK) {
      EXPECT_EQ(kvc_scheduler_abort(engine.scheduler(), id), KVC_OK);
    }
    inputs.push_back({16, 1});
  }
  EXPECT_STREQ(kvc_last_error(), "more than 16 inputs cover token 16 of the prompt; merge some into one");
}

// A chunk that is cut before a token takes none of the inputs that begin there, though some would fit.
TEST(SchedulerEncoderTest, WhatBeginsBehindAChunkWaits) {
  EngineConfig config;
  config.scheduler.max_running = config.scheduler.max_tokens = 2, config.scheduler.max_encoder_tokens = 48;
  Engine engine(config);
  std::vector<kvc_encoder_input> inputs(KVC_MAX_KEYS_OF_TOKEN, {0, 1});
  const std::vector<kvc_encoder_input> others = inputs;
  inputs.insert(inputs.end(), KVC_MAX_KEYS_OF_TOKEN - 1, {1, 1});
  inputs.push_back({1, 18});
  kvc_schedule_job first = job_of(1), second = job_of(1);
  first.inputs = inputs.data(), first.num_inputs = inputs.size();
  second.inputs = others.data(), second.num_inputs = others.size();
  const uint64_t a = engine.add(prompt_of(20, 1), first), b = engine.add(prompt_of(20, 2), second);
  engine.plan();
  EXPECT_EQ(engine.sequences().at(a).encoded.size(), others.size()) << "of the first token";
  EXPECT_EQ(engine.sequences().at(b).encoded.size(), others.size());
  engine.finish();
  engine.run();
  EXPECT_EQ(engine.sequences().at(a).encoded.size(), inputs.size());
  EXPECT_EQ(engine.sequences().at(b).encoded.size(), others.size());
  engine.check();
}

// A plan that computes the last token alone has failed: it is encoded once more.
TEST(SchedulerEncoderTest, TheLastTokenIsEncodedAgainAfterAPlanThatFailed) {
  EngineConfig config;
  config.scheduler.max_chunk = 9;
  Engine engine(config);
  const kvc_encoder_input input = {9, 1};
  kvc_schedule_job job = {};
  job.inputs = &input, job.num_inputs = 1;
  engine.add(std::vector<int32_t>(10, 7), job);
  engine.plan(), engine.finish();
  engine.plan(), engine.finish(true);
  engine.run();
  engine.check();
}

// A request of 43 tokens over a pool that has cached 34 of them, the last two in a block to copy. There is no
// room for its whole prompt and that copy, but for its first chunk: so its hit is longer than a probe says.
uint64_t add_with_longer_hit(Engine& engine, const kvc_encoder_input& input) {
  std::vector<int32_t> prompt = prompt_of(43, 1);
  prompt[34] = (prompt[34] + 1) % 50;
  kvc_schedule_job job = job_of(1);
  job.inputs = &input, job.num_inputs = 1;
  return engine.add(prompt, job);
}
EngineConfig short_of_blocks(uint64_t num_blocks) {
  EngineConfig config;
  config.num_blocks = num_blocks;
  config.manager_flags = KVC_MANAGER_PARTIAL_REUSE;
  config.scheduler.max_chunk = 4, config.scheduler.max_encoder_tokens = 10;
  return config;
}

TEST(SchedulerEncoderTest, AHitThatIsLongerThanExpectedTakesTheEncoderOnce) {
  Engine engine(short_of_blocks(11));
  engine.add(prompt_of(40, 1), job_of(1));
  engine.run();
  const uint64_t id = add_with_longer_hit(engine, {32, 8});
  EXPECT_EQ(engine.plan(), 1u) << "nothing else needs the encoder";
  EXPECT_EQ(engine.sequences().at(id).written, 34u + 4u);
  engine.finish();
  engine.run();
}

TEST(SchedulerEncoderTest, ACopyForARequestThatGotNoTokenIsLostWithItsPlan) {
  Engine engine(short_of_blocks(12));
  engine.add(prompt_of(40, 1), job_of(1));
  engine.run();
  const kvc_encoder_input input = {0, 4};
  kvc_schedule_job job = job_of(4);
  job.inputs = &input, job.num_inputs = 1;
  engine.add(prompt_of(4, 2), job);
  const uint64_t id = add_with_longer_hit(engine, {33, 8});  // the hit ends inside an input without room
  EXPECT_EQ(engine.plan(), 1u);
  kvc_scheduled_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_scheduler_request_info(engine.scheduler(), id, &info), KVC_OK);
  EXPECT_EQ(info.state, KVC_SCHEDULED_RUNNING) << "it was admitted, without a token";
  EXPECT_EQ(info.num_cached, 34u);
  engine.finish(true);  // engine.h compares what it reads next
  engine.run();
  engine.check_output(id);
}

}  // namespace
}  // namespace kvc::test
