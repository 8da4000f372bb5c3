// SPDX-License-Identifier: Apache-2.0
// What the metrics of a source are read from: the structs of the C API, and these. A source gives some parts,
// each with its labels.
#pragma once
#include <kvcache/manager.h>
#include <kvcache/offload.h>
#include <kvcache/scheduler.h>
#include <kvcache/tier.h>

#include <string>
#include <variant>
#include <vector>

#include "observe/histogram.h"

namespace kvc {

struct MemoryUse {
  uint64_t bytes, peak_bytes;
};

struct VllmUse {
  double usage;
};

// A histogram with the bounds 2^8 ns (0.3 us), 2^9 ns, ... 2^34 ns (17 s).
struct LatencyReading {
  static constexpr uint32_t kFirstPower = 8, kLastPower = 34;
  uint64_t count, sum_ns;
  uint64_t up_to[kLastPower - kFirstPower + 1];
};
LatencyReading read_latency(const Histogram& histogram);

struct CallLatency {
  LatencyReading reading;
};
struct LoadLatency {
  LatencyReading reading;
};
struct JobLatency {
  LatencyReading reading;
};

using PartData = std::variant<kvc_stats, kvc_pool_info, kvc_scheduler_stats, kvc_tier_stats, kvc_tier_counts,
                              kvc_offload_stats, kvc_offload_tier_stats, MemoryUse, VllmUse, CallLatency,
                              LoadLatency, JobLatency>;

struct MetricsPart {
  std::string labels;  // name="value",...; may be empty
  PartData data;
};

}  // namespace kvc
