// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_options.h"

#include "cli/dtype.h"
#include "cli/options.h"

namespace kvcli {

void add_bench_options(CLI::App& bench, BenchOptions& options) {
  add_choice(bench, "WHAT", options.what, "What to measure",
             {"attention", "step", "store", "gather", "copy", "swap-out", "swap-in"})
      ->required();
  bench.add_option("--device", options.device, "GPU to measure, such as cuda:0 [the CPU]");
  const auto number = [&](const char* name, auto& value, const char* text, auto most) {
    add_number(bench, name, value, text, most)->capture_default_str();
  };
  number("--batch", options.batch, "Number of requests", 1u << 16);
  number("--context", options.context, "Tokens of each request", 1u << 22);
  number("--heads", options.heads, "Query heads", 1024u);
  number("--kv-heads", options.kv_heads, "KV heads", 1024u);
  number("--head-dim", options.head_dim, "Elements of a head", 8192u);
  add_number(bench, "--v-head-dim", options.v_head_dim, "Elements of a value [--head-dim]", 8192);
  bench.add_flag(
      "--latent", options.latent,
      "Multi-head latent attention: each token has one row of --head-dim elements (with --kv-heads 1); its "
      "first --v-head-dim elements are the values");
  number("--block-size", options.block_size, "Tokens per block", 1024u);
  number("--queries", options.queries, "Query tokens per request; 1 is a decode step", 65536u);
  add_number(bench, "--layers", options.layers,
             "Layers in the storage; calls use one after the other [more than the caches hold]", 4096);
  number("--threads", options.threads, "Worker threads on the CPU", 256u);
  add_choice(bench, "--dtype", options.dtype, "Type of stored keys and values", dtype_names())
      ->capture_default_str();
  add_choice(bench, "--layout", options.layout,
             "Order of layers, blocks, heads, tokens and elements in memory", layout_names())
      ->capture_default_str();
  add_choice(bench, "--query-dtype", options.query_dtype, "Type of queries and results", {"fp32", "bf16"})
      ->capture_default_str();
  bench.add_flag("--rope", options.rope, "store and step: rotate keys (RoPE) while they are stored");
  CLI::Option* const check = bench.add_flag("--check", options.check,
                                            "Compare a sample of the results with those of the CPU; the exit "
                                            "code is 1 if they differ [on the CPU]");
  bench.add_flag("--no-check", options.no_check, "Do not compare results")->excludes(check);
  bench.add_option(
      "--prune", options.prune,
      "Attention on the CPU over chosen blocks: topk:N (so many per KV head), ratio:R (that part), or "
      "threshold:T (bounds within T of the best); prints recall, error and time");
  bench.add_flag("--own-plans", options.own_plans,
                 "Attention on a GPU: each layer makes its own plan; without this, 32 layers share one");
}

}  // namespace kvcli
