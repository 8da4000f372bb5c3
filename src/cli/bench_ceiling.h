// SPDX-License-Identifier: Apache-2.0
// The bandwidth that a benchmark is compared with.
#pragma once

#include "cli/bench.h"

namespace kvcli {

/// Bandwidth of the machine or the device, in bytes per second.
struct Ceiling {
  const char* key;   // in JSON
  const char* verb;  // in text
  double bandwidth;
};

/// Measures what suits the options.
Ceiling ceiling_of(const BenchOptions& options);

}  // namespace kvcli
