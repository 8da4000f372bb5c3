// SPDX-License-Identifier: Apache-2.0
// The report of a replay. The JSON keys are an interface: add keys, do not rename them.
#include "cli/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/table.h"

namespace kvcli {
namespace {

void add_tiers(const ReplayResult& result, const TierOptions& options, nlohmann::ordered_json& json) {
  json["tiers"] = nlohmann::ordered_json::array();
  for (const TierReport& tier : result.tiers) {
    json["tiers"].push_back({{"url", tier.url},
                             {"hits", tier.hits},
                             {"misses", tier.misses},
                             {"loaded_bytes", tier.loaded_bytes},
                             {"stored_bytes", tier.stored_bytes},
                             {"failed_loads", tier.failed_loads},
                             {"dropped_stores", tier.dropped_stores}});
  }
  json["loaded_tokens"] = result.loaded_tokens;
  json["offload_seconds"] = result.offload_seconds;
  json["offload_share_of_manager"] = result.offload_seconds / result.manager_seconds();
  json["ttft_saved_seconds"] = result.ttft_saved_seconds;
  json["ttft_saved_ms_per_request"] =
      result.ttft_saved_seconds * 1e3 / static_cast<double>(std::max<uint64_t>(result.requests, 1));
  json["tier_model"] = {{"compute_us_per_token", options.compute_us_per_token},
                        {"gb_per_s", options.gb_per_s},
                        {"block_bytes", options.block_bytes},
                        {"policy", options.policy},
                        {"bytes", options.bytes}};
  if (!options.group_bytes.empty()) json["tier_model"]["block_bytes"] = options.group_bytes;
}

nlohmann::ordered_json latency_json(const Latencies& calls) {
  nlohmann::ordered_json json;
  for (const char* percent : {"50", "90", "99", "99.9", "100"})
    json["p" + std::string(percent)] = calls.percentile_us(std::stod(percent));
  return json;
}

nlohmann::ordered_json occupancy_json(const std::vector<Occupancy>& samples) {
  nlohmann::ordered_json json = {{"step", nlohmann::json::array()},
                                 {"held", nlohmann::json::array()},
                                 {"cached", nlohmann::json::array()}};
  for (const Occupancy& sample : samples) {
    json["step"].push_back(sample.step);
    json["held"].push_back(sample.held);
    json["cached"].push_back(sample.cached);
  }
  return json;
}

nlohmann::ordered_json curve_json(const CurveReport& curve) {
  return {{"sample_rate", curve.sample_rate},
          {"sampled", curve.sampled},
          {"bytes", curve.bytes},
          {"num_blocks", curve.num_blocks},
          {"hit_rates", curve.hit_rates}};
}

/// By KVC_GROUP_*.
const char* kind_name(uint32_t kind) {
  constexpr const char* kNames[] = {"full", "window", "chunked", "state", "cross"};
  return kNames[kind];
}

nlohmann::ordered_json groups_json(const std::vector<GroupReport>& groups) {
  nlohmann::ordered_json json;
  for (const GroupReport& group : groups) {
    json.push_back({{"kind", kind_name(group.kind)},
                    {"lost_block_tokens", group.block},
                    {"lost_window_tokens", group.window},
                    {"lost_state_tokens", group.state},
                    {"lost_agreement_tokens", group.agreement},
                    {"unpublished_tokens", group.nodes}});
  }
  return json;
}

/// Why each group lost reuse.
void print_lost(const ReplayResult& result, std::ostream& out) {
  out << "Reuse lost between the groups\n";
  row(out, "tokens", grouped(result.lost_reuse_tokens));
  for (size_t g = 0; g < result.groups.size(); ++g) {
    const GroupReport& group = result.groups[g];
    std::string why;
    const auto add = [&](uint64_t tokens, const char* reason) {
      if (tokens != 0) why += (why.empty() ? "" : ", ") + grouped(tokens) + " " + reason;
    };
    add(group.block, "without a block");
    add(group.window, "without the window");
    add(group.state, "without a state");
    add(group.agreement, "where groups do not end together");
    add(group.nodes, "not published, as all prefix positions were in use");
    row(out, ("group " + std::to_string(g) + ", " + kind_name(group.kind)).c_str(),
        grouped(group.block + group.window + group.state + group.agreement), why);
  }
}

void print_tokens(const ReplayOptions& options, const ReplayResult& result, std::ostream& out) {
  out << "Tokens\n";
  row(out, "prompt", grouped(result.prompt_tokens));
  row(out, "rejected prompts", grouped(result.rejected_tokens));
  row(out, "cached", grouped(result.cached_tokens),
      "hit rate " + fixed(result.hit_rate(), 4) + ", of prompt and rejected prompts" +
          (options.hints.empty() ? "" : ", without hints " + fixed(result.hit_rate_without_hints, 4)) +
          (options.partial ? ", without partial reuse " + fixed(result.hit_rate_without_partial, 4) : "") +
          (options.optimal ? ", with perfect eviction " + fixed(result.optimal_hit_rate, 4) : ""));
  if (!options.tiers.urls.empty()) {
    row(out, "loaded from tiers", grouped(result.loaded_tokens),
        "saves " + fixed(result.ttft_saved_seconds, 1) + " s of computing at " +
            fixed(options.tiers.compute_us_per_token, 1) + " us a token");
    for (const TierReport& tier : result.tiers)
      row(out, "tier", grouped(tier.hits),
          "pages found in " + tier.url + ", " + grouped(tier.misses) + " not; " + grouped(tier.loaded_bytes) +
              " bytes loaded, " + grouped(tier.stored_bytes) + " stored");
  }
  if (options.cross_tokens != 0) {
    row(out, "encoders", grouped(result.encoders),
        "of " + grouped(options.cross_tokens) + " tokens; " + grouped(result.encoder_hits) + " were cached");
  }
  if (options.partial) {
    row(out, "of them in parts", grouped(result.partial_tokens),
        "in blocks of which " + grouped(result.partial_hits) + " hits share only the first tokens");
  }
  row(out, "output", grouped(result.output_tokens));
}

void print_times(const ReplayResult& result, std::ostream& out) {
  out << "Time inside the library\n";
  row(out, "total", fixed(result.manager_seconds(), 4) + " s");
  row(out, "prompts", fixed(result.prompt_seconds, 4) + " s",
      fixed(result.ns_per_prompt_block(), 1) + " ns a block");
  row(out, "decode", fixed(result.decode_seconds, 4) + " s",
      fixed(result.ns_per_decode_step(), 1) + " ns a token, " + fixed(result.ns_per_step_call(), 0) +
          " ns a call");
  row(out, "release", fixed(result.release_seconds, 4) + " s");
}

void add_times(const ReplayResult& result, nlohmann::ordered_json& json) {
  json["manager_seconds"] = result.manager_seconds();
  json["prompt_seconds"] = result.prompt_seconds;
  json["decode_seconds"] = result.decode_seconds;
  json["release_seconds"] = result.release_seconds;
  json["ns_per_prompt_block"] = result.ns_per_prompt_block();
  json["ns_per_decode_step"] = result.ns_per_decode_step();
  json["ns_per_step_call"] = result.ns_per_step_call();
  json["prompt_us"] = latency_json(result.prompt_calls);
  json["step_us"] = latency_json(result.decode_calls);
}

}  // namespace

void print_replay_table(const ReplayOptions& options, const ReplayResult& result, std::ostream& out) {
  out << grouped(options.num_blocks) << " blocks of " << options.block_size << " tokens, at most "
      << options.concurrency << " live requests, policy " << options.policy
      << (options.policy == "lru" ? "" : " with weight " + number_text(result.policy_weight))
      << (options.commit_late ? ", prompts committed late" : "")
      << (options.maintain_tables ? ", block tables maintained" : "") << "\n\nRequests\n";
  row(out, "replayed", grouped(result.requests - result.rejected));
  row(out, "rejected", grouped(result.rejected), "longer than the pool");
  row(out, "preemptions", grouped(result.preemptions));
  row(out, "failed allocations", grouped(result.failed_allocations),
      "admissions and extensions without space, tried again");
  print_tokens(options, result, out);
  out << "Blocks\n";
  row(out, "queried", grouped(result.block_queries));
  row(out, "hit", grouped(result.block_hits));
  row(out, "evicted", grouped(result.evictions));
  row(out, "live at the peak", grouped(result.peak_live_blocks));
  if (!result.curve.num_blocks.empty()) {
    out << "Hit rate of block queries by size, from " << number_text(result.curve.sample_rate * 100)
        << " % of the blocks\n";
    for (size_t i = 0; i < result.curve.num_blocks.size(); ++i)
      row(out, grouped(result.curve.num_blocks[i]).c_str(), fixed(result.curve.hit_rates[i], 4));
  }
  if (!result.groups.empty()) print_lost(result, out);
  print_times(result, out);
  if (!options.verify) return;
  out << "Verification\n";
  row(out, "wrong hits", grouped(result.wrong_hits));
  row(out, "wrong writes", grouped(result.wrong_writes));
}

void print_replay_json(const ReplayOptions& options, const ReplayResult& result, std::ostream& out) {
  nlohmann::ordered_json json;
  if (!options.model.empty()) json["model"] = options.model;
  for (const kvc_pool_config& pool : options.pools) json["pool_blocks"].push_back(pool.num_blocks);
  json["requests"] = result.requests;
  json["rejected"] = result.rejected;
  json["rejected_tokens"] = result.rejected_tokens;
  json["preemptions"] = result.preemptions;
  json["prompt_tokens"] = result.prompt_tokens;
  json["cached_tokens"] = result.cached_tokens;
  json["output_tokens"] = result.output_tokens;
  json["block_queries"] = result.block_queries;
  json["block_hits"] = result.block_hits;
  json["hit_rate"] = result.hit_rate();
  if (!options.hints.empty()) json["hit_rate_without_hints"] = result.hit_rate_without_hints;
  if (options.cross_tokens != 0) {
    json["encoders"] = result.encoders;
    json["encoder_hits"] = result.encoder_hits;
  }
  if (options.partial) {
    json["hit_rate_without_partial"] = result.hit_rate_without_partial;
    json["partial_hits"] = result.partial_hits;
    json["partial_tokens"] = result.partial_tokens;
  }
  if (!options.tiers.urls.empty()) add_tiers(result, options.tiers, json);
  if (options.optimal) json["optimal_hit_rate"] = result.optimal_hit_rate;
  if (!result.groups.empty()) {
    json["lost_reuse_tokens"] = result.lost_reuse_tokens;
    json["groups"] = groups_json(result.groups);
  }
  if (!result.curve.num_blocks.empty()) json["curve"] = curve_json(result.curve);
  json["evictions"] = result.evictions;
  json["peak_live_blocks"] = result.peak_live_blocks;
  json["failed_allocations"] = result.failed_allocations;
  json["wrong_hits"] = result.wrong_hits;
  json["wrong_writes"] = result.wrong_writes;
  add_times(result, json);
  json["occupancy"] = occupancy_json(result.occupancy);
  json["block_size"] = options.block_size;
  json["num_blocks"] = options.num_blocks;
  json["concurrency"] = options.concurrency;
  json["policy"] = options.policy;
  json["policy_weight"] = result.policy_weight;
  if (!options.hints.empty()) {
    json["hints"] = options.hints;
    json["ended_sessions"] = result.ended_sessions;
  }
  json["commit_late"] = options.commit_late;
  json["tables"] = options.maintain_tables;
  json["verified"] = options.verify;
  // One key a line, so that arrays do not take a line for each number.
  const char* separator = "{\n";
  for (const auto& [key, value] : json.items()) {
    out << separator << "  \"" << key << "\": " << value.dump();
    separator = ",\n";
  }
  out << "\n}\n";
}

}  // namespace kvcli
