// SPDX-License-Identifier: Apache-2.0
#include "cli/advise_options.h"

#include "cli/dtype.h"
#include "cli/options.h"

namespace kvcli {

void add_advise_options(CLI::App& advise, AdviseOptions& options) {
  constexpr uint64_t kMostTokens = uint64_t{1} << 40;
  constexpr double kMostNs = 1e12;
  CLI::Option* const model = advise.add_option("--model", options.model,
                                               "Divide --budget as the KV cache of this model; see estimate");
  add_retention(advise, options.retention);
  advise.add_option("--budget", options.budget, "With --model: memory for blocks, such as 24GiB");
  add_choice(advise, "--dtype", options.dtype, "With --model: type of stored keys and values", dtype_names())
      ->capture_default_str();
  CLI::Option* const tokens = add_number(advise, "--tokens", options.tokens,
                                         "Without a model: tokens of the pool [1600000]", kMostTokens);
  CLI::Option* const blocks = add_number(advise, "--num-blocks", options.num_blocks,
                                         "The same in blocks of 16 tokens", kMostTokens / 16);
  tokens->excludes(blocks)->excludes(model);
  blocks->excludes(model);
  const auto list = [&](const char* name, std::string& value, const char* text) {
    advise.add_option(name, value, text)->capture_default_str();
  };
  list("--block-sizes", options.block_sizes, "Tokens per block to try");
  list("--policies", options.policies, "Policies to try: NAME, or NAME:WEIGHT as for replay --policy-weight");
  list("--chunks", options.chunks, "Most prompt tokens of a request that a step computes, to try");
  list("--splits", options.splits,
       "With a model of two pools: blocks of the window pool to try, as multiples of the estimate's");
  add_number(advise, "--concurrency", options.concurrency, "Most requests at a time", 262'142)
      ->capture_default_str();
  add_number(advise, "--jobs", options.jobs, "Trials at the same time", 256)->capture_default_str();
  const auto rate = [&](const char* name, double& value, const char* text) {
    advise.add_option(name, value, text)->check(CLI::Range(0.0, kMostNs))->capture_default_str();
  };
  rate("--ns-per-token", options.ns_per_token, "Cost of a computed prompt token, in nanoseconds");
  rate("--ns-per-block", options.ns_per_block, "Cost of a block in a block table, in nanoseconds");
  rate("--ns-per-chunk", options.ns_per_chunk, "Cost of a computed chunk, in nanoseconds");
}

}  // namespace kvcli
