// SPDX-License-Identifier: Apache-2.0
// Inputs and results of the calls of kvcache/metrics.h.
#pragma once
#include <kvcache/metrics.h>

namespace kvc::test {

struct MetricsScene {
  const kvc_label labels[1] = {{"model", "m"}};
  kvc_metrics_source sources[2] = {};
  char text[1 << 16] = {};
  size_t size = 0;
  kvc_latency latency = {};
  kvc_memory_profile profile = {};

  void bind(kvc_manager* manager, kvc_tier* tier) {
    for (kvc_metrics_source& source : sources) {
      source.struct_size = sizeof source;
      source.labels = labels, source.num_labels = 1;
    }
    sources[0].manager = manager, sources[1].tier = tier;
    latency.struct_size = sizeof latency, profile.struct_size = sizeof profile;
  }
};

}  // namespace kvc::test
