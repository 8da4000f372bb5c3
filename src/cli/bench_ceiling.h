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

/// One line that compares `reached` bytes per second with the ceiling, and a second one if that is more than
/// the ceiling.
void print_ratio(const BenchOptions& options, const Ceiling& ceiling, double reached, std::ostream& out);

}  // namespace kvcli
