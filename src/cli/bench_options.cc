// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_options.h"

#include "cli/dtype.h"
#include "cli/errors.h"
#include "cli/options.h"

namespace kvcli {
namespace {

constexpr uint64_t kMaxStorageBlocks = 2147483647;

}  // namespace

void add_bench_options(CLI::App& bench, BenchOptions& options) {
  add_choice(bench, "WHAT", options.what, "What to measure",
             {"attention", "step", "store", "gather", "copy", "swap-out", "swap-in", "checkpoint", "tier",
              "events", "index"})
      ->required();
  bench.add_option_function<std::string>(
      "PLACE", [&options](const std::string& place) { options.folder = options.tier.url = place; },
      "checkpoint: the folder to write to, which must exist; tier: its URL, such as "
      "slab:/path?bytes=4GiB&direct=1; events: that of a transport, such as zmq:ipc:///tmp/kv [none]");
  add_choice(bench, "--codec", options.codec, "checkpoint: how pages are compressed", {"none", "lz4", "zstd"})
      ->capture_default_str();
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
  bench.add_option("--page-bytes", options.tier.page_bytes, "tier: bytes of a page")->capture_default_str();
  add_number(bench, "--pages", options.tier.pages, "tier: how many [1 GiB]", uint64_t{1} << 24);
  add_number(bench, "--depth", options.tier.depth,
             "tier: operations in flight of each thread on the raw side [8 MiB, at most 32]", 1024);
  number("--seconds", options.tier.seconds,
         "tier, events and index: rounds go on for so long, three at least", 3600u);
  number("--blocks", options.index.blocks, "index: blocks, in prompts of 1,000", uint64_t{1} << 28);
  number("--workers", options.index.workers, "index: workers that have them", 1024u);
  number("--prompt-workers", options.index.prompt_workers, "index: workers that have long prompts", 1024u);
  number("--prompt-tokens", options.index.prompt_tokens, "index: tokens of a long prompt", uint64_t{1} << 22);
}

void check_options(const BenchOptions& options) {
  const auto refuse = [](bool wrong, const std::string& text) {
    if (wrong) throw InputError(text);
  };
  const auto is = [](const char* name, uint64_t value) {
    return std::string(name) + " is " + std::to_string(value);
  };
  refuse(options.what != "checkpoint" && options.what != "tier" && options.what != "events" &&
             !options.folder.empty(),
         "PLACE is " + options.folder + ", which is for checkpoint, tier and events, not for " +
             options.what + "; leave it out");
  refuse(options.what == "checkpoint" && !options.device.empty(),
         "--device: checkpoints are made of storages in host memory; leave it out");
  const uint32_t heads = (options.heads + options.kv_heads - 1) / options.kv_heads * options.kv_heads;
  refuse(options.heads != heads, is("--heads", options.heads) + "; it must be a multiple of --kv-heads, " +
                                     std::to_string(options.kv_heads) + ": give " + std::to_string(heads));
  refuse(options.queries > options.context,
         is("--queries", options.queries) + "; at most --context, " + std::to_string(options.context));
  refuse(options.what == "step" && options.queries != 1,
         is("--queries", options.queries) +
             "; a step has one query of each request: leave it out, or measure attention");
  refuse(options.rope && options.what != "store" && options.what != "step",
         "--rope is for store and step, which write keys, and not for " + options.what + "; leave it out");
  refuse(options.rope && options.latent,
         "--rope excludes --latent: only a part of a latent row rotates; leave one out");
  refuse(options.rope && options.head_dim % 2 != 0, is("--head-dim", options.head_dim) +
                                                        "; --rope needs an even one: give " +
                                                        std::to_string(options.head_dim + 1));
  refuse(options.latent && options.kv_heads != 1,
         is("--kv-heads", options.kv_heads) + "; a latent row is of all heads: give --kv-heads 1");
  refuse(options.latent && options.v_head_dim > options.head_dim,
         is("--v-head-dim", options.v_head_dim) +
             "; values are a part of the latent row: at most --head-dim, " +
             std::to_string(options.head_dim));
  const uint64_t blocks = options.batch * ((options.context + options.block_size - 1) / options.block_size);
  refuse(blocks > kMaxStorageBlocks, is("--batch", options.batch) + ", which takes " +
                                         std::to_string(blocks) + " blocks; a storage has at most " +
                                         std::to_string(kMaxStorageBlocks) +
                                         ": give a smaller --batch or --context");
  refuse(options.device == "cpu",
         "--device is cpu, but names a GPU, such as cuda:0; leave it out for the CPU");
}

}  // namespace kvcli
