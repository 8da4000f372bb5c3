// SPDX-License-Identifier: Apache-2.0
// `kvcache advise`: replays a trace with every combination of block size, division of the memory, policy and
// chunk of prefill that the options name, all within one budget of memory, and says which costs least.
//
// The cost of a trial is the time of an engine per prompt token: what its prompts cost to compute, at stated
// rates. It is a sum of counts, so equal commands give equal costs. Measured times are reported beside it and
// decide nothing.
#pragma once
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/replay.h"
#include "cli/trace.h"

namespace kvcli {

struct AdviseOptions {
  std::string model;  // A preset, a config.json, or its folder; empty = one pool of blocks of equal tokens.
  std::optional<uint64_t> retention;  // Of the model's windows; none: the block size.
  std::string budget;                 // With a model: memory, such as "24GiB".
  std::string dtype = "fp16";
  uint64_t num_blocks = 0;  // Without a model: blocks of 16 tokens, or tokens. Both 0 = kDefaultTokens.
  uint64_t tokens = 0;
  std::string block_sizes = "16,32,64,128";  // Lists.
  std::string policies = "lru,frequency";    // NAME or NAME:WEIGHT.
  std::string chunks = "512,2048";
  std::string splits = "0.5,1,2,4";
  uint32_t concurrency = 16;
  uint32_t jobs = 1;
  double ns_per_token = 32'000;
  double ns_per_block = 100;
  double ns_per_chunk = 200'000;
};
inline constexpr uint64_t kDefaultAdviseTokens = 1'600'000;
/// The prompt of a request that no pool takes counts like so many computed tokens each.
inline constexpr double kRejectedFactor = 100;

struct Trial {
  ReplayOptions replay;
  double split = 0;  // Blocks of the window group's pool, as a multiple of the estimate's; 0 = one pool.
  ReplayResult result;
  double cost = 0;  // Nanoseconds per prompt token.
};

struct Advice {
  uint64_t requests = 0;
  uint64_t budget = 0;    // Bytes with a model, else tokens.
  uint64_t left_out = 0;  // Combinations without room in the budget.
  std::vector<Trial> trials;
  size_t best = 0;  // The first of those that cost least.
};

/// The combinations in the order of the lists: block sizes, chunks, splits, policies. Throws InputError.
Advice plan_trials(const Trace& trace, const AdviseOptions& options);

/// Plans, replays and judges. Throws as plan_trials and replay.
Advice advise(const Trace& trace, const AdviseOptions& options);

/// Nanoseconds per prompt token of a finished trial.
double cost_of(const ReplayResult& result, const AdviseOptions& options);

void print_advice(const AdviseOptions& options, const Advice& advice, bool as_json, std::ostream& out);

}  // namespace kvcli
