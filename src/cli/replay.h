// SPDX-License-Identifier: Apache-2.0
// Replays a trace through the library as a synchronous engine with continuous batching does, and measures
// hits and the time inside library calls.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/replay_result.h"
#include "cli/replay_tiers.h"
#include "cli/trace.h"

namespace kvcli {

struct ReplayOptions {
  uint64_t num_blocks = 100'000;
  uint32_t block_size = 16;
  uint32_t concurrency = 16;          // Most live requests.
  std::string policy = "lru";         // One of policy_names().
  double policy_weight = 0;           // 0 = the policy's default.
  std::string hints;                  // "" or "oracle:X": end sessions as a SessionOracle says.
  std::string model;                  // "" or a model, whose groups and pools use_model() sets.
  std::optional<uint64_t> retention;  // Of the model's windows; none: its block size.
  bool optimal = false;               // Also compute optimal_hit_rate().
  double curve = 0;                   // Sample rate of a miss-ratio curve; 0 = none.
  bool commit_late = false;           // Commit prompts after all admissions of a round.
  bool maintain_tables = false;       // Each decode step also updates block tables and slots.
  bool verify = false;                // Check every hit and every write with an Oracle.
  bool data = false;                  // With verify: bytes go through a kvc_storage.
  // The fields below are not for verify, tables and commit_late.
  bool partial = false;                  // Hits may end inside a block.
  TierOptions tiers;                     // Below the pool; none without URLs.
  uint32_t chunk = 0;                    // Most prompt tokens of a request that a round computes; 0 = all.
  std::vector<kvc_group_config> groups;  // Empty = one with full attention.
  std::vector<kvc_pool_config> pools;    // Empty = one of num_blocks blocks.
  uint64_t cross_tokens = 0;             // Tokens of each request's encoder; 0 = none.
  std::string record;                    // File for a log of the calls; empty = none.
  bool progress = true;                  // Show a line of progress on a terminal.
  uint64_t event_capacity = 0;           // Of the manager, if tiers do not need more.
  std::function<void(kvc_manager*)> at_end;  // Sees the manager after the last request.
};

const std::vector<std::string>& policy_names();

/// The largest weight of a policy: frequency 1000, fragmentation 1, lru 0.
double most_policy_weight(const std::string& policy);

/// Throws kvc::Error if a call fails, LibraryError if the statistics of the library and the engine differ.
ReplayResult replay(const Trace& trace, const ReplayOptions& options);

}  // namespace kvcli
