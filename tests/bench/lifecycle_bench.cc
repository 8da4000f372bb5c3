// SPDX-License-Identifier: Apache-2.0
//
// Prompts that nobody has seen through a full pool: every block taken is an eviction, every block committed
// becomes findable. Hashing is done when the request is created, before the clock starts. Also forks.
#include "bench.h"
#include "calls.h"

namespace {

using bench::Filled;

/// admit + commit is the timed whole; its parts, and the free after it, are counters in ns per block.
void BM_AdmitCommitEvict(benchmark::State& state) {
  Filled& pool = bench::filled(static_cast<uint64_t>(state.range(0)), true);
  kvc_manager* m = pool.manager.get();
  std::vector<int32_t> tokens(pool.prompt_blocks * bench::kBlockSize);
  bench::Stopwatch admit, commit, release;
  const kvc_stats before = bench::stats_of(m);
  for (auto _ : state) {
    bench::make_prompt(pool.next_prompt++, &tokens);
    uint64_t request = 0, cached = 1;
    BENCH_CHECK(kvc_manager_create_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                           &request));
    kvc_status status = KVC_OK;
    double spent = admit.time([&] { status = kvc_manager_admit_request(m, request, &cached); });
    if (status == KVC_OK) {
      spent += commit.time([&] { status = kvc_manager_commit_tokens(m, request, tokens.size()); });
    }
    state.SetIterationTime(1e-9 * spent);
    if (status != KVC_OK || cached != 0) {
      state.SkipWithError("the prompt was not admitted as an unknown one");
      break;
    }
    release.time([&] { status = kvc_manager_free_request(m, request); });
    if (status != KVC_OK) state.SkipWithError(kvc_last_error());
  }
  const kvc_stats after = bench::stats_of(m);
  const uint64_t expected = static_cast<uint64_t>(state.iterations()) * pool.prompt_blocks;
  if (after.published_blocks - before.published_blocks != expected)
    state.SkipWithError("not every block was published");
  if (after.evictions - before.evictions != expected) state.SkipWithError("not every block was evicted for");
  const auto blocks = static_cast<double>(expected);
  state.counters["ns/block"] = (admit.total_ns() + commit.total_ns()) / blocks;
  state.counters["admit_ns/block"] = admit.total_ns() / blocks;
  state.counters["commit_ns/block"] = commit.total_ns() / blocks;
  state.counters["free_ns/block"] = release.total_ns() / blocks;
}
BENCHMARK(BM_AdmitCommitEvict)->Apply(bench::pools_3_to_7);

/// The same prompt again and again, nothing cached between: blocks come from the list of free ones.
void BM_AdmitUncached(benchmark::State& state) {
  const auto num_blocks = static_cast<uint64_t>(state.range(0));
  const bench::ManagerPtr manager = bench::make_manager(num_blocks);
  kvc_manager* m = manager.get();
  const size_t prompt_blocks = std::min<uint64_t>(bench::kPromptBlocks, num_blocks / 4);
  std::vector<int32_t> tokens(prompt_blocks * bench::kBlockSize);
  bench::make_prompt(1, &tokens);
  bench::Stopwatch admit, release;
  for (auto _ : state) {
    uint64_t request = 0, cached = 1;
    BENCH_CHECK(kvc_manager_create_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                           &request));
    kvc_status status = KVC_OK;
    state.SetIterationTime(1e-9 *
                           admit.time([&] { status = kvc_manager_admit_request(m, request, &cached); }));
    if (status != KVC_OK || cached != 0) {
      state.SkipWithError("the prompt was not admitted as an unknown one");
      break;
    }
    release.time(
        [&] { status = kvc_manager_free_request(m, request); });  // nothing committed: all blocks become free
    if (status != KVC_OK) state.SkipWithError(kvc_last_error());
  }
  if (bench::stats_of(m).blocks_free != num_blocks) state.SkipWithError("blocks are missing");
  const double blocks = static_cast<double>(state.iterations()) * static_cast<double>(prompt_blocks);
  state.counters["ns/block"] = admit.total_ns() / blocks;
  state.counters["free_ns/block"] = release.total_ns() / blocks;
}
BENCHMARK(BM_AdmitUncached)->Apply(bench::pools_3_to_7);

/// A fork shares the blocks of 8,192 committed tokens; freeing the child gives them back to the parent alone.
void BM_Fork(benchmark::State& state) {
  const bench::ManagerPtr manager = bench::make_manager(static_cast<uint64_t>(state.range(0)));
  kvc_manager* m = manager.get();
  std::vector<int32_t> tokens(bench::kPromptBlocks * bench::kBlockSize);
  bench::make_prompt(1, &tokens);
  uint64_t parent = 0;
  BENCH_CHECK(kvc_manager_allocate_request(m, PROMPT(0, tokens.data(), tokens.size(), nullptr, 0), nullptr,
                                           &parent, nullptr));
  BENCH_CHECK(kvc_manager_commit_tokens(m, parent, tokens.size()));
  bench::Stopwatch fork, release;
  kvc_request_info info = {};
  info.struct_size = sizeof info;
  for (auto _ : state) {
    uint64_t child = 0;
    kvc_status status = KVC_OK;
    state.SetIterationTime(1e-9 * fork.time([&] { status = kvc_manager_fork_request(m, parent, &child); }));
    if (status != KVC_OK || kvc_manager_request_info(m, child, &info) != KVC_OK ||
        info.num_blocks != bench::kPromptBlocks) {
      state.SkipWithError("the child does not hold the parent's blocks");
      break;
    }
    release.time([&] { status = kvc_manager_free_request(m, child); });
    if (status != KVC_OK) state.SkipWithError(kvc_last_error());
  }
  if (bench::stats_of(m).blocks_live != bench::kPromptBlocks) state.SkipWithError("blocks are missing");
  const double blocks = static_cast<double>(state.iterations()) * static_cast<double>(bench::kPromptBlocks);
  state.counters["ns/block"] = fork.total_ns() / blocks;
  state.counters["free_ns/block"] = release.total_ns() / blocks;
}
BENCHMARK(BM_Fork)->ArgName("pool")->Arg(1000)->Arg(100000)->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
