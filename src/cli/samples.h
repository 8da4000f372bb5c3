// SPDX-License-Identifier: Apache-2.0
// `kvcache replay --samples N`: each request of a trace as N samples of its prompt, admitted together by
// steps. How many of them compute the prompt, with fills (kvcache/fills.h) and without.
#pragma once

#include <iosfwd>

#include "cli/replay.h"

namespace kvcli {

struct SamplesResult {
  uint64_t requests = 0, rejected = 0;  // Rejected ones never fit in the pool.
  uint64_t prefills = 0;                // First samples, and others that compute a block that can be shared.
  uint64_t prompt_tokens = 0, computed_tokens = 0;  // Of all samples, at their first admissions.
  uint64_t filling_hits = 0, filling_waits = 0, preemptions = 0, steps = 0;
  double seconds = 0;  // Inside steps.
};

/// Of the options it reads num_blocks, block_size, concurrency and policy.
SamplesResult replay_samples(const Trace& trace, const ReplayOptions& options, uint32_t samples, bool fills);

/// Replays with fills and without, and prints both.
void run_samples(const Trace& trace, const ReplayOptions& options, uint32_t samples, bool as_json,
                 std::ostream& out);

}  // namespace kvcli
