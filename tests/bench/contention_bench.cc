// SPDX-License-Identifier: Apache-2.0
//
// How long a probe takes, at worst, while another thread admits, commits and frees prompts of 131,072 tokens:
// p50 and p99 beside those without a writer. Needs two processors to say something about the lock alone.
#include <kvcache/prefix.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "bench.h"
#include "calls.h"

namespace {

constexpr size_t kLong = 131072, kShort = 2048;

/// range(0): 1 = with the writer.
void BM_ProbeBesideAWriter(benchmark::State& state) {
  const bench::ManagerPtr manager = bench::make_manager(100000);
  kvc_manager* m = manager.get();
  std::vector<int32_t> tokens(kShort);
  bench::make_prompt(1, &tokens);
  uint64_t id = 0;
  BENCH_CHECK(
      kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), kShort, nullptr, 0), nullptr, &id, nullptr));
  BENCH_CHECK(kvc_manager_commit_tokens(m, id, kShort));  // held: it is hit each time

  std::atomic<bool> stop{state.range(0) == 0};
  std::atomic<uint64_t> admitted{0};
  std::thread writer([&] {
    std::vector<int32_t> prompt(kLong);
    for (uint64_t number = 2; !stop; ++number) {
      bench::make_prompt(number, &prompt);
      uint64_t request = 0;
      BENCH_CHECK(kvc_manager_allocate_request(m, PROMPT(0, prompt.data(), kLong, nullptr, 0), nullptr,
                                               &request, nullptr));
      BENCH_CHECK(kvc_manager_commit_tokens(m, request, kLong));
      BENCH_CHECK(kvc_manager_free_request(m, request));
      ++admitted;
    }
  });
  std::vector<double> times;
  kvc_probe_info info = {};
  info.struct_size = sizeof info;
  for (auto _ : state) {
    const double begin = bench::now_ns();
    const kvc_status status = kvc_manager_probe(m, PROMPT(0, tokens.data(), kShort, nullptr, 0), &info);
    const double ns = bench::now_ns() - begin;
    times.push_back(ns);
    state.SetIterationTime(1e-9 * ns);
    if (status != KVC_OK || info.num_cached != kShort - bench::kBlockSize) {
      state.SkipWithError("the prompt is not hit");
      break;
    }
  }
  stop = true;
  writer.join();
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  state.counters["p50_us"] = times[times.size() / 2] / 1e3;
  state.counters["p99_us"] = times[times.size() * 99 / 100] / 1e3;
  state.counters["max_us"] = times.back() / 1e3;
  state.counters["admitted"] = static_cast<double>(admitted);
}
BENCHMARK(BM_ProbeBesideAWriter)
    ->ArgName("writer")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->MinTime(1.0)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
