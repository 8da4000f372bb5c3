// SPDX-License-Identifier: Apache-2.0
//
// What measuring costs: an empty step with latencies off and on; and the text of some managers.
#include <kvcache/metrics.h>

#include <string>

#include "bench.h"

namespace {

kvc_metrics_source source_of(kvc_manager* m) {
  kvc_metrics_source source = {};
  source.struct_size = sizeof source;
  source.manager = m;
  return source;
}

/// range(0) = 1: the manager measures its calls.
void BM_MeasuredStep(benchmark::State& state) {
  const bench::ManagerPtr manager = bench::make_manager(64);
  const kvc_metrics_source source = source_of(manager.get());
  if (state.range(0) != 0) BENCH_CHECK(kvc_metrics_enable_latencies(&source, 1));
  kvc_step step = {};
  step.struct_size = sizeof step;
  for (auto _ : state) BENCH_CHECK(kvc_manager_step(manager.get(), &step));
}
BENCHMARK(BM_MeasuredStep)->ArgName("latencies")->Arg(0)->Arg(1);

void BM_RenderMetrics(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<bench::ManagerPtr> managers;
  std::vector<std::string> numbers(count);
  std::vector<kvc_label> labels(count);
  std::vector<kvc_metrics_source> sources;
  for (size_t i = 0; i < count; ++i) {
    managers.push_back(bench::make_manager(64));
    numbers[i] = std::to_string(i);
    labels[i] = {"rank", numbers[i].c_str()};
    sources.push_back(source_of(managers[i].get()));
    sources[i].labels = &labels[i], sources[i].num_labels = 1;
  }
  BENCH_CHECK(kvc_metrics_enable_latencies(sources.data(), count));
  std::string text(size_t{1} << 22, '\0');
  size_t size = 0;
  for (auto _ : state)
    BENCH_CHECK(kvc_metrics_render(sources.data(), count, 0, text.data(), text.size(), &size));
  state.counters["bytes"] = static_cast<double>(size);
}
BENCHMARK(BM_RenderMetrics)->ArgName("managers")->Arg(1)->Arg(8)->Unit(benchmark::kMicrosecond);

}  // namespace
