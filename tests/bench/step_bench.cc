// SPDX-License-Identifier: Apache-2.0
//
// The decode step: requests at contexts of 8,192 tokens, each committed and extended by one token per step,
// with block tables, change list and slots. Lengths are staggered so that one request in sixteen crosses into
// a new block in each step. The timed part is kvc_manager_step alone; filling its arrays is the engine's
// work.
#include "bench.h"
#include "calls.h"

namespace {

constexpr size_t kContext = bench::kPromptBlocks * bench::kBlockSize;
constexpr size_t kGrowth = 512;  // steps until all requests are cut back to kContext, outside the clock
constexpr size_t kStride = (kContext + kGrowth) / bench::kBlockSize + 2;

template <class T>
T* array(const bench::StepPtr& step, int32_t which) {
  kvc_view view;
  BENCH_CHECK(kvc_step_view(step.get(), which, &view));
  return static_cast<T*>(view.data);
}

struct Batch {
  Batch(size_t size, bool staggered)
      : manager(bench::make_manager(size * (kStride + 1) + 16, size)), ids(size), length(size), base(size) {
    kvc_step_limits limits = {};
    limits.struct_size = sizeof limits;
    limits.max_requests = limits.max_tokens = limits.max_rows = size;
    limits.row_stride = kStride;
    limits.max_changes = 0;
    kvc_step* made = nullptr;
    BENCH_CHECK(kvc_step_create(manager.get(), &limits, &made));
    step.reset(made);
    requests = array<uint64_t>(step, KVC_STEP_REQUESTS);
    committed = array<uint64_t>(step, KVC_STEP_COMMITTED);
    tokens = array<int32_t>(step, KVC_STEP_EXTEND_TOKENS);
    auto* offsets = array<uint64_t>(step, KVC_STEP_EXTEND_OFFSETS);
    auto* rows = array<int32_t>(step, KVC_STEP_ROWS);
    step->num_requests = size;
    std::vector<int32_t> prompt(kContext);
    for (size_t i = 0; i < size; ++i) {
      base[i] = length[i] = kContext - (staggered ? i % bench::kBlockSize : 0);
      bench::make_prompt(i, &prompt);
      BENCH_CHECK(kvc_manager_allocate_request(manager.get(), PROMPT(0, prompt.data(), length[i], nullptr, 0),
                                               nullptr, &ids[i], nullptr));
      requests[i] = ids[i];
      offsets[i + 1] = i + 1;
      rows[i] = static_cast<int32_t>(i);
    }
  }

  void prepare(uint64_t now) {
    for (size_t i = 0; i < ids.size(); ++i) {
      committed[i] = length[i]++;
      tokens[i] = static_cast<int32_t>((now + i) % 128000);
    }
    step->retired_step = step->step_id;
  }

  void cut_back() {
    for (size_t i = 0; i < ids.size(); ++i) {
      length[i] = base[i];
      BENCH_CHECK(kvc_manager_truncate_request(manager.get(), ids[i], base[i]));
    }
  }

  /// Whether the last step did what it should: statuses, slots, and every row as the library itself exports
  /// it.
  const char* fault() const {
    std::vector<int32_t> row(kStride);
    for (size_t i = 0; i < ids.size(); ++i) {
      const int32_t* shown = step->block_tables + i * kStride;
      if (step->status[i] != KVC_OK) return "a request was not extended";
      BENCH_CHECK(kvc_manager_export_tables(manager.get(), &ids[i], 1, 0, -1, row.data(), kStride));
      if (!std::equal(row.begin(), row.end(), shown)) return "a row differs from kvc_manager_export_tables";
      const size_t last = length[i] - 1;
      const int64_t slot = int64_t{row[last / bench::kBlockSize]} * static_cast<int64_t>(bench::kBlockSize) +
                           static_cast<int64_t>(last % bench::kBlockSize);
      if (step->slots[i] != slot) return "a slot is not where the table says";
    }
    return nullptr;
  }

  bench::ManagerPtr manager;
  bench::StepPtr step;  // goes before its manager
  std::vector<uint64_t> ids, length, base;
  uint64_t *requests = nullptr, *committed = nullptr;
  int32_t* tokens = nullptr;
};

/// `staggered`: one request in sixteen takes a block in each step. Else all do so in the same step, which is
/// not timed.
void decode(benchmark::State& state, bool staggered) {
  const auto size = static_cast<size_t>(state.range(0));
  Batch batch(size, staggered);
  kvc_manager* m = batch.manager.get();
  bench::Stopwatch watch;
  uint64_t now = 0, steps_since_cut = 0, changes = 0;
  kvc_status status = KVC_OK;
  const auto untimed_step = [&] {
    batch.prepare(now++);
    BENCH_CHECK(kvc_manager_step(m, batch.step.get()));
    ++steps_since_cut;
  };
  untimed_step();  // writes whole rows
  for (auto _ : state) {
    if (steps_since_cut >= kGrowth - bench::kBlockSize) {
      batch.cut_back();
      steps_since_cut = 0;
      untimed_step();
    }
    if (!staggered && batch.length[0] % bench::kBlockSize == 0) untimed_step();
    batch.prepare(now++);
    state.SetIterationTime(1e-9 * watch.time([&] { status = kvc_manager_step(m, batch.step.get()); }));
    ++steps_since_cut;
    changes += batch.step->num_changes;
    if (status != KVC_OK) {
      state.SkipWithError(kvc_last_error());
      break;
    }
  }
  if (const char* fault = batch.fault(); fault != nullptr) state.SkipWithError(fault);
  const auto steps = static_cast<double>(state.iterations());
  const double per_request = static_cast<double>(changes) / (steps * static_cast<double>(size));
  const double expected = staggered ? 1.0 / bench::kBlockSize : 0;
  if (state.iterations() >= 64 && (per_request < 0.9 * expected || per_request > 1.1 * expected)) {
    state.SkipWithError("another number of requests than expected got a block");
  }
  state.counters["us/step"] = watch.total_ns() / steps / 1e3;
  state.counters["ns/request"] = watch.total_ns() / steps / static_cast<double>(size);
}
void BM_DecodeStep(benchmark::State& state) { decode(state, true); }
void BM_DecodeStepInsideBlocks(benchmark::State& state) { decode(state, false); }

void batch_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("requests")
      ->Arg(1)
      ->Arg(64)
      ->Arg(256)
      ->Arg(1024)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK(BM_DecodeStep)->Apply(batch_sizes);
BENCHMARK(BM_DecodeStepInsideBlocks)->Apply(batch_sizes);

}  // namespace
