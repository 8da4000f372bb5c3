// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_options.h"

#include <CLI/CLI.hpp>

#include "cli/dtype.h"

namespace kvcli {

void add_bench_options(CLI::App& bench, BenchOptions& options) {
  bench.add_option("WHAT", options.what, "What to measure")
      ->required()
      ->check(CLI::IsMember({"attention", "step", "store", "gather", "copy", "swap-out", "swap-in"}));
  bench.add_option("--device", options.device, "GPU to measure, such as cuda:0 [the CPU]");
  bench.add_option("--batch", options.batch, "Number of requests")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 16))
      ->capture_default_str();
  bench.add_option("--context", options.context, "Tokens of each request")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 22))
      ->capture_default_str();
  const auto number = [&](const char* name, uint32_t& value, const char* text, uint32_t most) {
    bench.add_option(name, value, text)->check(CLI::Range(1u, most))->capture_default_str();
  };
  number("--heads", options.heads, "Query heads", 1024);
  number("--kv-heads", options.kv_heads, "KV heads", 1024);
  number("--head-dim", options.head_dim, "Elements of a head", 8192);
  bench.add_option("--v-head-dim", options.v_head_dim, "Elements of a value [--head-dim]")
      ->check(CLI::Range(1u, 8192u));
  bench.add_flag(
      "--latent", options.latent,
      "Multi-head latent attention: each token has one row of --head-dim elements (with --kv-heads 1); its "
      "first --v-head-dim elements are the values");
  number("--block-size", options.block_size, "Tokens per block", 1024);
  number("--queries", options.queries, "Query tokens per request; 1 is a decode step", 65536);
  bench
      .add_option("--layers", options.layers,
                  "Layers in the storage; calls use one after the other [more than the caches hold]")
      ->check(CLI::Range(1u, 4096u));
  number("--threads", options.threads, "Worker threads on the CPU", 256);
  bench.add_option("--dtype", options.dtype, "Type of stored keys and values")
      ->check(CLI::IsMember(dtype_names()))
      ->capture_default_str();
  bench
      .add_option("--layout", options.layout, "Order of layers, blocks, heads, tokens and elements in memory")
      ->check(CLI::IsMember(layout_names()))
      ->capture_default_str();
  bench.add_option("--query-dtype", options.query_dtype, "Type of queries and results")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  bench.add_flag("--rope", options.rope, "store and step: rotate keys (RoPE) while they are stored");
  bench.add_flag("--check", options.check,
                 "Compare a sample of the results with those of the CPU; the exit code is 1 if they differ");
  bench.add_flag("--own-plans", options.own_plans,
                 "Attention on a GPU: each layer makes its own plan; without this, 32 layers share one");
}

}  // namespace kvcli
