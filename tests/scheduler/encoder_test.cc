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

}  // namespace
}  // namespace kvc::test
