// SPDX-License-Identifier: Apache-2.0
//
// Matching: probes of cached and of unknown prompts, and admissions of cached ones. Prompts are drawn at
// random from all that fill the pool, so the index is as cold as its size makes it; the "hot" variants ask
// for one prompt again and again.
#include <kvcache/prefix.h>

#include "bench.h"
#include "calls.h"

namespace {

using bench::Filled;

enum class Draw { kAny, kOne, kUnknown };

uint64_t draw(const Filled& pool, Draw which, uint64_t i) {
  if (which == Draw::kOne) return 0;
  if (which == Draw::kUnknown) return (uint64_t{1} << 40) + i;
  return bench::mix(i) % pool.num_prompts;
}

void finish(benchmark::State& state, const Filled& pool, double total_ns) {
  const auto blocks = static_cast<double>(pool.prompt_blocks);
  state.counters["ns/block"] = total_ns / (static_cast<double>(state.iterations()) * blocks);
  state.counters["blocks"] = blocks;
}

/// Check, hash and look up, in one call that changes nothing.
void probe(benchmark::State& state, Draw which) {
  Filled& pool = bench::filled(static_cast<uint64_t>(state.range(0)), false);
  std::vector<int32_t> tokens(pool.prompt_blocks * bench::kBlockSize);
  const uint64_t expected = which == Draw::kUnknown ? 0 : (pool.prompt_blocks - 1) * bench::kBlockSize;
  kvc_probe_info info = {};
  info.struct_size = sizeof info;
  bench::Stopwatch watch;
  uint64_t i = 0;
  for (auto _ : state) {
    bench::make_prompt(draw(pool, which, i++), &tokens);
    kvc_status status = KVC_OK;
    state.SetIterationTime(1e-9 * watch.time([&] {
      status =
          kvc_manager_probe(pool.manager.get(), PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), &info);
    }));
    if (status != KVC_OK || info.num_cached != expected) {
      state.SkipWithError("the probe found another number of tokens");
      break;
    }
  }
  finish(state, pool, watch.total_ns());
}
void BM_ProbeHit(benchmark::State& state) { probe(state, Draw::kAny); }
void BM_ProbeHitHot(benchmark::State& state) { probe(state, Draw::kOne); }
void BM_ProbeMiss(benchmark::State& state) { probe(state, Draw::kUnknown); }
BENCHMARK(BM_ProbeHit)->Apply(bench::pools_3_to_7);
BENCHMARK(BM_ProbeHitHot)->Apply(bench::pools_3_to_7);
BENCHMARK(BM_ProbeMiss)->Apply(bench::pools_3_to_7);

/// Match and take hold of a cached prompt. With `hashing` the timed part is kvc_manager_allocate_request;
/// without, the request is created before and the timed part is kvc_manager_admit_request.
void admit_cached(benchmark::State& state, Draw which, bool hashing) {
  Filled& pool = bench::filled(static_cast<uint64_t>(state.range(0)), false);
  kvc_manager* m = pool.manager.get();
  std::vector<int32_t> tokens(pool.prompt_blocks * bench::kBlockSize);
  const uint64_t expected = (pool.prompt_blocks - 1) * bench::kBlockSize;
  bench::Stopwatch watch, release;
  uint64_t i = 0;
  for (auto _ : state) {
    bench::make_prompt(draw(pool, which, i++), &tokens);
    uint64_t request = 0, cached = 0;
    kvc_status status = KVC_OK;
    if (hashing) {
      state.SetIterationTime(1e-9 * watch.time([&] {
        status = kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                              &request, &cached);
      }));
    } else {
      BENCH_CHECK(kvc_manager_create_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                             &request));
      state.SetIterationTime(1e-9 *
                             watch.time([&] { status = kvc_manager_admit_request(m, request, &cached); }));
    }
    if (status != KVC_OK || cached != expected) {
      state.SkipWithError("the admission found another number of tokens");
      break;
    }
    release.time([&] { status = kvc_manager_free_request(m, request); });
    if (status != KVC_OK) state.SkipWithError(kvc_last_error());
  }
  finish(state, pool, watch.total_ns());
  state.counters["free_ns/block"] = release.total_ns() / (static_cast<double>(state.iterations()) *
                                                          static_cast<double>(pool.prompt_blocks));
}
void BM_AdmitCached(benchmark::State& state) { admit_cached(state, Draw::kAny, false); }
void BM_AdmitCachedHot(benchmark::State& state) { admit_cached(state, Draw::kOne, false); }
void BM_AllocateCached(benchmark::State& state) { admit_cached(state, Draw::kAny, true); }
BENCHMARK(BM_AdmitCached)->Apply(bench::pools_3_to_7);
BENCHMARK(BM_AdmitCachedHot)->Apply(bench::pools_3_to_7);
BENCHMARK(BM_AllocateCached)->Apply(bench::pools_3_to_7);

}  // namespace
