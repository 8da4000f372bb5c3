// SPDX-License-Identifier: Apache-2.0
//
// What looking on costs: events on the path of the calls that make them, with and without a reader; a
// request's state.
#include "bench.h"
#include "calls.h"
#include "event_calls.h"

namespace {

struct Reader {
  std::vector<kvc_event> events;
  std::vector<int32_t> tokens;
  uint64_t cursor = 0;

  explicit Reader(size_t capacity) : events(capacity), tokens(capacity * bench::kBlockSize) {}
  // Reads all events; returns how many.
  uint64_t read(kvc_manager* m) {
    uint64_t total = 0;
    for (size_t count = 1; count != 0; total += count) {
      BENCH_CHECK(poll_events(m, &cursor, events.data(), sizeof(kvc_event), events.size(), &count,
                              tokens.data(), tokens.size()));
    }
    return total;
  }
};

/// Unknown prompts through a full pool of 10,000 blocks: each block stores an event and removes one. range(0)
/// is event_capacity, 0 = no events; range(1) = 1: a reader reads after each prompt, outside the timed part.
void BM_Events(benchmark::State& state) {
  const auto capacity = static_cast<uint64_t>(state.range(0));
  const bool reads = state.range(1) != 0;
  const bench::ManagerPtr manager = bench::make_manager(10000, 64, capacity);
  kvc_manager* m = manager.get();
  std::vector<int32_t> tokens(bench::kPromptBlocks * bench::kBlockSize);
  Reader reader(256);
  bench::Stopwatch calls, reading;
  uint64_t number = 0, events = 0, blocks = 0;
  const auto run = [&](bench::Stopwatch& watch) {
    bench::make_prompt(number++, &tokens);
    uint64_t request = 0;
    BENCH_CHECK(kvc_manager_create_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                           &request));
    const double spent = watch.time([&] {
      BENCH_CHECK(kvc_manager_admit_request(m, request, nullptr));
      BENCH_CHECK(kvc_manager_commit_tokens(m, request, tokens.size()));
      BENCH_CHECK(kvc_manager_free_request(m, request));
    });
    blocks += bench::kPromptBlocks;
    return spent;
  };
  bench::Stopwatch warm;
  for (int i = 0; i < 40; ++i) run(warm);
  if (reads) reader.read(m);
  blocks = 0;
  for (auto _ : state) {
    state.SetIterationTime(1e-9 * run(calls));
    if (reads) reading.time([&] { events += reader.read(m); });
  }
  if (reads && events < 2 * blocks) state.SkipWithError("events are missing");
  state.counters["ns/block"] = calls.total_ns() / static_cast<double>(blocks);
  if (reads) state.counters["read_ns/event"] = reading.total_ns() / static_cast<double>(events);
}
BENCHMARK(BM_Events)
    ->ArgNames({"capacity", "reader"})
    ->Args({0, 0})
    ->Args({4096, 0})
    ->Args({65536, 0})
    ->Args({65536, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

void BM_RequestInfo(benchmark::State& state) {
  const auto length = static_cast<size_t>(state.range(0));
  const bench::ManagerPtr manager = bench::make_manager(length / bench::kBlockSize);
  kvc_manager* m = manager.get();
  std::vector<int32_t> tokens(length);
  bench::make_prompt(1, &tokens);
  uint64_t request = 0;
  BENCH_CHECK(kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                           &request, nullptr));
  kvc_request_info info = {};
  info.struct_size = sizeof info;
  for (auto _ : state) {
    BENCH_CHECK(kvc_manager_request_info(m, request, &info));
    benchmark::DoNotOptimize(info.num_blocks);
  }
}
BENCHMARK(BM_RequestInfo)->ArgName("tokens")->Arg(1 << 10)->Arg(1 << 20);

}  // namespace
