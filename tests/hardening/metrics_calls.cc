// SPDX-License-Identifier: Apache-2.0
// Rows of metrics. Latencies are those of the tier, which other scenes do not have.
#include "hardening/every_call.h"

namespace kvc::test {
namespace {

bool enabled(Scene& s) { return kvc_metrics_enable_latencies(&s.metrics.sources[1], 1) == KVC_OK; }

}  // namespace

void add_metrics_calls(std::vector<Call>& calls) {
  calls.push_back(KVC_CALL(kvc_metrics_render, s.metrics.sources, 2u, uint32_t{KVC_METRICS_VLLM_NAMES},
                           s.metrics.text, sizeof s.metrics.text, &s.metrics.size)
                      .allocating());
  calls.push_back(KVC_CALL(kvc_metrics_enable_latencies, s.metrics.sources + 1, 1u).allocating());
  calls.push_back(KVC_CALL(kvc_metrics_read_latency, s.metrics.sources + 1, uint32_t{KVC_LATENCY_TIER_PUT},
                           &s.metrics.latency)
                      .after(enabled)
                      .allocating());
  calls.push_back(KVC_CALL(kvc_metrics_read_memory, s.metrics.sources, 2u, &s.metrics.profile).allocating());
}

}  // namespace kvc::test
