// SPDX-License-Identifier: Apache-2.0
#include "cli/simulate_options.h"

#include <kvcache/manager.h>

#include "cli/options.h"

namespace kvcli {

void add_simulate_options(CLI::App& simulate, SimulateOptions& options) {
  constexpr uint32_t kMostRunning = 65'536, kMostPlanTokens = 1u << 24;  // The library's limits.
  add_choice(simulate, "--scheduler", options.scheduler, "Which waiting request is admitted first",
             scheduler_names())
      ->capture_default_str();
  add_choice(simulate, "--admission", options.admission, "What must fit when a request is admitted",
             admission_names())
      ->capture_default_str();
  simulate.add_flag("--cache-aware", options.cache_aware, "Admit the longest cached prefixes first");
  simulate.add_flag("--depth-first", options.depth_first, "Admit by a depth-first walk of cached prefixes");
  simulate.add_flag("--async", options.async, "Make each plan while the step before it runs");
  add_number(simulate, "--max-running", options.max_running, "Most requests in a step", kMostRunning)
      ->capture_default_str();
  add_number(simulate, "--max-tokens", options.max_tokens, "Most tokens of a step", kMostPlanTokens)
      ->capture_default_str();
  add_number(simulate, "--max-chunk", options.max_chunk, "Most tokens of one prompt in a step [--max-tokens]",
             kMostPlanTokens);
  CLI::Option* const blocks =
      add_number(simulate, "--num-blocks", options.num_blocks, "Blocks of the pool", KVC_MAX_BLOCKS)
          ->capture_default_str();
  simulate.add_option("--model", options.model, "Divide --memory as the KV cache of this model, in bf16")
      ->excludes(blocks);
  add_retention(simulate, options.retention);
  simulate.add_option("--memory", options.memory, "With --model: memory for blocks, such as 24GiB");
  add_number(simulate, "--block-size", options.block_size, "Tokens per block", 1024u)->capture_default_str();
  simulate.add_option("--step-model", options.step_model,
                      "Time of a step: fixed_us=X,token_us=X,context_us=X, or a CSV or JSON file of measured "
                      "tokens, context and us [fixed_us=4800,token_us=16,context_us=0.04]");
  simulate.add_option("--host-us", options.host_us,
                      "Time of the engine's own work before each step, which --async hides");
  simulate.add_option("--ttft-ms", options.ttft_ms,
                      "Goodput: most milliseconds to the first token [no bound]");
  simulate.add_option("--tpot-ms", options.tpot_ms,
                      "Goodput: most milliseconds for each further token, on average [no bound]");
  CLI::Option* const rate = simulate.add_option(
      "--rate", options.rate, "Scale the arrivals to so many requests a second [as in the trace]");
  simulate.add_option("--rates", options.rates, "Simulate each rate of a list, such as 1,2,4")
      ->excludes(rate);
  simulate.add_option("--html", options.html, "Also write one HTML page with curves to this file");
}

}  // namespace kvcli
