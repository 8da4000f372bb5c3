// SPDX-License-Identifier: Apache-2.0
// The optimum that no eviction policy can exceed: Belady's algorithm (IBM Systems Journal 5(2), 1966), which
// knows the future, on the blocks that a replay asks for.
#pragma once

#include <cstdint>

#include "cli/trace.h"

namespace kvcli {

/// Share of all prompt tokens that a cache of `num_blocks` blocks with perfect knowledge would hold when they
/// are asked for. The accesses are the blocks that a hit may cover, (input_length - 1) / block_size of each
/// prompt, in file order, first to last. The cache keeps the blocks whose next access is nearest, and none
/// that nobody asks for again. It pays nothing for running requests, for their last blocks or for their
/// output: so it is an upper bound for a pool of this size, at any concurrency. Requests that are longer than
/// the pool run nowhere, as in replay(); their prompts count as not cached.
double optimal_hit_rate(const Trace& trace, uint64_t num_blocks, uint32_t block_size);

}  // namespace kvcli
