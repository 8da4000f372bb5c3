// SPDX-License-Identifier: Apache-2.0
//
// What a prompt costs before any lookup: creating a request checks, copies and hashes its tokens. The floor
// is the same number of bytes through XXH3 alone, and through memcpy and XXH3.
#include <cstring>

#include "bench.h"

#if __has_include(<xxhash.h>)
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "calls.h"
#define BENCH_HAVE_XXHASH 1
#endif

namespace {

constexpr size_t kSize = bench::kBlockSize;

void per_block(benchmark::State& state, double total_ns, size_t blocks) {
  state.counters["ns/block"] =
      total_ns / (static_cast<double>(state.iterations()) * static_cast<double>(blocks));
}

void prompt_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("tokens")->Arg(512)->Arg(8192)->Arg(131072)->UseManualTime()->Unit(
      benchmark::kMicrosecond);
}

#if defined(BENCH_HAVE_XXHASH)
void BM_HashFloor(benchmark::State& state) {
  std::vector<int32_t> tokens(static_cast<size_t>(state.range(0))), copy(tokens.size());
  const size_t blocks = tokens.size() / kSize;
  bench::make_prompt(1, &tokens);
  bench::Stopwatch watch;
  uint64_t chain = 0;
  for (auto _ : state) {
    state.SetIterationTime(1e-9 * watch.time([&] {
      chain = 0;
      for (size_t i = 0; i < blocks; ++i)
        chain = chain * 0x9e3779b97f4a7c15u ^ XXH3_64bits(&tokens[i * kSize], kSize * sizeof(int32_t));
      benchmark::DoNotOptimize(chain);
    }));
  }
  uint64_t again = 0;
  for (size_t i = 0; i < blocks; ++i)
    again = again * 0x9e3779b97f4a7c15u ^ XXH3_64bits(&tokens[i * kSize], kSize * sizeof(int32_t));
  if (again != chain) state.SkipWithError("the chain is not the same the second time");
  per_block(state, watch.total_ns(), blocks);
}
BENCHMARK(BM_HashFloor)->Apply(prompt_sizes);
#endif

void BM_CreateRequest(benchmark::State& state) {
  const bench::ManagerPtr manager = bench::make_manager(1000);
  kvc_manager* m = manager.get();
  std::vector<int32_t> tokens(static_cast<size_t>(state.range(0)));
  const size_t blocks = tokens.size() / kSize;
  bench::make_prompt(1, &tokens);
  bench::Stopwatch create, release;
  kvc_request_info info = {};
  info.struct_size = sizeof info;
  for (auto _ : state) {
    uint64_t request = 0;
    kvc_status status = KVC_OK;
    state.SetIterationTime(1e-9 * create.time([&] {
      status = kvc_manager_create_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                          &request);
    }));
    if (status != KVC_OK || kvc_manager_request_info(m, request, &info) != KVC_OK ||
        info.num_tokens != tokens.size()) {
      state.SkipWithError("the request does not know its tokens");
      break;
    }
    release.time([&] { status = kvc_manager_free_request(m, request); });
    if (status != KVC_OK) state.SkipWithError(kvc_last_error());
  }
  per_block(state, create.total_ns(), blocks);
  state.counters["free_ns"] = release.total_ns() / static_cast<double>(state.iterations());
}
BENCHMARK(BM_CreateRequest)->Apply(prompt_sizes);

}  // namespace
