// SPDX-License-Identifier: Apache-2.0
// Counts and times of a replay, measured by the engine.
#pragma once
#include <kvcache/manager.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kvcli {

/// Blocks of the pool after a number of decode steps. What is neither held nor cached is free.
struct Occupancy {
  uint64_t step;
  uint64_t held;  // By requests.
  uint64_t cached;
};

/// Durations of one kind of call, in seconds.
class Latencies {
 public:
  void add(double seconds) { seconds_.push_back(static_cast<float>(seconds)); }
  /// Microseconds that `percent` of the calls did not exceed; 0 without calls.
  double percentile_us(double percent) const;

 private:
  std::vector<float> seconds_;
};

/// What a miss-ratio curve says of other sizes.
struct CurveReport {
  double sample_rate = 0;
  double sampled = 0;  // Block queries.
  uint64_t bytes = 0;
  std::vector<uint64_t> num_blocks;  // Empty without a curve.
  std::vector<double> hit_rates;     // Of block queries.
};

/// What one tier below the pool did.
struct TierReport {
  std::string url;
  uint64_t hits = 0, misses = 0;  // Pages asked for.
  uint64_t loaded_bytes = 0, stored_bytes = 0;
  uint64_t failed_loads = 0, dropped_stores = 0;
};

/// Reuse that a group lost: tokens by reason, as in kvc_lost_reuse.
struct GroupReport {
  uint32_t kind = 0;  // KVC_GROUP_*
  uint64_t block = 0, window = 0, state = 0, agreement = 0, nodes = 0;
};

/// Prompt, cached and queried tokens and blocks are those of the first admission of each request. A preempted
/// request does not count its output tokens twice. Requests that are longer than the pool are rejected: they
/// run nowhere, but the hit rate counts their prompts, so that it does not fall when a larger pool takes
/// them.
struct ReplayResult {
  uint64_t requests = 0;
  uint64_t rejected = 0;
  uint64_t rejected_tokens = 0;  // Of their prompts.
  uint64_t preemptions = 0;
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;
  uint64_t output_tokens = 0;
  uint64_t block_queries = 0;
  uint64_t block_hits = 0;
  uint64_t encoders = 0;        // Admissions of requests with an encoder,
  uint64_t encoder_hits = 0;    // and those that found its keys and values.
  uint64_t partial_hits = 0;    // Hits that ended inside a block, if the options ask for them,
  uint64_t partial_tokens = 0;  // and their tokens there.
  uint64_t evictions = 0;
  uint64_t peak_live_blocks = 0;
  uint64_t failed_allocations = 0;  // Admissions and extensions that found no space.
  uint64_t wrong_hits = 0;
  uint64_t wrong_writes = 0;
  uint64_t prompt_blocks = 0;        // Blocks of all prompts, partial ones included.
  uint64_t step_calls = 0;           // Decode steps.
  uint64_t computed_tokens = 0;      // Of prompts, those of readmissions included.
  uint64_t prompt_steps = 0;         // Chunks in which they were computed.
  uint64_t table_blocks = 0;         // Entries of block tables, in all groups, of requests that left.
  uint64_t sampled_slots = 0;        // Of running requests, in one group, summed over samples.
  uint64_t sampled_empty_slots = 0;  // Those of them without a token: of last blocks that are partly filled.
  uint64_t metadata_bytes = 0;       // The manager's memory after the last request.
  double prompt_seconds = 0;         // Creating, admitting and committing prompts.
  double decode_seconds = 0;
  double release_seconds = 0;
  Latencies prompt_calls;  // Creating and admitting one prompt.
  Latencies decode_calls;  // One decode step.
  std::vector<Occupancy> occupancy;
  double policy_weight = 0;     // With the default filled in.
  double optimal_hit_rate = 0;  // If the options ask for it.
  CurveReport curve;
  uint64_t lost_reuse_tokens = 0;
  std::vector<GroupReport> groups;  // Empty with one group that loses nothing.
  uint64_t ended_sessions = 0;      // Requests whose session the hints ended.
  std::vector<TierReport> tiers;
  uint64_t loaded_tokens = 0;     // From tiers, before admissions.
  double offload_seconds = 0;     // Inside calls of the offload; not part of the manager's.
  double ttft_saved_seconds = 0;  // By the model of TierOptions, over all loads.
  double hit_rate_without_hints = 0, hit_rate_without_partial = 0;

  bool right() const { return wrong_hits == 0 && wrong_writes == 0; }
  double manager_seconds() const { return prompt_seconds + decode_seconds + release_seconds; }
  double hit_rate() const;  // Of all prompt tokens.
  double waste() const;     // Slots without a token, of all slots of running requests.
  double ns_per_request() const;
  double ns_per_prompt_block() const;
  double ns_per_decode_step() const;  // Per output token.
  double ns_per_step_call() const;
};

/// Compares the library's statistics, after the last request was freed, with the engine's counts. Throws
/// LibraryError.
void check_against(const kvc_stats& library, const ReplayResult& engine, uint64_t usable_blocks);

}  // namespace kvcli
