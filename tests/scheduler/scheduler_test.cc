// SPDX-License-Identifier: Apache-2.0
// What a scheduler promises, one promise a test. engine.h holds every plan against the rest.
#include <cmath>

#include "scheduler/engine.h"

namespace kvc::test {
namespace {

EngineConfig one_at_a_time(uint32_t policy) {
  EngineConfig config;
  config.scheduler.policy = policy;
  config.scheduler.max_running = 1, config.scheduler.max_tokens = 16, config.scheduler.max_tenants = 2;
  config.scheduler.max_wait_ns = UINT64_MAX;
  return config;
}

// Five requests that come together, one at a time.
std::string order_of(uint32_t policy) {
  Engine engine(one_at_a_time(policy));
  const struct {
    size_t size;
    uint64_t max_new;
    int32_t priority;
    uint32_t tenant;
  } requests[] = {{20, 4, 5, 0}, {8, 4, 1, 0}, {12, 4, 5, 1}, {4, 4, 0, 1}, {8, 2, 1, 0}};
  std::map<uint64_t, char> names;
  int32_t number = 0;
  for (const auto& r : requests) {
    kvc_schedule_job job = job_of(r.max_new);
    job.expected_new_tokens = r.max_new, job.priority = r.priority, job.tenant = r.tenant;
    names[engine.add(prompt_of(r.size, number), job)] = static_cast<char>('A' + number);
    ++number;
  }
  engine.run();
  engine.check();
  std::string order;
  for (const uint64_t id : engine.admitted()) order += names[id];
  return order;
}

TEST(SchedulerTest, EachPolicyHasItsOrder) {
  EXPECT_EQ(order_of(KVC_SCHEDULE_FCFS), "ABCDE");
  EXPECT_EQ(order_of(KVC_SCHEDULE_PRIORITY), "DBEAC");
  EXPECT_EQ(order_of(KVC_SCHEDULE_SHORTEST), "DEBCA");
  // The first tenant pays 23 tokens for A, of 16; the other one 15 for C and 7 for D.
  EXPECT_EQ(order_of(KVC_SCHEDULE_FAIR), "ACDBE");
  EXPECT_EQ(order_of(KVC_SCHEDULE_ADAPTIVE), "ABCDE");
}

TEST(SchedulerTest, DecodesComeFirstThenChunksWithinTheBudget) {
  EngineConfig config;
  config.scheduler.max_running = 4, config.scheduler.max_tokens = 10;
  Engine engine(config);
  const uint64_t a = engine.add(prompt_of(6, 1), job_of(20));
  EXPECT_EQ(engine.plan(), 1u);
  engine.finish();
  const uint64_t b = engine.add(prompt_of(30, 2)), c = engine.add(prompt_of(5, 3));
  EXPECT_EQ(engine.plan(), 2u);  // one token of a, nine of b
  EXPECT_EQ(engine.last_tokens, 10u);
  EXPECT_EQ(engine.sequences().at(b).written, 9u);
  engine.finish();
  EXPECT_EQ(engine.plan(), 2u);
  engine.finish();
  EXPECT_EQ(engine.plan(), 2u);
  engine.finish();
  EXPECT_EQ(engine.sequences().at(b).written, 27u);
  EXPECT_EQ(engine.plan(), 3u);  // one token of a, the last three of b, five of c
  EXPECT_EQ(engine.last_tokens, 9u);
  engine.finish();
  engine.run();
  for (const uint64_t id : {a, b, c}) engine.check_output(id);
}

TEST(SchedulerTest, RequestsThatEndAreHitByOthers) {
  Engine engine({});
  const uint64_t first = engine.add(prompt_of(40, 1), job_of(5));
  engine.run();
  const std::vector<int32_t> all = engine.sequences().at(first).tokens;  // prompt and answer
  const uint64_t second = engine.add(all);
  engine.plan();
  kvc_scheduled_info info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(kvc_scheduler_request_info(engine.scheduler(), second, &info), KVC_OK);
  EXPECT_EQ(info.num_cached, 44u);  // of 45 tokens, the last was never computed
  EXPECT_EQ(info.state, KVC_SCHEDULED_RUNNING);
  engine.finish();
  engine.run();
}

TEST(SchedulerTest, PreemptsTheLastAndComputesItAgain) {
  EngineConfig config;
  config.num_blocks = 12;  // 48 tokens
  Engine engine(config);
  const uint64_t a = engine.add(prompt_of(12, 1), job_of(20)), b = engine.add(prompt_of(12, 2), job_of(20));
  engine.run();
  engine.check();
  EXPECT_GT(engine.preemptions, 0u);
  EXPECT_EQ(engine.stats().preemptions, engine.preemptions);
  EXPECT_GT(engine.stats().recomputed_tokens, 0u);
  engine.check_output(a), engine.check_output(b);
  EXPECT_EQ(engine.sequences().at(a).known, 32u);
  EXPECT_EQ(engine.sequences().at(b).known, 32u);
  EXPECT_EQ(engine.admitted().front(), a);
  EXPECT_EQ(std::count(engine.admitted().begin(), engine.admitted().end(), a), 1)
      << "the first is not preempted";
}

TEST(SchedulerTest, WithAnOffloadPreemptedRequestsAreSwapped) {
  uint64_t recomputed[2];
  for (const bool offload : {false, true}) {
    EngineConfig config;
    config.num_blocks = 24;  // 96 tokens
    config.offload = offload;
    Engine engine(config);
    std::vector<uint64_t> ids;
    for (int32_t i = 0; i < 4; ++i) ids.push_back(engine.add(prompt_of(30, i), job_of(30)));
    engine.run(1000000);
    engine.check();
    for (const uint64_t id : ids) engine.check_output(id);
    EXPECT_GT(engine.preemptions, 0u);
    recomputed[offload] = engine.stats().recomputed_tokens;
    if (!offload) continue;
    kvc_offload_stats stats = {};
    stats.struct_size = sizeof stats;
    ASSERT_EQ(kvc_offload_read_stats(engine.offload(), &stats), KVC_OK);
    EXPECT_GT(stats.loaded_tokens, 0u);
  }
  EXPECT_LT(recomputed[true], recomputed[false]);
}

TEST(SchedulerTest, AdmissionByTheWorstPeakPreemptsNobody) {
  for (const uint32_t admission : {KVC_ADMIT_WORST, KVC_ADMIT_CHUNK}) {
    EngineConfig config;
    config.num_blocks = 40;
    config.scheduler.admission = admission;
    Engine engine(config);
    for (int32_t i = 0; i < 12; ++i) engine.add(prompt_of(10, i), job_of(30));
    engine.run();
    EXPECT_EQ(engine.preemptions == 0, admission == KVC_ADMIT_WORST);
    EXPECT_EQ(engine.stats().refused_peak != 0, admission == KVC_ADMIT_WORST);
  }
}

// Each may get 200 tokens, for which the pool has room once; they get about 50.
TEST(SchedulerTest, PredictsThePeakFromWhatRequestsGot) {
  EngineConfig config;
  config.num_blocks = 80;  // 320 tokens
  config.scheduler.admission = KVC_ADMIT_PEAK;
  config.stop_token = 3;
  Engine engine(config);
  uint64_t running[2];
  for (uint64_t& at_first : running) {
    for (int32_t i = 0; i < 12; ++i)
      engine.add(prompt_of(10, i + 12 * static_cast<int32_t>(&at_first - running)), job_of(200));
    engine.plan();
    at_first = engine.stats().running;
    engine.finish();
    engine.run();
  }
  EXPECT_EQ(running[0], 1u);
  EXPECT_GE(running[1], 3u);
  EXPECT_GT(engine.stats().refused_peak, 0u);
}

TEST(SchedulerTest, EndsWhatCannotRun) {
  EngineConfig config;
  config.num_blocks = 8;
  config.scheduler.max_request_tokens = 64;
  Engine engine(config);
  const uint64_t grows = engine.add(prompt_of(20, 1), job_of(100));
  engine.run();
  EXPECT_EQ(engine.sequences().at(grows).reason, KVC_ENDED_NO_SPACE);
  EXPECT_EQ(engine.sequences().at(grows).known, 33u);  // 32 slots, and the token that has none
  const uint64_t large = engine.add(prompt_of(60, 2)), small = engine.add(prompt_of(5, 3));
  engine.run();
  EXPECT_EQ(engine.sequences().at(large).reason, KVC_ENDED_NO_SPACE);
  EXPECT_EQ(engine.sequences().at(small).reason, KVC_ENDED_LENGTH);
}

TEST(SchedulerTest, NobodyIsPassedForEver) {
  EngineConfig config = one_at_a_time(KVC_SCHEDULE_PRIORITY);
  config.scheduler.max_wait_ns = 50;
  Engine engine(config);
  kvc_schedule_job low = job_of(2);
  low.priority = 9;
  const uint64_t patient = engine.add(prompt_of(8, 0), low);
  for (int32_t i = 1; engine.sequences().at(patient).first_plan == 0; ++i) {
    engine.add(prompt_of(8, i), job_of(2));
    if (engine.plan() != 0) engine.finish();
    ASSERT_LE(++engine.now, 60u);
  }
  EXPECT_GE(engine.now, 50u);
  EXPECT_GE(engine.stats().aged, 1u);
  engine.run();
  engine.check();
}

TEST(SchedulerTest, AdaptsToTheQueue) {
  EngineConfig config = one_at_a_time(KVC_SCHEDULE_ADAPTIVE);
  config.scheduler.adaptive_plans = 4;  // 64 tokens
  Engine engine(config);
  const uint64_t large = engine.add(prompt_of(40, 1), job_of(2)),
                 small = engine.add(prompt_of(4, 2), job_of(2));
  engine.add(prompt_of(30, 3), job_of(2));
  engine.plan();
  EXPECT_EQ(engine.stats().policy, KVC_SCHEDULE_SHORTEST);
  EXPECT_EQ(engine.admitted(), std::vector<uint64_t>{small});
  engine.finish();
  engine.run();
  EXPECT_EQ(engine.admitted().back(), large);
  engine.plan();
  EXPECT_EQ(engine.stats().policy, KVC_SCHEDULE_FCFS);
  EXPECT_EQ(engine.stats().policy_changes, 2u);
}

TEST(SchedulerTest, TheLongestCachedPrefixComesFirstIfAsked) {
  for (const uint32_t flags : {0, 1}) {
    EngineConfig config = one_at_a_time(KVC_SCHEDULE_FCFS);
    config.scheduler.flags = flags;
    Engine engine(config);
    engine.add(prompt_of(32, 1), job_of(2));
    engine.run();
    const uint64_t cold = engine.add(prompt_of(32, 2), job_of(2)),
                   warm = engine.add(prompt_of(32, 1), job_of(2));
    engine.run();
    EXPECT_EQ(engine.admitted()[1], flags != 0 ? warm : cold);
  }
}

// Requests that wait together, after prompts with three beginnings of blocks were computed.
std::string order_of_prefixes(uint32_t flags, uint32_t policy, bool first_is_aged) {
  EngineConfig config;
  config.block_size = 1;
  config.scheduler.flags = flags, config.scheduler.policy = policy, config.scheduler.max_wait_ns = 50;
  Engine engine(config);
  const auto add = [&](const char* prompt, int32_t priority) {
    kvc_schedule_job job = job_of(1);
    job.priority = priority;
    std::vector<int32_t> tokens;
    for (; *prompt != 0; ++prompt) tokens.push_back(*prompt - 'a');
    return engine.add(tokens, job);
  };
  for (const char* cached : {"abcdz", "abefz", "ghz"}) add(cached, 0);
  engine.run();
  const size_t before = engine.admitted().size();
  engine.now = 100;
  std::map<uint64_t, char> names;
  char name = 'A';
  for (const char* prompt : {"ijk", "ghx", "abcdy", "abefy", "abcy", "aby", "ghv", "abefu"}) {
    names[add(prompt, name == 'H' ? 0 : 1)] = name;
    if (name++ == 'A') engine.now = 120;
  }
  engine.now = first_is_aged ? 160 : 121;
  engine.plan();
  engine.finish();
  std::string order;
  for (size_t i = before; i < engine.admitted().size(); ++i) order += names.at(engine.admitted()[i]);
  engine.run();
  engine.check();
  return order;
}

TEST(SchedulerTest, WhatIsCachedDecidesTheOrderIfAsked) {
  const uint32_t fcfs = KVC_SCHEDULE_FCFS, priority = KVC_SCHEDULE_PRIORITY;
  EXPECT_EQ(order_of_prefixes(0, fcfs, false), "ABCDEFGH");
  EXPECT_EQ(order_of_prefixes(KVC_SCHEDULER_CACHE_AWARE, fcfs, false), "CDHEBFGA");
  // Five requests go on from ab, two from gh; from ab two to c, two to ef, and one stays.
  EXPECT_EQ(order_of_prefixes(KVC_SCHEDULER_DEPTH_FIRST, fcfs, false), "CEDHFBGA");
  EXPECT_EQ(order_of_prefixes(KVC_SCHEDULER_DEPTH_FIRST, fcfs, true), "ACEDHFBG");
  EXPECT_EQ(order_of_prefixes(KVC_SCHEDULER_DEPTH_FIRST, priority, false), "HCEDFBGA");
  EXPECT_EQ(order_of_prefixes(KVC_SCHEDULER_DEPTH_FIRST, priority, true), "AHCEDFBG");
}

TEST(SchedulerTest, ANamespaceOverItsQuotaStopsItsOwnRequestsAlone) {
  for (const bool offload : {false, true}) {
    EngineConfig config;
    config.quotas = 1, config.offload = offload;
    config.scheduler.max_wait_ns = 10;
    Engine engine(config);
    const auto step = [&] {
      if (engine.plan() != 0) engine.finish();
    };
    engine.set_quota(1, 0, 8);  // 32 tokens
    const uint64_t first = engine.add(prompt_of(20, 1), job_of(12), nullptr, 1);
    step(), step();
    const uint64_t second = engine.add(prompt_of(20, 2), job_of(4), nullptr, 1);
    const uint64_t small = engine.add(prompt_of(4, 3), job_of(4), nullptr, 1);
    step();
    engine.now = 20;  // those that wait are aged
    const uint64_t other = engine.add(prompt_of(20, 4), job_of(4));
    engine.run();
    EXPECT_EQ(engine.admitted(), (std::vector<uint64_t>{first, other, second, small})) << offload;
    for (const uint64_t id : {first, second, small, other}) engine.check_output(id);
    engine.check();
  }
}

TEST(SchedulerTest, EndsWhatNoQuotaHasRoomFor) {
  EngineConfig config;
  config.quotas = 1;
  config.scheduler.max_tokens = 2048;
  Engine engine(config);
  engine.set_quota(1, 0, 8);  // 32 tokens
  const uint64_t runs = engine.add(prompt_of(20, 1), job_of(100));
  const uint64_t large = engine.add(prompt_of(40, 2), job_of(4), nullptr, 1);
  const uint64_t grows = engine.add(prompt_of(20, 3), job_of(100), nullptr, 1);
  const uint64_t fits = engine.add(prompt_of(20, 4), job_of(12), nullptr, 1);
  for (int i = 0; i < 50; ++i) engine.plan(), engine.finish();
  EXPECT_EQ(engine.sequences().at(large).reason, KVC_ENDED_NO_SPACE) << "although others run";
  EXPECT_EQ(engine.sequences().at(grows).reason, KVC_ENDED_NO_SPACE);
  EXPECT_EQ(engine.sequences().at(fits).reason, KVC_ENDED_LENGTH);
  engine.run();
  EXPECT_EQ(engine.sequences().at(runs).reason, KVC_ENDED_LENGTH);
}

TEST(SchedulerTest, WaitsForTokensThatAnotherRequestComputesIfAsked) {
  for (const uint64_t until : {0u, 1000u}) {
    EngineConfig config;
    config.manager_flags = KVC_MANAGER_FILLS;
    config.scheduler.max_tokens = 64, config.scheduler.max_running = 8;
    Engine engine(config);
    kvc_request_config waits = {};
    waits.struct_size = sizeof waits;
    waits.wait_until_ns = until;
    if (until != 0) {
      const int32_t token = 1;
      kvc_prompt prompt = {};
      prompt.struct_size = sizeof prompt;
      prompt.tokens = &token, prompt.num_tokens = 1;
      kvc_schedule_job job = job_of(1);
      job.struct_size = sizeof job, job.prompt = &prompt, job.config = &waits;
      uint64_t id = 0;
      EXPECT_EQ(kvc_scheduler_add(engine.scheduler(), &job, &id), KVC_ERROR_INVALID_ARGUMENT);
      EXPECT_NE(std::string(kvc_last_error()).find("has not been told the time"), std::string::npos);
    }
    engine.now = 1;
    const uint64_t a = engine.add(prompt_of(40, 1)), b = engine.add(prompt_of(40, 1), job_of(8), &waits),
                   c = engine.add(prompt_of(6, 2));
    engine.run();
    engine.check();
    for (const uint64_t id : {a, b, c}) engine.check_output(id);
    const std::vector<uint64_t> in_turn{a, b, c}, passed{a, c, b};
    EXPECT_EQ(engine.admitted(), until != 0 ? passed : in_turn) << "until " << until;
    EXPECT_EQ(engine.stats().refused_filling != 0, until != 0);
    EXPECT_EQ(engine.computed, 86 + 3 * 7 - (until != 0 ? 36 : 0))
        << "all but the last block of the prompt of b";
  }
}

TEST(SchedulerTest, TenantsGetSharesByTheirWeights) {
  EngineConfig config;
  config.scheduler.policy = KVC_SCHEDULE_FAIR, config.scheduler.max_tenants = 2;
  config.scheduler.max_running = 2, config.scheduler.max_tokens = 32,
  config.scheduler.max_wait_ns = UINT64_MAX;
  config.max_requests = 4096, config.manager_flags = KVC_MANAGER_NO_PREFIX_CACHE;
  Engine engine(config);
  ASSERT_EQ(kvc_scheduler_set_weight(engine.scheduler(), 1, 3), KVC_OK);
  std::map<uint64_t, uint32_t> tenants;
  for (int32_t i = 0; i < 400; ++i) {
    kvc_schedule_job job = job_of(4);
    job.tenant = i % 2 == 0 ? 0 : 1;
    tenants[engine.add(prompt_of(16, i), job)] = job.tenant;
  }
  for (int i = 0; i < 200; ++i)
    if (engine.plan() != 0) engine.finish();
  double of[2] = {};
  for (const uint64_t id : engine.admitted()) ++of[tenants[id]];
  EXPECT_NEAR(of[1] / of[0], 3, 0.4);
  engine.check();
}

TEST(SchedulerTest, CountsAdaptersEncodersAndWaitsForGrammars) {
  EngineConfig config;
  config.scheduler.max_adapters = 1, config.scheduler.max_encoder_tokens = 8;
  Engine engine(config);
  const auto with_adapter = [&](uint64_t adapter, int32_t number) {
    kvc_schedule_job job = job_of(4);
    job.adapter = adapter;
    return engine.add(prompt_of(8, number), job);
  };
  const uint64_t a = with_adapter(1, 1), b = with_adapter(2, 2), c = with_adapter(1, 3);
  const kvc_encoder_input inputs[] = {{2, 6}, {10, 5}, {20, 12}};
  kvc_schedule_job job = job_of(4);
  job.inputs = inputs, job.num_inputs = 3;
  const uint64_t d = engine.add(prompt_of(40, 4), job);
  job = job_of(4);
  job.flags = KVC_JOB_NOT_READY;
  const uint64_t e = engine.add(prompt_of(8, 5), job);
  engine.plan();
  EXPECT_EQ(engine.admitted(), (std::vector<uint64_t>{a, c, d}));
  EXPECT_EQ(engine.sequences().at(d).written, 10u) << "the second image is for the next plan";
  EXPECT_EQ(engine.stats().refused_adapter, 1u);
  engine.finish();
  EXPECT_EQ(engine.stats().waiting, 2u);
  engine.plan();
  EXPECT_EQ(engine.sequences().at(d).written, 20u);
  engine.finish();
  ASSERT_EQ(kvc_scheduler_set_ready(engine.scheduler(), e), KVC_OK);
  engine.run();
  EXPECT_TRUE(engine.sequences().at(b).ended);
  EXPECT_TRUE(engine.sequences().at(e).ended);
  for (const uint64_t id : {a, b, c, d, e}) engine.check_output(id);
}

TEST(SchedulerTest, TellsPressureWithHysteresis) {
  EngineConfig config;
  config.num_blocks = 20;
  config.scheduler.high_watermark = 0.75, config.scheduler.low_watermark = 0.3;
  std::vector<std::pair<int32_t, double>> told;
  config.scheduler.user_data = &told;
  config.scheduler.on_pressure = [](void* user_data, int32_t high, double usage) {
    static_cast<std::vector<std::pair<int32_t, double>>*>(user_data)->emplace_back(high, usage);
  };
  Engine engine(config);
  engine.add(prompt_of(40, 1), job_of(12)), engine.add(prompt_of(24, 2), job_of(40));
  engine.plan(), engine.finish();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, 1);
  EXPECT_GE(told[0].second, 0.75);
  const uint64_t late = engine.add(prompt_of(4, 3), job_of(2));
  engine.plan(), engine.finish();
  EXPECT_EQ(engine.sequences().at(late).first_plan, 0u) << "nothing is admitted under pressure";
  EXPECT_EQ(engine.stats().pressure, 1u);
  engine.run();
  engine.plan();  // what has ended gives back its blocks
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told.back().first, 0);
  EXPECT_LE(told.back().second, 0.3);
  EXPECT_EQ(engine.stats().pressure_changes, 1u);
}

TEST(SchedulerTest, PlansAheadOfTheTokens) {
  EngineConfig config;
  config.scheduler.max_plans = 2;
  config.stop_token = 3;
  Engine engine(config);
  std::vector<uint64_t> ids;
  for (int32_t i = 0; i < 10; ++i) ids.push_back(engine.add(prompt_of(9, i), job_of(20)));
  while (engine.num_live() != 0 && !HasFailure()) {
    if (engine.in_flight() == 2 || (engine.plan() == 0 && engine.in_flight() != 0)) engine.finish();
    engine.check();
  }
  while (engine.in_flight() != 0) engine.finish();
  for (const uint64_t id : ids) engine.check_output(id);
}

TEST(SchedulerTest, PlansInFlightTakeNoBlockThatARequestDoesNotNeed) {
  for (const uint32_t max_plans : {1u, 2u, 3u}) {
    for (const uint32_t prompt : {20u, 31u, 32u}) {
      EngineConfig config;
      config.num_blocks = 8;
      config.scheduler.max_plans = max_plans;
      config.scheduler.admission = KVC_ADMIT_PROMPT;
      config.scheduler.max_request_tokens = 64;
      Engine engine(config);
      const uint64_t fits =
          engine.add(prompt_of(prompt, 1), job_of(33 - prompt));  // the last token has no slot
      while (engine.num_live() != 0 && !HasFailure()) {
        if (engine.in_flight() == max_plans || (engine.plan() == 0 && engine.in_flight() != 0))
          engine.finish();
        engine.check();
      }
      while (engine.in_flight() != 0) engine.finish();
      EXPECT_EQ(engine.sequences().at(fits).reason, KVC_ENDED_LENGTH)
          << max_plans << " plans, prompt " << prompt;
      EXPECT_EQ(engine.sequences().at(fits).known, 33u);
    }
  }
}

TEST(SchedulerTest, DraftsSavePlans) {
  uint64_t plans[2];
  for (const uint32_t drafts : {0u, 4u}) {
    EngineConfig config;
    config.scheduler.max_drafts = drafts;
    Engine engine(config);
    const uint64_t id = engine.add(prompt_of(9, 1), job_of(41));
    for (uint32_t i = 0; engine.num_live() != 0 && !HasFailure(); ++i) {
      if (drafts != 0 && i != 0) engine.draft(id, drafts, i % 5);
      engine.plan();
      engine.finish();
      engine.check();
    }
    plans[drafts != 0] = engine.plans;
    engine.check_output(id);
    EXPECT_EQ(engine.stats().accepted_drafts != 0, drafts != 0);
  }
  EXPECT_EQ(plans[0], 41u);
  EXPECT_LE(plans[1], 17u);
}

TEST(SchedulerTest, APlanThatFailedIsMadeAgain) {
  for (const uint32_t max_plans : {1u, 3u}) {
    EngineConfig config;
    config.scheduler.max_plans = max_plans;
    config.scheduler.max_tokens = 16, config.scheduler.max_running = 8;
    Engine engine(config);
    std::vector<uint64_t> ids;
    for (int32_t i = 0; i < 6; ++i) ids.push_back(engine.add(prompt_of(21, i), job_of(9)));
    for (int i = 0; engine.num_live() != 0 && !HasFailure(); ++i) {
      while (engine.in_flight() < max_plans && engine.plan() != 0) continue;
      if (engine.in_flight() != 0) engine.finish(i % 3 == 1);
      engine.check();
    }
    while (engine.in_flight() != 0) engine.finish();
    for (const uint64_t id : ids) engine.check_output(id);
    EXPECT_GT(engine.stats().recomputed_tokens, 0u);
  }
}

TEST(SchedulerTest, WithoutOffsetsEachItemThatSamplesBringsOneToken) {
  EngineConfig config;
  config.scheduler.max_running = 4, config.scheduler.max_tokens = 12, config.scheduler.max_drafts = 2;
  Engine engine(config);
  const uint64_t a = engine.add(prompt_of(4, 1)), b = engine.add(prompt_of(20, 2));
  kvc_plan plan = {};
  plan.struct_size = sizeof plan;
  int32_t tokens[] = {11, 22};
  const auto finish = [&] {
    kvc_plan_result result = {};
    result.struct_size = sizeof result;
    result.plan_id = plan.plan_id, result.num_items = plan.num_items, result.tokens = tokens;
    return kvc_scheduler_finish(engine.scheduler(), &result);
  };
  const auto known = [&](uint64_t id) {
    kvc_scheduled_info info = {};
    info.struct_size = sizeof info;
    EXPECT_EQ(kvc_scheduler_request_info(engine.scheduler(), id, &info), KVC_OK);
    return info.num_tokens;
  };
  for (int i = 0; i < 2; ++i) {  // the prompt of b takes two plans: its item of the first brings nothing
    ASSERT_EQ(kvc_scheduler_plan(engine.scheduler(), 0, &plan), KVC_OK);
    ASSERT_EQ(plan.num_items, 2u);
    ASSERT_EQ(finish(), KVC_OK) << kvc_last_error();
    EXPECT_EQ(known(a), 5u + static_cast<unsigned>(i));
    EXPECT_EQ(known(b), 20u);
  }
  ASSERT_EQ(kvc_scheduler_plan(engine.scheduler(), 0, &plan), KVC_OK);
  ASSERT_EQ(finish(), KVC_OK) << kvc_last_error();
  EXPECT_EQ(known(b), 21u);
  const uint32_t two = 2;
  ASSERT_EQ(kvc_scheduler_set_drafts(engine.scheduler(), &b, &two, 1), KVC_OK);
  ASSERT_EQ(kvc_scheduler_plan(engine.scheduler(), 0, &plan), KVC_OK);
  EXPECT_EQ(finish(), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("item 1 has 2 drafts"), std::string::npos) << kvc_last_error();
  const uint64_t offsets[] = {0, 1, 2};
  kvc_plan_result result = {};
  result.struct_size = sizeof result;
  result.plan_id = plan.plan_id, result.num_items = 2, result.token_offsets = offsets, result.tokens = tokens;
  EXPECT_EQ(kvc_scheduler_finish(engine.scheduler(), &result), KVC_OK) << "nothing was taken before";
  EXPECT_EQ(known(b), 22u);
  engine.check();
  for (auto& [id, s] : engine.sequences()) s.ended = true;
}

// The head of a block was to be copied for a request that hits it.
TEST(SchedulerTest, CopiesOfAPlanThatFailedAreMadeAgain) {
  EngineConfig config;
  config.manager_flags = KVC_MANAGER_PARTIAL_REUSE;
  Engine engine(config);
  engine.add(prompt_of(12, 1), job_of(2));
  engine.run();
  std::vector<int32_t> prompt = prompt_of(12, 1);
  prompt[10] = (prompt[10] + 1) % 50;  // 10 of 12 tokens are hit, 2 of them in the third block
  const uint64_t id = engine.add(prompt, job_of(4));
  engine.plan();
  EXPECT_EQ(engine.last_tokens, 2u);
  engine.finish(true);
  engine.run();
  engine.check_output(id);
}

TEST(SchedulerTest, AbortsAtAnyTime) {
  EngineConfig config;
  config.scheduler.max_plans = 2;
  Engine engine(config);
  const uint64_t waiting = engine.add(prompt_of(9, 1));
  engine.abort(waiting);
  EXPECT_EQ(kvc_scheduler_abort(engine.scheduler(), waiting), KVC_ERROR_NOT_FOUND);
  const uint64_t running = engine.add(prompt_of(9, 2)), other = engine.add(prompt_of(9, 3));
  engine.plan();
  engine.abort(running);
  EXPECT_EQ(kvc_scheduler_abort(engine.scheduler(), running), KVC_ERROR_NOT_FOUND);
  engine.plan();
  engine.check();
  engine.finish();
  engine.finish();
  engine.run();
  engine.check_output(other);
  EXPECT_EQ(engine.stats().aborted, 2u);
}

// They are ignored, whatever offsets say of them.
TEST(SchedulerTest, TokensOfEndedRequestsMayBeMissing) {
  Engine engine({});
  const uint64_t first = engine.add(prompt_of(8, 1)), second = engine.add(prompt_of(8, 2));
  kvc_plan plan = {};
  plan.struct_size = sizeof plan;
  ASSERT_EQ(kvc_scheduler_plan(engine.scheduler(), 0, &plan), KVC_OK);
  ASSERT_EQ(plan.num_items, 2u);
  engine.abort(first), engine.abort(second);
  const uint64_t offsets[] = {0, 1, 2};
  kvc_plan_result result = {};
  result.struct_size = sizeof result;
  result.plan_id = plan.plan_id, result.num_items = 2, result.token_offsets = offsets;
  EXPECT_EQ(kvc_scheduler_finish(engine.scheduler(), &result), KVC_OK) << kvc_last_error();
  engine.check();
}

// ---- bad input

TEST(SchedulerTest, RefusesBadConfigurations) {
  kvc_manager_config m = {};
  m.struct_size = sizeof m;
  m.num_blocks = 64;
  kvc_manager* manager = nullptr;
  ASSERT_EQ(kvc_manager_create(&m, &manager), KVC_OK);
  kvc_scheduler* s = nullptr;
  const auto create = [&](auto&& change) {
    kvc_scheduler_config config = {};
    config.struct_size = sizeof config;
    config.manager = manager;
    change(config);
    const kvc_status status = kvc_scheduler_create(&config, &s);
    if (status == KVC_OK) kvc_scheduler_destroy(s);
    return status;
  };
  EXPECT_EQ(create([](auto&) {}), KVC_OK);
  EXPECT_EQ(create([](auto& c) { c.manager = nullptr; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& c) { c.policy = 5; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& c) { c.admission = 4; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& c) { c.flags = 4; }), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(create([](auto& c) { c.flags = 3; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& c) { c.max_running = 65537; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& c) { c.max_tokens = 255; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("max_running 256"), std::string::npos);
  EXPECT_EQ(create([](auto& c) { c.max_drafts = 1025; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& c) { c.max_plans = 9; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& c) { c.low_watermark = 0.5; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& c) { c.high_watermark = NAN; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(create([](auto& c) { c.struct_size = 8; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_scheduler_create(nullptr, &s), KVC_ERROR_INVALID_ARGUMENT);

  kvc_scheduler_config config = {};
  config.struct_size = sizeof config;
  config.manager = manager;
  ASSERT_EQ(kvc_scheduler_create(&config, &s), KVC_OK);
  kvc_scheduler* second = nullptr;
  EXPECT_EQ(kvc_scheduler_create(&config, &second), KVC_ERROR_BUSY);
  EngineConfig other;
  other.offload = true;
  Engine engine(other);
  config.offload = engine.offload();
  EXPECT_EQ(kvc_scheduler_create(&config, &second), KVC_ERROR_INVALID_ARGUMENT) << "of another manager";
  kvc_scheduler_destroy(s);
  kvc_scheduler_destroy(nullptr);
  EXPECT_EQ(kvc_scheduler_check(nullptr), KVC_ERROR_INVALID_ARGUMENT);
  kvc_manager_destroy(manager);
}

TEST(SchedulerTest, RefusesBadJobs) {
  EngineConfig config;
  config.num_blocks = 16;
  Engine engine(config);
  const std::vector<int32_t> tokens = prompt_of(64, 1);
  const auto add = [&](auto&& change) {
    kvc_prompt prompt = {};
    prompt.struct_size = sizeof prompt;
    prompt.tokens = tokens.data(), prompt.num_tokens = 10;
    kvc_request_config options = {};
    options.struct_size = sizeof options;
    kvc_schedule_job job = job_of(4);
    job.struct_size = sizeof job;
    job.prompt = &prompt, job.config = &options;
    change(job, prompt, options);
    uint64_t id = 0;
    return kvc_scheduler_add(engine.scheduler(), &job, &id);
  };
  EXPECT_EQ(add([](auto& j, auto&, auto&) { j.prompt = nullptr; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(add([](auto& j, auto&, auto&) { j.max_new_tokens = 0; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(add([](auto& j, auto&, auto&) { j.tenant = 1; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(add([](auto& j, auto&, auto&) { j.flags = 2; }), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(add([](auto& j, auto&, auto&) { j.num_inputs = 1; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(add([](auto&, auto& p, auto&) { p.num_tokens = 0; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(add([](auto&, auto& p, auto&) { p.num_tokens = 64; }), KVC_ERROR_INVALID_ARGUMENT)
      << "as many as the pool has";
  EXPECT_EQ(add([](auto&, auto& p, auto&) { p.namespace_id = 99; }), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(add([](auto&, auto&, auto& o) { o.slots = 1; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(add([](auto&, auto&, auto& o) { o.cross_tokens = 65; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("at most max_request_tokens of the scheduler, 64"),
            std::string::npos);
  EXPECT_EQ(add([](auto&, auto&, auto& o) { o.flags = KVC_REQUEST_SHARE_FILLING; }), KVC_ERROR_UNSUPPORTED);
  static const kvc_encoder_input outside = {8, 3};
  EXPECT_EQ(add([](auto& j, auto&, auto&) { j.inputs = &outside, j.num_inputs = 1; }),
            KVC_ERROR_INVALID_ARGUMENT);
  const int32_t bad = 50;
  EXPECT_EQ(add([&](auto&, auto& p, auto&) { p.tokens = &bad, p.num_tokens = 1; }),
            KVC_ERROR_INVALID_ARGUMENT);
  kvc_stats stats = {};
  stats.struct_size = sizeof stats;
  ASSERT_EQ(kvc_manager_read_stats(engine.manager(), &stats), KVC_OK);
  EXPECT_EQ(stats.waiting_requests, 0u) << "a failed call adds nothing";
  EXPECT_EQ(engine.stats().added, 0u);
}

TEST(SchedulerTest, RefusesBadResults) {
  EngineConfig config;
  config.scheduler.max_drafts = 2;
  Engine engine(config);
  engine.now = 5;
  engine.add(prompt_of(9, 1)), engine.add(prompt_of(9, 2));
  kvc_plan plan = {};
  plan.struct_size = sizeof plan;
  ASSERT_EQ(kvc_scheduler_plan(engine.scheduler(), 5, &plan), KVC_OK);
  ASSERT_EQ(plan.num_items, 2u);
  EXPECT_EQ(kvc_scheduler_plan(engine.scheduler(), 6, &plan), KVC_ERROR_BUSY);
  EXPECT_NE(std::string(kvc_last_error()).find("finish plan 1"), std::string::npos);
  EXPECT_EQ(plan.num_groups, 1u);
  EXPECT_EQ(plan.num_rows, 256u);
  const uint64_t good[] = {0, 1, 2}, few[] = {0, 1, 1}, many[] = {0, 2, 3}, down[] = {0, 2, 1};
  int32_t tokens[] = {1, 2, 3};
  const auto finish = [&](auto&& change) {
    kvc_plan_result result = {};
    result.struct_size = sizeof result;
    result.plan_id = plan.plan_id, result.num_items = 2, result.token_offsets = good, result.tokens = tokens;
    change(result);
    return kvc_scheduler_finish(engine.scheduler(), &result);
  };
  EXPECT_EQ(finish([](auto& r) { r.plan_id = 2; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(finish([](auto& r) { r.num_items = 1; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(finish([&](auto& r) { r.token_offsets = few; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(finish([&](auto& r) { r.token_offsets = many; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(finish([&](auto& r) { r.token_offsets = down; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("never decrease"), std::string::npos) << "before it is read";
  const uint64_t late[] = {1, 2, 3};
  EXPECT_EQ(finish([&](auto& r) { r.token_offsets = late; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(kvc_last_error()).find("token_offsets[0] is 1"), std::string::npos);
  EXPECT_EQ(finish([](auto& r) { r.tokens = nullptr; }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(finish([](auto& r) { r.tokens = nullptr, r.token_offsets = nullptr; }),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(finish([](auto& r) { r.flags = 2; }), KVC_ERROR_UNSUPPORTED);
  tokens[1] = 50;
  EXPECT_EQ(finish([](auto&) {}), KVC_ERROR_INVALID_ARGUMENT);
  tokens[1] = 2;
  EXPECT_EQ(finish([](auto&) {}), KVC_OK) << kvc_last_error();
  EXPECT_EQ(finish([](auto&) {}), KVC_ERROR_INVALID_ARGUMENT) << "finished twice";
  EXPECT_EQ(kvc_scheduler_plan(engine.scheduler(), 4, &plan), KVC_ERROR_INVALID_ARGUMENT) << "time goes back";
  const uint64_t unknown = 77;
  const uint32_t three = 3, two = 2;
  EXPECT_EQ(kvc_scheduler_set_drafts(engine.scheduler(), &unknown, &two, 1), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_scheduler_set_drafts(engine.scheduler(), plan.requests, &three, 1),
            KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_scheduler_set_ready(engine.scheduler(), unknown), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_scheduler_set_priority(engine.scheduler(), unknown, 1), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_scheduler_set_weight(engine.scheduler(), 1, 1), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_scheduler_set_weight(engine.scheduler(), 0, 0), KVC_ERROR_INVALID_ARGUMENT);
  engine.check();
  for (auto& [id, s] : engine.sequences()) s.ended = true;
}

}  // namespace
}  // namespace kvc::test
