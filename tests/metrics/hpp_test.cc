// SPDX-License-Identifier: Apache-2.0
// kvcache/metrics.hpp: sources keep their labels, buffers grow, failures throw.
#include <gtest/gtest.h>

#include <kvcache.hpp>
#include <kvcache/metrics.hpp>

namespace {

TEST(MetricsHpp, RendersAndReads) {
  auto config = kvc::make<kvc_manager_config>();
  config.num_blocks = 64;
  kvc::Manager a(config), b(config);
  std::vector<kvc::MetricsSource> sources;
  for (int i = 0; i < 20; ++i)  // more than the first buffer has room for
    sources.push_back({i % 2 == 0 ? a.get() : b.get(), {{"model", "llama"}, {"i", std::to_string(i)}}});
  kvc::enable_latencies(sources);
  const std::string text = kvc::render_metrics(sources, KVC_METRICS_VLLM_NAMES);
  EXPECT_GT(text.size(), size_t{1} << 16);
  EXPECT_NE(text.find("kvcache_resets_total{i=\"19\",model=\"llama\"} 0\n"), std::string::npos);
  EXPECT_NE(text.find("vllm:prefix_cache_hits_total"), std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 6), "# EOF\n");
  EXPECT_EQ(kvc::read_latency(sources[0], KVC_LATENCY_STEP).count, 0u);
  EXPECT_EQ(kvc::read_memory(sources).metadata_bytes,
            20 * kvc::read_memory(kvc::Span<const kvc::MetricsSource>(sources.data(), 1)).metadata_bytes);
  EXPECT_THROW(kvc::read_latency(sources[0], KVC_LATENCY_PLAN), kvc::Error);
  sources.push_back(sources[0]);
  EXPECT_THROW(kvc::render_metrics(sources), kvc::Error);
}

}  // namespace
