// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks share: prompts, a pool that is full of cached prompts, a clock for the timed part, and
// the pool sizes that this machine has memory for. Benchmarks use the C API alone, as an engine would. Times
// are taken by hand around the calls in question (UseManualTime), so that making prompts and checking results
// costs nothing.
#ifndef KVC_TESTS_BENCH_BENCH_H_
#define KVC_TESTS_BENCH_BENCH_H_

#include <benchmark/benchmark.h>
#include <kvcache/manager.h>
#include <kvcache/step.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

namespace bench {

inline constexpr size_t kBlockSize = 16;
inline constexpr size_t kPromptBlocks = 512;  // 8,192 tokens

inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Token ids below 128,000; other numbers give other prompts from the first block on.
inline void make_prompt(uint64_t number, std::vector<int32_t>* tokens) {
  uint64_t state = mix(number);
  for (int32_t& token : *tokens) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    token = static_cast<int32_t>((state >> 33) * 128000 >> 31);
  }
}

/// Ends the program: set-up that fails leaves nothing to measure.
inline void check(kvc_status status, const char* what) {
  if (status == KVC_OK) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, kvc_status_name(status), kvc_last_error());
  std::exit(1);
}
#define BENCH_CHECK(call) ::bench::check((call), #call)

inline double now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

/// Sums the time of one part of each iteration.
class Stopwatch {
 public:
  template <class Function>
  double time(Function&& function) {
    const double begin = now_ns();
    function();
    const double spent = now_ns() - begin;
    total_ns_ += spent;
    return spent;
  }
  double total_ns() const { return total_ns_; }

 private:
  double total_ns_ = 0;
};

struct Destroy {
  void operator()(kvc_manager* m) const { kvc_manager_destroy(m); }
  void operator()(kvc_step* s) const { kvc_step_destroy(s); }
};
using ManagerPtr = std::unique_ptr<kvc_manager, Destroy>;
using StepPtr = std::unique_ptr<kvc_step, Destroy>;

inline ManagerPtr make_manager(uint64_t num_blocks, uint64_t max_requests = 64, uint64_t event_capacity = 0) {
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = num_blocks;
  config.block_size = kBlockSize;
  config.vocab_size = 128000;
  config.max_requests = max_requests;
  config.event_capacity = event_capacity;
  config.seed = 1;
  kvc_manager* m = nullptr;
  BENCH_CHECK(kvc_manager_create(&config, &m));
  return ManagerPtr(m);
}

inline kvc_stats stats_of(kvc_manager* m) {
  kvc_stats stats = {};
  stats.struct_size = sizeof stats;
  BENCH_CHECK(kvc_manager_read_stats(m, &stats));
  return stats;
}

/// A pool in which prompts 0 .. num_prompts - 1 are cached; room for one more prompt is left unless `full`.
struct Filled {
  uint64_t num_blocks = 0;
  bool full = false;
  size_t prompt_blocks = 0;
  uint64_t num_prompts = 0;
  uint64_t next_prompt = 0;  // never seen so far
  ManagerPtr manager;
};

/// The pool of the last call if it was the same one: filling 10^7 blocks takes seconds.
Filled& filled(uint64_t num_blocks, bool full);

/// Registers the powers of ten from 10^first to 10^last for which there is memory.
void pool_sizes(benchmark::internal::Benchmark* benchmark, int first, int last);
inline void pools_3_to_7(benchmark::internal::Benchmark* benchmark) { pool_sizes(benchmark, 3, 7); }

}  // namespace bench

#endif  // KVC_TESTS_BENCH_BENCH_H_
