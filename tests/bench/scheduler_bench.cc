// SPDX-License-Identifier: Apache-2.0
//
// The scheduler in an engine that decodes: N requests run at contexts of 500 to 1,500 tokens, 1,000 on
// average, and live for 1,000 tokens; when one ends another is added, whose prompt of 500 tokens shares
// nothing. The timed part is kvc_scheduler_plan and kvc_scheduler_finish; sampling tokens and adding requests
// is the engine's work. Async: plan n + 1 is made while plan n is in flight.
#include <kvcache/scheduler.h>

#include <deque>
#include <utility>

#include "bench.h"

namespace {

constexpr size_t kPrompt = 500, kNew = 1000;
constexpr uint32_t kPrefill = 1024;  // tokens of a plan for prompts

struct DestroyScheduler {
  void operator()(kvc_scheduler* s) const { kvc_scheduler_destroy(s); }
};

/// Nanoseconds inside calls: on the clock, and of the processor, which another program's load does not raise.
struct Spent {
  double wall, cpu;
};

double cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

class Engine {
 public:
  Engine(uint32_t running, uint32_t max_plans)
      : running_(running),
        manager_(bench::make_manager(running * ((kPrompt + kNew) / bench::kBlockSize + 4), running + 64)),
        offsets_(running + 1),
        tokens_(running),
        ended_(running) {
    kvc_scheduler_config config = {};
    config.struct_size = sizeof config;
    config.manager = manager_.get();
    config.max_running = running;
    config.max_tokens = running + kPrefill;
    config.max_plans = max_plans;
    config.max_request_tokens = kPrompt + 2 * kNew;
    kvc_scheduler* made = nullptr;
    BENCH_CHECK(kvc_scheduler_create(&config, &made));
    scheduler_.reset(made);
    // As if the requests had come one after the other: each has another part of its tokens behind it.
    for (uint32_t i = 0; i < running; ++i) {
      const size_t done = kNew * i / running;
      add(kPrompt + done, kNew - done);
    }
  }

  void plan() {
    kvc_plan made = {};
    made.struct_size = sizeof made;
    time([&] { return kvc_scheduler_plan(scheduler_.get(), 0, &made); });
    if (made.num_items != 0) plans_.push_back(made);
  }

  /// Takes the result of the oldest plan, and adds a request for each that has ended.
  void finish() {
    if (plans_.empty()) return;
    const kvc_plan plan = plans_.front();
    plans_.pop_front();
    uint64_t count = 0;
    for (size_t i = 0; i < plan.num_items; ++i) {
      if (plan.samples[i] != 0) tokens_[count++] = static_cast<int32_t>((plan.plan_id * 31 + i) % 128000);
      offsets_[i + 1] = count;
    }
    items_ += plan.num_items;
    kvc_plan_result result = {};
    result.struct_size = sizeof result;
    result.plan_id = plan.plan_id;
    result.num_items = plan.num_items;
    result.token_offsets = offsets_.data();
    result.tokens = tokens_.data();
    result.ended = ended_.data();
    time([&] { return kvc_scheduler_finish(scheduler_.get(), &result); });
    for (size_t i = 0; i < result.num_ended; ++i) add(kPrompt, kNew);
  }

  size_t plans_in_flight() const { return plans_.size(); }
  uint64_t items() const { return items_; }
  Spent take_spent() { return std::exchange(spent_, {}); }

  kvc_scheduler_stats stats() const {
    kvc_scheduler_stats stats = {};
    stats.struct_size = sizeof stats;
    BENCH_CHECK(kvc_scheduler_read_stats(scheduler_.get(), &stats));
    return stats;
  }
  bool all_run() const { return stats().running == running_; }
  void check() const {
    BENCH_CHECK(kvc_scheduler_check(scheduler_.get()));
    BENCH_CHECK(kvc_manager_check(manager_.get()));
  }

 private:
  template <class Call>
  void time(Call&& call) {
    const double cpu = cpu_ns(), wall = bench::now_ns();
    const kvc_status status = call();
    spent_.wall += bench::now_ns() - wall;
    spent_.cpu += cpu_ns() - cpu;
    bench::check(status, "the scheduler");
  }

  void add(size_t num_tokens, size_t max_new) {
    prompt_.resize(num_tokens);
    bench::make_prompt(next_prompt_++, &prompt_);
    kvc_prompt prompt = {};
    prompt.struct_size = sizeof prompt;
    prompt.tokens = prompt_.data();
    prompt.num_tokens = prompt_.size();
    kvc_schedule_job job = {};
    job.struct_size = sizeof job;
    job.prompt = &prompt;
    job.max_new_tokens = max_new;
    uint64_t id = 0;
    BENCH_CHECK(kvc_scheduler_add(scheduler_.get(), &job, &id));
  }

  uint32_t running_;
  bench::ManagerPtr manager_;
  std::unique_ptr<kvc_scheduler, DestroyScheduler> scheduler_;  // goes before its manager
  std::deque<kvc_plan> plans_;
  std::vector<uint64_t> offsets_;
  std::vector<int32_t> tokens_, prompt_;
  std::vector<kvc_ended_request> ended_;
  uint64_t next_prompt_ = 0, items_ = 0;
  Spent spent_ = {};
};

void step(benchmark::State& state, uint32_t max_plans) {
  const auto running = static_cast<uint32_t>(state.range(0));
  Engine engine(running, max_plans);
  for (int i = 0; i < 100'000 && !engine.all_run(); ++i) engine.plan(), engine.finish();
  while (engine.plans_in_flight() + 1 < max_plans) engine.plan();
  engine.take_spent();
  const uint64_t items = engine.items();
  Spent total = {};
  for (auto _ : state) {
    engine.plan();
    engine.finish();
    const Spent spent = engine.take_spent();
    total.wall += spent.wall, total.cpu += spent.cpu;
    state.SetIterationTime(spent.wall * 1e-9);
  }
  engine.check();
  const auto steps = static_cast<double>(state.iterations());
  const double batch = static_cast<double>(engine.items() - items) / steps;
  if (batch < 0.95 * running || engine.stats().preemptions != 0)
    state.SkipWithError("the batch is not full, or requests were preempted");
  state.counters["us/step"] = total.wall / steps / 1e3;
  state.counters["cpu us/step"] = total.cpu / steps / 1e3;
  state.counters["ns/request"] = total.wall / steps / batch;
  state.counters["batch"] = batch;
}

void SchedulerStep(benchmark::State& state) { step(state, 1); }
void SchedulerStepAsync(benchmark::State& state) { step(state, 2); }

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("running")->Arg(256)->Arg(1024)->UseManualTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(SchedulerStep)->Apply(sizes);
BENCHMARK(SchedulerStepAsync)->Name("SchedulerStep/async")->Apply(sizes);

}  // namespace
