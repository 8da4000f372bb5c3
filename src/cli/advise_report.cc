// SPDX-License-Identifier: Apache-2.0
// The report of `kvcache advise`. The JSON keys are an interface: add keys, do not rename them. Equal
// commands print the same but for manager_ns_per_request, which is measured.
#include <kvcache/rebuild.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/advise.h"
#include "cli/table.h"

namespace kvcli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormula =
    "(ns_per_token * (computed_tokens + rejected_factor * rejected_tokens) + ns_per_block * table_blocks + "
    "ns_per_chunk * chunks_computed) / prompt_tokens";

Json trial_json(const Trial& trial) {
  const ReplayResult& result = trial.result;
  Json json;
  json["block_size"] = trial.replay.block_size;
  json["num_blocks"] = Json::array();
  for (const kvc_pool_config& pool : trial.replay.pools) json["num_blocks"].push_back(pool.num_blocks);
  json["split"] = trial.split;
  json["policy"] = trial.replay.policy;
  json["policy_weight"] = result.policy_weight;
  json["chunk"] = trial.replay.chunk;
  json["hit_rate"] = result.hit_rate();
  json["prompt_tokens"] = result.prompt_tokens + result.rejected_tokens;
  json["computed_tokens"] = result.computed_tokens;
  json["chunks_computed"] = result.prompt_steps;
  json["table_blocks"] = result.table_blocks;
  json["rejected"] = result.rejected;
  json["rejected_tokens"] = result.rejected_tokens;
  json["refusals"] = result.failed_allocations;
  json["preemptions"] = result.preemptions;
  json["evictions"] = result.evictions;
  json["waste"] = result.waste();
  json["metadata_bytes"] = result.metadata_bytes;
  json["cost"] = trial.cost;
  json["manager_ns_per_request"] = std::round(result.ns_per_request());
  return json;
}

std::string policy_text(const Trial& trial) {
  return trial.replay.policy +
         (trial.replay.policy == "lru" ? "" : ":" + number_text(trial.result.policy_weight));
}

std::string pools_text(const Trial& trial) {
  std::string text;
  for (const kvc_pool_config& pool : trial.replay.pools)
    text += (text.empty() ? "" : "+") + grouped(pool.num_blocks);
  return text;
}

void print_line(std::ostream& out, const std::vector<std::string>& cells) {
  constexpr int kWidths[] = {7, 19, 7, 16, 7, 9, 15, 9, 11, 8, 13, 14, 12};
  for (size_t i = 0; i < cells.size(); ++i) out << std::setw(kWidths[i]) << cells[i];
  out << '\n';
}

void print_json(const AdviseOptions& options, const Advice& advice, std::ostream& out) {
  Json json;
  json["requests"] = advice.requests;
  json[options.model.empty() ? "budget_tokens" : "budget_bytes"] = advice.budget;
  json["concurrency"] = options.concurrency;
  json["cost"] = {{"unit", "nanoseconds per prompt token"}, {"formula", kFormula},
                  {"ns_per_token", options.ns_per_token},   {"ns_per_block", options.ns_per_block},
                  {"ns_per_chunk", options.ns_per_chunk},   {"rejected_factor", kRejectedFactor}};
  json["left_out"] = advice.left_out;
  json["trials"] = Json::array();
  for (const Trial& trial : advice.trials) json["trials"].push_back(trial_json(trial));
  json["best"] = trial_json(advice.trials[advice.best]);
  out << json.dump(2) << '\n';
}

void print_table(const AdviseOptions& options, const Advice& advice, std::ostream& out) {
  const bool bytes = !options.model.empty();
  out << grouped(advice.requests) << " requests, at most " << options.concurrency << " live, in "
      << grouped(advice.budget) << (bytes ? " bytes" : " tokens") << "\n\n";
  print_line(out, {"block", "blocks", "split", "policy", "chunk", "hit rate", "computed", "rejected",
                   "refusals", "waste", "metadata", "ns a request", "cost"});
  for (size_t i = 0; i < advice.trials.size(); ++i) {
    const Trial& trial = advice.trials[i];
    const ReplayResult& result = trial.result;
    print_line(out, {std::to_string(trial.replay.block_size), pools_text(trial),
                     trial.split == 0 ? "-" : number_text(trial.split), policy_text(trial),
                     std::to_string(trial.replay.chunk), fixed(result.hit_rate(), 4),
                     grouped(result.computed_tokens), grouped(result.rejected),
                     grouped(result.failed_allocations + result.preemptions), fixed(result.waste(), 4),
                     grouped(result.metadata_bytes), fixed(result.ns_per_request(), 0),
                     fixed(trial.cost, 1) + (i == advice.best ? " *" : "  ")});
  }
  if (advice.left_out != 0)
    out << '\n'
        << counted(advice.left_out, "combination") << " left out: the budget has no room for a block of "
        << "each group\n";
  const Trial& best = advice.trials[advice.best];
  out << "\ncost = " << kFormula << ",\nin nanoseconds per prompt token with ns_per_token "
      << number_text(options.ns_per_token) << ", ns_per_block " << number_text(options.ns_per_block)
      << ", ns_per_chunk " << number_text(options.ns_per_chunk) << ", rejected_factor "
      << number_text(kRejectedFactor)
      << ".\nRefusals count preemptions as well. \"ns a request\" is the measured time inside the library; "
         "it is no "
         "part of the cost.\n"
      << "\nBest: blocks of " << best.replay.block_size << " tokens, " << pools_text(best)
      << " blocks, policy " << policy_text(best) << ", chunks of " << best.replay.chunk
      << " tokens. A running manager comes to another block\nsize or policy by kvc_manager_rebuild.\n";
}

}  // namespace

void print_advice(const AdviseOptions& options, const Advice& advice, bool as_json, std::ostream& out) {
  (as_json ? print_json : print_table)(options, advice, out);
}

}  // namespace kvcli
