// SPDX-License-Identifier: Apache-2.0
// What happens when the manager has no memory for the tokens of a request: the call fails or plans less, and
// nothing is lost. The requests have about 2^15 tokens, so that their tokens are in buffers of their own,
// which double there.
#include <cstdlib>

#include "scheduler/engine.h"

namespace kvc::test {
namespace {

struct FailingHeap {
  bool fails = false;
  uint64_t failures = 0;
  kvc_allocator allocator = {};

  FailingHeap() {
    allocator.struct_size = sizeof allocator;
    allocator.user_data = this;
    allocator.allocate = [](void* data, size_t size, size_t alignment) -> void* {
      auto& heap = *static_cast<FailingHeap*>(data);
      void* memory = nullptr;
      heap.failures += heap.fails;
      return heap.fails || posix_memalign(&memory, alignment, size) != 0 ? nullptr : memory;
    };
    allocator.release = [](void*, void* memory, size_t, size_t) { std::free(memory); };
  }
};

// Two requests fill the pool. The first one soon needs a block, which the second one has to give back.
void run(uint32_t max_plans, uint32_t flags, size_t second_prompt, uint64_t* failures) {
  FailingHeap heap;
  EngineConfig config;
  config.allocator = &heap.allocator;
  config.block_size = 1024, config.num_blocks = 64, config.max_requests = 8;
  config.manager_flags = flags;
  config.scheduler.max_tokens = 1 << 16, config.scheduler.max_plans = max_plans;
  config.scheduler.max_running = 2;
  Engine engine(config);
  engine.no_memory = &heap.fails;
  kvc_schedule_job job = {};
  job.max_new_tokens = 12;
  const uint64_t first = engine.add(std::vector<int32_t>((1 << 15) - 4, 1), job),
                 second = engine.add(std::vector<int32_t>(second_prompt, 2), job);
  if (engine.plan() != 0) engine.finish();
  for (int32_t i = 0; i < 3; ++i)  // their tokens take the buffers that the published ones have left
    engine.add(std::vector<int32_t>((1 << 15) - 4, 3 + i), job);
  for (int i = 0; engine.num_live() != 0 && i < 200 && !testing::Test::HasFailure(); ++i) {
    if (engine.in_flight() == max_plans || (engine.plan() == 0 && engine.in_flight() != 0)) engine.finish();
    engine.check();
  }
  while (engine.in_flight() != 0) engine.finish();
  EXPECT_EQ(engine.num_live(), 0u);
  EXPECT_GT(engine.preemptions, 0u);
  engine.check_output(first), engine.check_output(second);
  *failures += heap.failures;
}

TEST(SchedulerMemoryTest, APreemptionWithoutMemoryIsMadeLater) {
  uint64_t failures = 0;
  run(1, 0, 32000, &failures);
  EXPECT_GT(failures, 0u) << "memory is never short";
}

// A request is preempted while its plan is in flight: its token is told to the manager with the result.
TEST(SchedulerMemoryTest, AResultWithoutMemoryIsTakenLater) {
  uint64_t failures = 0;
  for (size_t prompt = (1 << 15) - 6; prompt < (1 << 15) - 1; ++prompt) {
    SCOPED_TRACE(prompt);
    run(2, 0, prompt, &failures);
    if (HasFailure()) return;
  }
  EXPECT_GT(failures, 0u) << "memory is never short";
}

// Two requests are preempted while their plan is in flight. There is memory for the token of the first one,
// not for that of the second one.
TEST(SchedulerMemoryTest, AResultIsTakenAsAWholeOrNotAtAll) {
  FailingHeap heap;
  EngineConfig config;
  config.allocator = &heap.allocator;
  config.block_size = 1024, config.num_blocks = 35, config.max_requests = 4;
  config.scheduler.max_tokens = 1 << 16, config.scheduler.max_plans = 2;
  config.scheduler.max_encoder_tokens = 1024;
  Engine engine(config);
  // It gets 1 block with its first chunk, and needs 34 more for the next one.
  const kvc_encoder_input inputs[] = {{0, 1024}, {1024, 34 * 1024 - 1}};
  kvc_schedule_job job = {};
  job.inputs = inputs, job.num_inputs = 2, job.max_new_tokens = 1, job.flags = KVC_JOB_NOT_READY;
  const uint64_t large = engine.add(std::vector<int32_t>(35 * 1024 - 1, 1), job);
  const uint64_t small = engine.add(std::vector<int32_t>(100, 2)),
                 full = engine.add(std::vector<int32_t>((1 << 15) - 2, 3));
  engine.plan(), engine.plan(), engine.finish();
  ASSERT_EQ(kvc_scheduler_set_ready(engine.scheduler(), large), KVC_OK);
  engine.plan(), engine.finish();
  EXPECT_EQ(engine.sequences().at(full).known, size_t{1} << 15);
  engine.plan();
  EXPECT_EQ(engine.preemptions, 2u);
  engine.no_memory = &heap.fails;
  engine.finish();
  EXPECT_EQ(engine.refusals, 1u) << "the result had memory";
  engine.no_memory = nullptr;
  kvc_request_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_manager_request_info(engine.manager(), small, &info), KVC_OK);
  EXPECT_EQ(info.num_tokens, engine.sequences().at(small).known) << "told twice";
  while (engine.in_flight() != 0) engine.finish();
  engine.run();
  for (const uint64_t id : {large, small, full}) engine.check_output(id);
}

}  // namespace
}  // namespace kvc::test
