// SPDX-License-Identifier: Apache-2.0
// `kvcache bench events [URL]`: events that a publisher encodes and publishes, and what it costs a step.
#pragma once

#include "cli/bench.h"

namespace kvcli {

/// False if a block was not published.
bool print_bench_events(const BenchOptions& options, bool as_json, std::ostream& out);

}  // namespace kvcli
