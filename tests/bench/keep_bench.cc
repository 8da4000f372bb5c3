// SPDX-License-Identifier: Apache-2.0
// What hints, quotas and policies cost where every block evicts another: admission and commit of prompts of
// 512 blocks that nobody has seen, in a pool full of cached ones.
#include <kvcache/quota.h>
#include <kvcache/retention.h>

#include "bench.h"
#include "calls.h"

namespace {

enum Way { kLru, kFrequency, kHintsUnused, kHints, kQuotas2, kQuotas63 };

struct Keeper {
  bench::ManagerPtr manager;
  std::vector<uint64_t> namespaces;
  uint64_t next_prompt = 0, now_ns = 0;
};

Keeper make_keeper(Way way, uint64_t num_blocks) {
  Keeper keeper;
  kvc_manager_config config = {};
  config.struct_size = sizeof config;
  config.num_blocks = num_blocks;
  config.block_size = bench::kBlockSize;
  config.seed = 1;
  config.policy = way == kFrequency ? KVC_POLICY_FREQUENCY : KVC_POLICY_LRU;
  config.flags = way == kHints || way == kHintsUnused ? KVC_MANAGER_HINTS : 0;
  config.max_quotas = way == kQuotas2 ? 2 : way == kQuotas63 ? 63 : 0;
  kvc_manager* m = nullptr;
  BENCH_CHECK(kvc_manager_create(&config, &m));
  keeper.manager.reset(m);
  keeper.namespaces.assign(1, 0);
  for (uint32_t i = 0; i < config.max_quotas; ++i) {
    kvc_namespace_config tenant = {};
    tenant.struct_size = sizeof tenant;
    tenant.tenant = &i, tenant.tenant_size = sizeof i;
    uint64_t id = 0;
    BENCH_CHECK(kvc_manager_open_namespace(m, &tenant, &id));
    BENCH_CHECK(kvc_manager_set_quota(m, id, 0, num_blocks / 2 / config.max_quotas, 0));
    keeper.namespaces.push_back(id);
  }
  return keeper;
}

/// One request from creation to its end; returns the nanoseconds of its admission and commit.
double serve(Keeper& keeper, Way way, std::vector<int32_t>& tokens) {
  kvc_manager* m = keeper.manager.get();
  const uint64_t ns = keeper.namespaces[keeper.next_prompt % keeper.namespaces.size()];
  bench::make_prompt(keeper.next_prompt++, &tokens);
  uint64_t request = 0, cached = 0;
  BENCH_CHECK(
      kvc_manager_create_request(m, PROMPT(ns, tokens.data(), tokens.size(), nullptr, 0), nullptr, &request));
  if (way == kHints) {  // a minute, of which a request takes a hundredth
    BENCH_CHECK(kvc_manager_set_time(m, keeper.now_ns += 600000000));
    BENCH_CHECK(kvc_manager_set_priority(m, request, 0, tokens.size() / 2,
                                         20 + static_cast<uint32_t>(keeper.next_prompt % 40),
                                         keeper.now_ns + 60000000000));
  }
  bench::Stopwatch watch;
  watch.time([&] {
    BENCH_CHECK(kvc_manager_admit_request(m, request, &cached));
    BENCH_CHECK(kvc_manager_commit_tokens(m, request, tokens.size()));
  });
  BENCH_CHECK(kvc_manager_free_request(m, request));
  return watch.total_ns();
}

void BM_KeepBy(benchmark::State& state, Way way) {
  const auto num_blocks = static_cast<uint64_t>(state.range(0));
  Keeper keeper = make_keeper(way, num_blocks);
  std::vector<int32_t> tokens(bench::kPromptBlocks * bench::kBlockSize);
  for (uint64_t blocks = 0; blocks < 2 * num_blocks; blocks += bench::kPromptBlocks)
    serve(keeper, way, tokens);
  const uint64_t before = bench::stats_of(keeper.manager.get()).evictions;
  double spent = 0;
  for (auto _ : state) {
    const double ns = serve(keeper, way, tokens);
    state.SetIterationTime(1e-9 * ns);
    spent += ns;
  }
  const auto blocks = static_cast<double>(state.iterations()) * bench::kPromptBlocks;
  state.counters["ns/block"] = spent / blocks;
  state.counters["evictions/block"] =
      static_cast<double>(bench::stats_of(keeper.manager.get()).evictions - before) / blocks;
}
#define KEEP_BY(name, way)                \
  BENCHMARK_CAPTURE(BM_KeepBy, name, way) \
      ->Arg(100000)                       \
      ->ArgName("pool")                   \
      ->UseManualTime()                   \
      ->Unit(benchmark::kMicrosecond)
KEEP_BY(lru, kLru);
KEEP_BY(frequency, kFrequency);
KEEP_BY(hints_unused, kHintsUnused);
KEEP_BY(hints, kHints);
KEEP_BY(quotas_of_2, kQuotas2);
KEEP_BY(quotas_of_63, kQuotas63);

}  // namespace
