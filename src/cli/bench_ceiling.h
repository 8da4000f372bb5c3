// SPDX-License-Identifier: Apache-2.0
// What a benchmark of a storage is held against.
#pragma once

#include "cli/bench.h"

namespace kvcli {

/// What the machine or the device reaches, in bytes per second.
struct Ceiling {
  const char* key;   // in JSON
  const char* verb;  // in text
  double bandwidth;
};

/// Measured now, by the means that suit the options.
Ceiling ceiling_of(const BenchOptions& options);

}  // namespace kvcli
