// SPDX-License-Identifier: Apache-2.0
// A synthetic trace with the statistics of a chat service, for use without a recorded one.
#pragma once

#include <cstdint>

#include "cli/trace.h"

namespace kvcli {

inline constexpr uint64_t kMaxGeneratedRequests = 1'000'000;

/// The same seed gives the same trace on every machine. A longer trace starts with the shorter one.
Trace generate_trace(uint64_t num_requests, uint64_t seed);

}  // namespace kvcli
