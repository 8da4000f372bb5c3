// SPDX-License-Identifier: Apache-2.0
// Replays a trace against the library as a synchronous engine with continuous batching would drive it, and
// measures hits and the time inside library calls.
#pragma once

#include <kvcache.h>

#include <cstdint>

#include "cli/trace.h"

namespace kvcli {

struct ReplayOptions {
  uint64_t num_blocks = 100'000;
  uint32_t block_size = 16;
  uint32_t concurrency = 16;  // Live requests at most.
  uint32_t policy = KVC_POLICY_LRU;
  bool commit_late = false;      // Prompts are committed after all admissions of a round, not one by one.
  bool maintain_tables = false;  // Each decode step also keeps block tables and writes slots.
  bool verify = false;           // Check every hit and every write with an Oracle.
};

/// Prompt, cached and queried tokens and blocks count a request's first admission; a token is an output token
/// once.
struct ReplayResult {
  uint64_t requests = 0;
  uint64_t rejected = 0;  // Longer than the pool: could never run.
  uint64_t preemptions = 0;
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t output_tokens = 0;
  uint64_t block_queries = 0;
  uint64_t block_hits = 0;
  uint64_t evictions = 0;
  uint64_t peak_live_blocks = 0;
  uint64_t failed_allocations = 0;  // Admissions and extensions that found no space.
  uint64_t wrong_hits = 0;
  uint64_t wrong_writes = 0;
  uint64_t prompt_blocks = 0;  // Blocks of all prompts, partial ones included.
  uint64_t step_calls = 0;     // Decode steps.
  double prompt_seconds = 0;   // Creating, admitting and committing prompts.
  double decode_seconds = 0;
  double release_seconds = 0;

  double manager_seconds() const { return prompt_seconds + decode_seconds + release_seconds; }
  double hit_rate() const;
  double ns_per_prompt_block() const;
  double ns_per_decode_step() const;  // Per output token.
  double ns_per_step_call() const;
};

/// Throws LibraryError if a call fails, or if the library's statistics contradict the engine's own counts.
ReplayResult replay(const Trace& trace, const ReplayOptions& options);

}  // namespace kvcli
