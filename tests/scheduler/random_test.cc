// SPDX-License-Identifier: Apache-2.0
// Random engines, requests, failures and misuse. Whatever happens, every request gets the tokens that it
// would have got alone, and ends: engine.h computes every plan, and model.h holds every plan and state
// against what is promised. KVC_TEST_OPERATIONS and KVC_TEST_SEED change length and start.
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "golden.h"
#include "rounds.h"
#include "scheduler/misuse.h"
#include "scheduler/model.h"
#include "scheduler/plan_log.h"

namespace kvc::test {
namespace {

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

EngineConfig random_config(Random& random) {
  EngineConfig config;
  kvc_scheduler_config& s = config.scheduler;
  config.seed = random.next();
  config.block_size = static_cast<uint32_t>(random.between(1, 5));
  config.num_blocks = random.between(16, 120);
  config.max_requests = 64;
  const uint64_t kind = random.below(10);
  if (kind < 2) config.offload = true, config.block_size = 4;
  config.states = kind == 2 || kind == 3;
  if (kind > 3 && kind < 7) config.window = random.between(2, 20);
  config.manager_flags = !config.states && random.chance(30) ? uint32_t{KVC_MANAGER_PARTIAL_REUSE} : 0;
  if (!config.states && random.chance(30)) config.manager_flags |= KVC_MANAGER_FILLS;
  if (!config.states && random.chance(20)) config.manager_flags |= KVC_MANAGER_HEADROOM;
  if (random.chance(50)) config.stop_token = 3;
  config.quotas = random.chance(40) ? static_cast<uint32_t>(random.between(1, 3)) : 0;
  s.policy = static_cast<uint32_t>(random.below(5));
  s.admission = static_cast<uint32_t>(random.below(4));
  s.flags = static_cast<uint32_t>(random.below(3));
  s.max_running = static_cast<uint32_t>(random.between(1, 12));
  s.max_tokens = static_cast<uint32_t>(random.between(s.max_running, 60));
  s.max_chunk = random.chance(50) ? 0 : static_cast<uint32_t>(random.between(1, 30));
  s.max_drafts = config.states || random.chance(50) ? 0 : static_cast<uint32_t>(random.between(1, 5));
  s.max_plans = static_cast<uint32_t>(random.between(1, 3));
  s.max_adapters = static_cast<uint32_t>(random.below(3));
  s.max_tenants = static_cast<uint32_t>(random.between(1, 4));
  s.max_encoder_tokens = random.chance(50) ? 0 : random.between(1, 30);
  s.max_wait_ns = random.chance(50) ? random.between(1, 100) : UINT64_MAX;
  if (random.chance(30)) s.high_watermark = 0.9, s.low_watermark = 0.5;
  s.adaptive_plans = 2;
  return config;
}

SchedulerModel::Limits limits_of(const EngineConfig& config) {
  SchedulerModel::Limits limits = {};
  limits.config = config.scheduler;
  kvc_scheduler_config& s = limits.config;
  if (s.max_chunk == 0) s.max_chunk = s.max_tokens;
  if (s.max_request_tokens == 0) s.max_request_tokens = config.num_blocks * config.block_size;
  limits.offload = config.offload, limits.quotas = config.quotas != 0, limits.states = config.states;
  limits.num_groups = config.window != 0 || config.states ? 2 : 1, limits.block_size = config.block_size;
  limits.fills = (config.manager_flags & KVC_MANAGER_FILLS) != 0;
  return limits;
}

class Player {
 public:
  explicit Player(uint64_t seed)
      : random_(seed),
        config_(random_config(random_)),
        engine_(config_),
        model_(engine_.manager(), engine_.scheduler(), limits_of(config_)) {
    engine_.listeners = {&model_, &log_};
    for (uint32_t i = 1; i <= config_.quotas; ++i) set_quota(i);
  }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  // One random operation.
  void step() {
    engine_.now += random_.below(3);
    if (random_.chance(3)) return misuse(random_, config_, engine_);
    const uint64_t what = random_.below(100);
    if (what < 35) {
      if (engine_.in_flight() < std::max(config_.scheduler.max_plans, 1u)) engine_.plan();
    } else if (what < 70) {
      if (engine_.in_flight() != 0) engine_.finish(random_.chance(3));
    } else if (what < 85) {
      if (engine_.num_live() < 40) add();
    } else if (what == 99 && config_.quotas != 0) {
      set_quota(random_.between(1, config_.quotas));
    } else if (uint64_t id = any(); id == 0) {
      return;
    } else if (what < 88) {
      engine_.abort(id);
    } else if (what < 91) {
      engine_.set_priority(id, static_cast<int32_t>(random_.below(4)));
    } else if (what < 93) {
      engine_.set_ready(id);
    } else if (what == 93) {
      const auto tenant = static_cast<uint32_t>(random_.below(config_.scheduler.max_tenants));
      const double weight = std::ldexp(1.0, static_cast<int>(random_.between(0, 8)) - 4);
      engine_.set_weight(tenant, weight);
    } else if (config_.scheduler.max_drafts != 0) {
      const auto count = static_cast<uint32_t>(random_.between(1, config_.scheduler.max_drafts));
      if (engine_.sequences().at(id).known == engine_.sequences().at(id).tokens.size())
        engine_.draft(id, count, static_cast<uint32_t>(random_.below(count + 1)));
    }
  }
  void check() {
    engine_.check();
    model_.check();
  }
  // All that is left ends, in a bounded number of plans.
  void drain() {
    for (const auto& [id, s] : engine_.sequences())
      if (!s.ended) engine_.set_ready(id);
    for (int i = 0; i < 20000 && (engine_.num_live() != 0 || engine_.in_flight() != 0); ++i) {
      if (testing::Test::HasFailure()) return;
      if (engine_.in_flight() == std::max(config_.scheduler.max_plans, 1u) || engine_.plan() == 0) {
        if (engine_.in_flight() != 0) engine_.finish();
      }
      ++engine_.now;
    }
    EXPECT_EQ(engine_.num_live(), 0u) << "requests do not end";
    engine_.plan();  // the blocks of those that ended last come back
    check();
    model_.check_end();
    for (const auto& [id, s] : engine_.sequences()) engine_.check_output(id);
    const kvc_scheduler_stats stats = engine_.stats();
    EXPECT_EQ(stats.waiting + stats.running + stats.plans_in_flight, 0u);
    EXPECT_EQ(stats.added, stats.aborted + stats.ended);
    EXPECT_EQ(stats.added, engine_.sequences().size());
    EXPECT_EQ(stats.prompt_tokens + stats.decode_tokens + stats.draft_tokens, engine_.computed);
  }
  uint64_t digest() {
    uint64_t manager;
    EXPECT_EQ(kvc_manager_digest(engine_.manager(), &manager), KVC_OK);
    return mix(log_.digest(), manager);
  }
  // The engine, then its calls.
  std::string text() const {
    const kvc_scheduler_config& s = config_.scheduler;
    PlanLog head;
    head.line("engine", config_.num_blocks, config_.block_size, config_.vocab, config_.max_requests,
              config_.manager_flags, config_.window, config_.states, config_.quotas, s.policy, s.admission,
              s.flags, s.max_running, s.max_tokens, s.max_chunk, s.max_drafts, s.max_plans, s.max_adapters,
              s.max_tenants, s.max_encoder_tokens, s.max_wait_ns, s.high_watermark, s.low_watermark,
              s.adaptive_plans);
    return head.text() + log_.text();
  }
  bool has_offload() const { return config_.offload; }
  uint32_t policy() const { return config_.scheduler.policy; }
  uint64_t preemptions() const { return engine_.preemptions; }

 private:
  void set_quota(uint64_t space) {
    const uint64_t most = config_.num_blocks - 1;  // the null block counts for nobody
    const uint64_t max_blocks = random_.chance(20) ? 0 : random_.between(1, most);
    const uint64_t min_blocks = random_.below(std::min(max_blocks == 0 ? most : max_blocks, most / 4) + 1);
    engine_.set_quota(space, min_blocks, max_blocks);
  }
  uint64_t any() {
    std::vector<uint64_t> live;
    for (const auto& [id, s] : engine_.sequences())
      if (!s.ended) live.push_back(id);
    return live.empty() ? 0 : live[random_.below(live.size())];
  }
  void add() {
    // A family of prompts with common beginnings.
    const size_t most = std::min<size_t>(config_.num_blocks * config_.block_size - 1, 70);
    std::vector<int32_t> prompt(random_.between(1, most));
    const uint64_t family = random_.below(3);
    for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(mix(family, i) % 50);
    if (random_.chance(50)) prompt[random_.below(prompt.size())] = static_cast<int32_t>(random_.below(50));
    kvc_schedule_job job = {};
    job.max_new_tokens = random_.between(1, 30);
    if (random_.chance(50)) job.expected_new_tokens = random_.between(1, 40);
    job.priority = static_cast<int32_t>(random_.below(4));
    job.tenant = static_cast<uint32_t>(random_.below(std::max(config_.scheduler.max_tenants, 1u)));
    job.adapter = random_.below(4);
    job.flags = random_.chance(10) ? uint32_t{KVC_JOB_NOT_READY} : 0;
    std::vector<kvc_encoder_input> inputs;
    for (uint64_t at = random_.below(20); random_.chance(30) && at < prompt.size();
         at += 12 + random_.below(9))
      inputs.push_back({at, std::min<uint64_t>(random_.between(1, 12), prompt.size() - at)});
    if (random_.chance(10) && (inputs.empty() || inputs.back().first_token + 12 < prompt.size()))
      inputs.push_back({prompt.size() - 1, 1});
    for (size_t i = 0; i < inputs.size() && random_.chance(50); ++i) {  // others over them, in any order
      const uint64_t first = random_.below(prompt.size());
      const kvc_encoder_input other = {first,
                                       std::min<uint64_t>(random_.between(1, 30), prompt.size() - first)};
      inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(random_.below(inputs.size() + 1)), other);
    }
    job.inputs = inputs.data(), job.num_inputs = inputs.size();
    kvc_request_config options = {};
    options.struct_size = sizeof options;
    if ((config_.manager_flags & KVC_MANAGER_FILLS) != 0 && engine_.now != 0 && random_.chance(60))
      options.wait_until_ns = engine_.now + random_.below(100);
    engine_.add(prompt, job, &options, random_.below(config_.quotas + 1));
  }

  Random random_;
  EngineConfig config_;
  Engine engine_;
  SchedulerModel model_;
  PlanLog log_;
};

constexpr uint64_t kEach = 300;  // operations of an engine

// How many requests were preempted.
uint64_t play(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "KVC_TEST_SEED=" << seed);
  Player player(seed);
  for (uint64_t i = 0; i < kEach && !testing::Test::HasFailure(); ++i) {
    player.step();
    player.check();
  }
  if (!testing::Test::HasFailure()) player.drain();
  return player.preemptions();
}

TEST(SchedulerRandomTest, EveryRequestGetsItsTokensWhateverHappens) {
  const uint64_t operations = number_from("KVC_TEST_OPERATIONS", rounds<uint64_t>(12000)),
                 first = number_from("KVC_TEST_SEED", 1);
  uint64_t preemptions = 0;
  for (uint64_t seed = first; (seed - first) * kEach < operations; ++seed) {
    preemptions += play(seed);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(preemptions, operations / 1000) << "pools are never short";
}

// In this engine with an offload a plan is empty, and its step alone holds blocks: pressure must not count
// them.
TEST(SchedulerRandomTest, TheLastPlanOfAnIdleEngineEndsPressure) { play(688); }

TEST(SchedulerRandomTest, TheSameCallsGiveTheSamePlans) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    uint64_t digests[2];
    for (uint64_t& digest : digests) {
      Player player(seed);
      for (int i = 0; i < 300; ++i) player.step();
      digest = player.digest();
      player.drain();
    }
    EXPECT_EQ(digests[0], digests[1]) << "seed " << seed;
  }
}

// bindings/python/tests/test_scheduler_plans.py makes the same calls in Python. KVC_TEST_WRITE_PLANS=1 writes
// the file anew.
TEST(SchedulerRandomTest, PlansAreTheSameInEachBuildAndLanguage) {
  const std::string path = std::string(kGoldenFolder) + "/plans.txt";
  std::string text =
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# Random calls of an engine of each policy, and digests of the plans: plan_log.h, random_test.cc.";
  for (uint32_t policy = 0; policy <= KVC_SCHEDULE_ADAPTIVE; ++policy) {
    for (uint64_t seed = 100;; ++seed) {
      Player player(seed);
      if (player.policy() != policy || player.has_offload()) continue;
      for (int i = 0; i < 250; ++i) player.step();
      text += player.text();
      player.drain();
      break;
    }
  }
  text += '\n';
  if (std::getenv("KVC_TEST_WRITE_PLANS") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  const std::string golden((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::istringstream lines(text), golden_lines(golden);
  std::string line, golden_line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    std::getline(golden_lines, golden_line);
    ASSERT_EQ(line, golden_line) << "line " << number << " of " << path;
  }
  EXPECT_EQ(text.size(), golden.size());
}

}  // namespace
}  // namespace kvc::test
