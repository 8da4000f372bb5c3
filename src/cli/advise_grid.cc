// SPDX-License-Identifier: Apache-2.0
// The combinations that `kvcache advise` tries. Each has pools of as many blocks as the budget pays for.
#include <algorithm>
#include <cmath>

#include "cli/advise.h"
#include "cli/dtype.h"
#include "cli/estimate.h"
#include "cli/library.h"
#include "cli/lists.h"
#include "cli/model_groups.h"
#include "cli/table.h"

namespace kvcli {
namespace {

constexpr uint32_t kBlockTokens = 16;  // Of --num-blocks.

struct PolicyChoice {
  std::string name;
  double weight;
};

std::vector<PolicyChoice> policy_list(const std::string& text) {
  std::vector<PolicyChoice> choices;
  for (const std::string& item : split_list("--policies", text)) {
    const size_t colon = std::min(item.find(':'), item.size());
    const std::string name = item.substr(0, colon);
    if (std::ranges::find(policy_names(), name) == policy_names().end())
      throw InputError("--policies has " + item + "; give lru, frequency or fragmentation, or NAME:WEIGHT");
    const double weight = colon == item.size()
                              ? 0
                              : parse_number<double>("--policies: the weight of " + name,
                                                     item.substr(colon + 1), 0, most_policy_weight(name));
    choices.push_back({name, weight});
  }
  return choices;
}

/// One way to divide the budget into pools; no pools if it has no room for a block of each group.
struct Division {
  double split = 0;
  std::vector<kvc_group_config> groups;
  std::vector<kvc_pool_config> pools;
};

/// The memory to divide. Splits are multiples of the window pool's part in the estimate, which is made for
/// the longest request alone.
class Budget {
 public:
  Budget(const Trace& trace, const AdviseOptions& options) : options_(options) {
    for (const TraceRequest& request : trace.requests)
      longest_ = std::max<uint64_t>(longest_, uint64_t{request.input_length} + request.num_outputs());
    splits_ = number_list<double>("--splits", options.splits, 0.001, 1000);
    if (!options.model.empty()) {
      if (options.budget.empty())
        throw InputError("--model is given without --budget; give its memory, such as 24GiB");
      model_ = find_model(options.model);
      budget_ = parse_bytes(options.budget);
    } else {
      if (!options.budget.empty())
        throw InputError("--budget is given without --model; give both, or --tokens");
      budget_ = options.tokens != 0       ? options.tokens
                : options.num_blocks != 0 ? options.num_blocks * kBlockTokens
                                          : kDefaultAdviseTokens;
    }
  }
  uint64_t amount() const { return budget_; }
  std::string text() const { return grouped(budget_) + (options_.model.empty() ? " tokens" : " bytes"); }

  std::vector<Division> divisions(uint32_t block_size, uint32_t chunk) const {
    std::vector<Division> found =
        options_.model.empty() ? one_pool(block_size) : pools_of_model(block_size, chunk);
    for (const Division& division : found) {
      uint64_t blocks = 0;
      for (const kvc_pool_config& pool : division.pools) blocks += pool.num_blocks;
      if (blocks > KVC_MAX_BLOCKS) {
        throw InputError("the budget is " + grouped(blocks) + " blocks of " + std::to_string(block_size) +
                         " tokens; a manager has at most " + grouped(KVC_MAX_BLOCKS) + ": lower the budget");
      }
    }
    return found;
  }

 private:
  std::vector<Division> one_pool(uint32_t block_size) const {
    if (budget_ < block_size) return {{}};
    return {{0, {}, {pool_of(budget_ / block_size)}}};
  }

  std::vector<Division> pools_of_model(uint32_t block_size, uint32_t chunk) const {
    auto query = make<kvc_memory_query>();
    query.model = &model_;
    query.tokens = longest_;
    query.budget_bytes = budget_;
    query.chunk_tokens = chunk;
    query.dtype = dtype_of(options_.dtype);
    query.block_size = block_size;
    query.checkpoint_tokens = checkpoint_tokens(model_, block_size);
    query.retention_tokens = retention_tokens(options_.retention, block_size);
    const kvc_memory_estimate estimate = estimate_of(query);
    if (estimate.pool_blocks == 0) return {{}};
    const ModelGroups model = groups_of(model_, query, estimate);
    if (model.pools.size() == 1) return {{0, model.groups, model.pools}};
    std::vector<Division> found;
    for (const double split : splits_) {
      std::vector<kvc_pool_config> pools = model.pools;
      uint64_t left = budget_;  // for the first pool
      for (size_t p = 1; p < pools.size(); ++p) {
        const double wanted = std::round(static_cast<double>(pools[p].num_blocks) * split);
        const uint64_t most = left / model.pool_block_bytes[p] + 1;  // or too many
        pools[p].num_blocks = static_cast<uint64_t>(std::clamp(wanted, 1.0, static_cast<double>(most)));
        left -= std::min(left, pools[p].num_blocks * model.pool_block_bytes[p]);
      }
      pools[0].num_blocks = left / model.pool_block_bytes[0];
      found.push_back(pools[0].num_blocks == 0 ? Division{} : Division{split, model.groups, pools});
    }
    return found;
  }

  const AdviseOptions& options_;
  std::vector<double> splits_;
  kvc_model model_ = make<kvc_model>();
  uint64_t budget_ = 0;
  uint64_t longest_ = 1;
};

}  // namespace

Advice plan_trials(const Trace& trace, const AdviseOptions& options) {
  const Budget budget(trace, options);
  const auto policies = policy_list(options.policies);
  const auto block_sizes = number_list<uint32_t>("--block-sizes", options.block_sizes, 1, 1024);
  const auto chunks = number_list<uint32_t>("--chunks", options.chunks, 1, 1u << 24);
  Advice advice;
  advice.requests = trace.requests.size();
  advice.budget = budget.amount();
  for (const uint32_t block_size : block_sizes) {
    for (const uint32_t chunk : chunks) {
      for (const Division& division : budget.divisions(block_size, chunk)) {
        if (division.pools.empty()) {
          advice.left_out += policies.size();
          continue;
        }
        for (const PolicyChoice& policy : policies) {
          Trial trial;
          trial.split = division.split;
          trial.replay.block_size = block_size;
          trial.replay.chunk = chunk;
          trial.replay.groups = division.groups;
          trial.replay.pools = division.pools;
          trial.replay.policy = policy.name;
          trial.replay.policy_weight = policy.weight;
          trial.replay.concurrency = options.concurrency;
          trial.replay.progress = false;
          advice.trials.push_back(trial);
        }
      }
    }
  }
  if (advice.trials.empty()) {
    throw InputError("the budget is " + budget.text() +
                     ", less than one block of each group in every combination; raise it, or lower "
                     "--block-sizes");
  }
  return advice;
}

}  // namespace kvcli
