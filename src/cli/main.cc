// SPDX-License-Identifier: Apache-2.0
// kvcache(1): subcommands and options. Exit codes: 0 = success; 1 = wrong results, or the library failed; 2 =
// wrong usage, or a bad trace or config. Results go to standard output, all else to standard error.
#include <kvcache.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>

#include "cli/advise_mode.h"
#include "cli/advise_options.h"
#include "cli/bench.h"
#include "cli/bench_options.h"
#include "cli/checkpoint.h"
#include "cli/complete.h"
#include "cli/dtype.h"
#include "cli/errors.h"
#include "cli/estimate.h"
#include "cli/generate.h"
#include "cli/inspect.h"
#include "cli/library.h"
#include "cli/model_groups.h"
#include "cli/options.h"
#include "cli/record.h"
#include "cli/replay.h"
#include "cli/report.h"
#include "cli/route.h"
#include "cli/samples.h"
#include "cli/session_oracle.h"
#include "cli/simulate_options.h"
#include "cli/table.h"
#include "cli/trace.h"
#include "cli/usage.h"

namespace {

using namespace kvcli;

constexpr uint32_t kMaxConcurrency = 262'142;  // One below the library's limit of requests.
constexpr uint64_t kDefaultRequests = 2000;    // Of a generated trace.
constexpr uint64_t kMaxTokens = uint64_t{1} << 40;
constexpr uint32_t kMaxBlockSize = 1024;

struct Arguments {
  bool json = false;
  std::string trace;
  bool generate = false;
  uint64_t requests = 0;  // 0 = not given.
  uint64_t seed = 1;
  std::string output = "-";
  std::string log;
  uint32_t samples = 0;
  ReplayOptions replay;
  EstimateOptions estimate;
  AdviseOptions advise;
  SimulateOptions simulation;
  ModeOptions sizing;
  BenchOptions bench;
  InspectOptions inspect;
  CheckpointOptions checkpoint;
  RouteOptions route;
  std::vector<std::string> backends;
};

void add_info(CLI::App& app, Arguments& args) {
  CLI::App* info =
      app.add_subcommand("info", "Print version, build, features, defaults and devices of the library");
  info->add_option("--backend", args.backends, "Another backend besides cpu, cuda and hip; may be repeated");
  info->add_flag("--json", args.json, "Print JSON");
}

/// Which requests a command takes.
void add_trace(CLI::App& command, Arguments& args) {
  command.footer("Give either TRACE or --generate.");
  CLI::Option* trace =
      command.add_option("TRACE", args.trace, "JSONL file of Mooncake or Qwen-Bailian; - is standard input");
  CLI::Option* generate = command.add_flag("--generate", args.generate, "Take a synthetic trace instead");
  trace->excludes(generate);
  command.add_option("--seed", args.seed, "Seed of the synthetic trace")
      ->needs(generate)
      ->capture_default_str();
  add_number(command, "--requests", args.requests,
             "Take only the first N requests [all; 2000 with --generate]", UINT32_MAX);
}

void add_replay(CLI::App& app, Arguments& args) {
  CLI::App* replay =
      app.add_subcommand("replay", "Replay a trace as an engine would, and measure hits and time");
  add_trace(*replay, args);
  add_number(*replay, "--block-size", args.replay.block_size, "Tokens per block", kMaxBlockSize)
      ->capture_default_str();
  add_number(*replay, "--num-blocks", args.replay.num_blocks, "Blocks of the pool", KVC_MAX_BLOCKS)
      ->capture_default_str();
  replay->add_option(
      "--model", args.replay.model,
      "Groups of this model's layers: prompts in chunks of 512 tokens, and pools that divide the memory "
      "of --num-blocks blocks of all layers");
  add_retention(*replay, args.replay.retention);
  add_number(*replay, "--concurrency", args.replay.concurrency, "Most requests at a time", kMaxConcurrency)
      ->capture_default_str();
  add_choice(*replay, "--policy", args.replay.policy, "Which cached block is evicted first", policy_names())
      ->capture_default_str();
  replay->add_option(
      "--policy-weight", args.replay.policy_weight,
      "How far the policy departs from lru: frequency 0 to 1000 [1], fragmentation 0 to 1 [0]");
  replay->add_option("--hints", args.replay.hints,
                     "oracle:X ends sessions as one who is right with probability X, 0 to 1");
  replay->add_flag("--optimal", args.replay.optimal,
                   "Also compute the hit rate with perfect knowledge of the future");
  replay->add_option("--curve", args.replay.curve,
                     "Also measure the hit rates of other sizes, by this share of the blocks, up to 1");
  CLI::Option* const partial = replay->add_flag(
      "--partial", args.replay.partial, "Let hits end inside a block, by a copy, and say what that gains");
  replay->add_flag("--commit-late", args.replay.commit_late,
                   "Commit prompts after all admissions of a round");
  replay->add_flag("--tables", args.replay.maintain_tables, "Let each step update block tables and slots");
  replay->add_flag("--verify", args.replay.verify, "Check the content of every hit, token by token (slower)");
  replay
      ->add_flag("--data", args.replay.data,
                 "As --verify, but with keys and values that go through a storage")
      ->each([&args](const std::string&) { args.replay.verify = true; });
  add_number(*replay, "--samples", args.samples,
             "Replay each request as N samples of its prompt that come together, with one fill per content",
             64)
      ->excludes("--hints", "--optimal", "--curve", "--commit-late", "--tables", "--verify", "--data",
                 "--partial");
  for (const char* other : {"--commit-late", "--tables", "--verify", "--data"}) partial->excludes(other);
  replay->add_option("--record", args.replay.record, "Write a log of the calls to this file");
  replay
      ->add_option("--log", args.log,
                   "Instead of a trace, make the calls of this log again, and compare their results; - is "
                   "standard input")
      ->excludes("TRACE", "--generate", "--requests", "--record", "--samples");
  add_tier_options(*replay, args.replay.tiers);
  replay->add_flag("--json", args.json, "Print JSON");
}

void add_advise(CLI::App& app, Arguments& args) {
  CLI::App* advise =
      app.add_subcommand("advise", "Replay a trace with many settings in equal memory, and choose one");
  add_trace(*advise, args);
  add_advise_options(*advise, args.advise);
  CLI::Option* const mode = add_choice(
      *advise, "--mode", args.sizing.mode,
      "Replay nothing: decide on a number of blocks interval by interval, and print the log", mode_names());
  add_number(*advise, "--interval", args.sizing.interval_seconds, "With --mode: seconds of an interval",
             86'400)
      ->needs(mode)
      ->capture_default_str();
  advise->add_flag("--json", args.json, "Print JSON");
}

void add_simulate(CLI::App& app, Arguments& args) {
  CLI::App* simulate = app.add_subcommand(
      "simulate", "Run a trace through the scheduler in virtual time: latencies, goodput, preemptions");
  add_trace(*simulate, args);
  add_simulate_options(*simulate, args.simulation);
  simulate->add_flag("--json", args.json, "Print JSON");
}

void add_generate(CLI::App& app, Arguments& args) {
  CLI::App* generate = app.add_subcommand("generate", "Write a synthetic trace for replay");
  add_number(*generate, "--requests", args.requests, "Number of requests [2000]", kMaxGeneratedRequests);
  generate->add_option("--seed", args.seed, "Equal seeds give equal traces")->capture_default_str();
  generate->add_option("-o,--output", args.output, "File to write; - is standard output")
      ->capture_default_str();
}

void add_models(CLI::App& app, Arguments& args) {
  CLI::App* models = app.add_subcommand("models", "List the models that estimate knows");
  models->add_flag("--json", args.json, "Print JSON");
}

void add_estimate(CLI::App& app, Arguments& args) {
  CLI::App* estimate =
      app.add_subcommand("estimate", "Compute the memory of a model's KV cache, and what fits into a budget");
  estimate
      ->add_option("MODEL", args.estimate.model,
                   "A name from `kvcache models`, or the path of a Hugging Face config.json or its folder")
      ->required();
  add_choice(*estimate, "--dtype", args.estimate.dtype, "Type of stored keys and values", dtype_names())
      ->capture_default_str();
  add_number(*estimate, "--context", args.estimate.context, "Tokens of each sequence [the model's context]",
             kMaxTokens);
  add_number(*estimate, "--batch", args.estimate.batch, "Number of sequences; they share nothing", kMaxTokens)
      ->capture_default_str();
  estimate->add_option("--budget", args.estimate.budget,
                       "Memory for blocks, such as 24GiB; prints what fits");
  add_number(*estimate, "--block-size", args.estimate.block_size, "Tokens per block", kMaxBlockSize)
      ->capture_default_str();
  add_number(*estimate, "--chunk", args.estimate.chunk,
             "Most tokens of a sequence that a step writes; layers with a window hold so many more",
             kMaxTokens)
      ->capture_default_str();
  add_number(*estimate, "--checkpoint", args.estimate.checkpoint,
             "Layers with a state: tokens between copies of it, a multiple of --block-size [no copies]",
             kMaxTokens);
  add_number(*estimate, "--scale-group", args.estimate.scale_group,
             "Elements that share a scale [int8, int4: a head; fp8: no scales in blocks]", 65536);
  estimate->add_flag("--asymmetric", args.estimate.asymmetric, "Each scale has an offset");
  estimate->add_flag("--tensor-scales", args.estimate.tensor_scales,
                     "One scale for all keys and one for all values; none in blocks");
  estimate->add_flag("--channel-keys", args.estimate.channel_keys,
                     "int8, int4: keys have a scale per channel; the last block of a sequence stays bf16");
  add_number(*estimate, "--channel-tokens", args.estimate.channel_tokens,
             "Tokens that share the scale of a channel [--block-size]", kMaxBlockSize);
  estimate->add_flag("--json", args.json, "Print JSON");
}

void add_bench(CLI::App& app, Arguments& args) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure storage, attention and tiers, and the machine in the same run");
  add_bench_options(*bench, args.bench);
  bench->add_flag("--json", args.json, "Print JSON");
}

void add_inspect(CLI::App& app, Arguments& args) {
  CLI::App* inspect =
      app.add_subcommand("inspect", "Show, check and purge what is on a disk: checkpoints, places of tiers");
  inspect
      ->add_option("PATH", args.inspect.path,
                   "A folder of checkpoints, a manifest in it (.kvcm), a folder of a dir: tier, a page in "
                   "it, or a slab")
      ->required();
  auto* verify = inspect->add_flag("--validate,--verify", args.inspect.validate,
                                   "Read and check every byte; the exit code is 1 if something is damaged");
  inspect
      ->add_option("--purge", args.inspect.purge.fingerprint,
                   "Remove the pages of this fingerprint from a folder of a tier, also while it is used, or "
                   "the slab that "
                   "has it; the first 8 digits do, if no other begins with them")
      ->type_name("FINGERPRINT")
      ->excludes(verify);
  inspect
      ->add_option("--older-than", args.inspect.purge.older_than,
                   "Remove the pages of a folder (with --purge: of one fingerprint) that were not used for "
                   "so long: 90s, "
                   "30m, 12h or 7d")
      ->type_name("TIME")
      ->excludes(verify);
  inspect->add_flag("--json", args.json, "Print JSON");
}

void add_checkpoint(CLI::App& app, Arguments& args) {
  CLI::App* checkpoint = app.add_subcommand(
      "checkpoint",
      "Save what a replayed trace has cached, restore and check it; look after a folder of them");
  add_checkpoint_options(*checkpoint, args.checkpoint);
  auto* trace = checkpoint->add_option("--replay", args.trace, "save: the trace; - is standard input")
                    ->type_name("TRACE");
  checkpoint->add_flag("--generate", args.generate, "save: take a synthetic trace instead")->excludes(trace);
  checkpoint->add_option("--seed", args.seed, "Seed of the synthetic trace")
      ->needs("--generate")
      ->capture_default_str();
  add_number(*checkpoint, "--requests", args.requests,
             "save: take only the first N requests [all; 2000 with --generate]", UINT32_MAX);
  add_number(*checkpoint, "--block-size", args.replay.block_size, "save: tokens per block", kMaxBlockSize)
      ->capture_default_str();
  add_number(*checkpoint, "--num-blocks", args.checkpoint.num_blocks,
             "Blocks of the pool [save: 100000; restore: as many as were saved]", KVC_MAX_BLOCKS);
  checkpoint->add_flag("--json", args.json, "Print JSON");
}

void add_route(CLI::App& app, Arguments& args) {
  RouteOptions& options = args.route;
  CLI::App* route = app.add_subcommand(
      "route", "Hold the index of a router, and answer lines of JSON on a socket of this machine");
  route->add_option("--listen", options.listen, "127.0.0.1:PORT, where port 0 is any free one, or unix:/path")
      ->capture_default_str();
  add_number(*route, "--block-size", options.block_size, "Tokens per block of the workers", kMaxBlockSize)
      ->capture_default_str();
  add_number(*route, "--max-blocks", options.max_blocks, "Blocks of the index", uint64_t{1} << 30)
      ->capture_default_str();
  add_number(*route, "--max-workers", options.max_workers, "Workers of the index", 1024u)
      ->capture_default_str();
  add_number(*route, "--ttl", options.ttl_seconds, "Seconds after which a silent worker is removed [never]",
             1u << 30);
  route->add_option("--load-weight", options.load_weight, "Cost of a unit of load, in missing blocks")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e9));
  route
      ->add_option("--far-weight", options.far_weight,
                   "Cost of a block in another medium than 0, in missing blocks")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
}

Trace load_trace(const Arguments& args, const char* command) {
  if (!args.generate) {
    if (args.trace.empty())
      throw InputError(std::string(command) + ": no trace; give a trace file or --generate");
    return read_trace(args.trace, args.requests);
  }
  const uint64_t requests = args.requests == 0 ? kDefaultRequests : args.requests;
  if (requests > kMaxGeneratedRequests) {
    throw InputError("--requests: a synthetic trace has at most " + std::to_string(kMaxGeneratedRequests) +
                     " requests; ask for fewer");
  }
  return generate_trace(requests, args.seed);
}

void check_policy(const ReplayOptions& options) {
  const double weight = options.policy_weight;
  const double most = most_policy_weight(options.policy);
  if (weight >= 0 && weight <= most) return;  // NaN is not.
  throw InputError("--policy-weight is " + number_text(weight) + "; with --policy " + options.policy +
                   " it is 0 to " + number_text(most) +
                   (most == 0 ? "; leave it out, or name another policy" : ""));
}

void check_curve(double rate) {
  if (rate >= 0 && rate <= 1) return;  // NaN is not.
  throw InputError("--curve is " + number_text(rate) + "; give a share of the blocks, above 0, up to 1");
}

int run_replay(const Arguments& args) {
  if (!args.log.empty()) return replay_log(args.log, args.json, std::cout) ? kExitOk : kExitFailure;
  check_policy(args.replay);
  check_curve(args.replay.curve);
  if (!args.replay.hints.empty()) parse_hints(args.replay.hints);
  const Trace trace = load_trace(args, "replay");
  if (args.samples != 0) {
    run_samples(trace, args.replay, args.samples, args.json, std::cout);
    return kExitOk;
  }
  ReplayOptions options = args.replay;
  if (!options.model.empty()) use_model(trace, options);
  const ReplayResult result = replay(trace, options);
  (args.json ? print_replay_json : print_replay_table)(options, result, std::cout);
  if (result.right()) return kExitOk;
  std::cerr << "kvcache: " << result.wrong_hits << " wrong hits and " << result.wrong_writes
            << " wrong writes: the library has a defect; please report it\n";
  return kExitFailure;
}

int run_advise(const Arguments& args) {
  if (!args.sizing.mode.empty()) {
    print_decisions(load_trace(args, "advise"), args.sizing, args.json, std::cout);
    return kExitOk;
  }
  print_advice(args.advise, advise(load_trace(args, "advise"), args.advise), args.json, std::cout);
  return kExitOk;
}

int run_checkpoint_command(const Arguments& args) {
  if (args.checkpoint.what != "save" && (args.generate || !args.trace.empty()))
    throw InputError("checkpoint " + args.checkpoint.what +
                     ": --replay and --generate are of save; leave them out");
  if (args.checkpoint.what != "save")
    return run_checkpoint(args.checkpoint, args.json, std::cout) ? kExitOk : kExitFailure;
  if (args.trace.empty() && !args.generate)
    throw InputError("checkpoint save: no trace; give --replay TRACE or --generate");
  ReplayOptions options = args.replay;
  if (args.checkpoint.num_blocks != 0) options.num_blocks = args.checkpoint.num_blocks;
  save_replayed(load_trace(args, "checkpoint"), options, args.checkpoint, args.json, std::cout);
  return kExitOk;
}

int run_generate(const Arguments& args) {
  const Trace trace = generate_trace(args.requests == 0 ? kDefaultRequests : args.requests, args.seed);
  std::ofstream file;
  if (args.output != "-") {
    file.open(args.output, std::ios::binary | std::ios::trunc);
    if (!file) throw InputError(args.output + ": " + std::strerror(errno) + "; give a writable file");
  }
  std::ostream& out = args.output == "-" ? std::cout : file;
  write_trace(trace, out);
  if (!out.flush())
    throw std::runtime_error("the trace was not written completely; check the space on the disk");
  return kExitOk;
}

int run(int argc, char** argv) {
  Arguments args;
  CLI::App app("The command of libkvcache, which manages the KV cache of LLM inference engines", "kvcache");
  app.require_subcommand(1);
  app.failure_message(usage_error);
  app.set_version_flag("--version", "kvcache " + version_text(kvc_version()), "Print the version and exit");
  add_info(app, args);
  add_replay(app, args);
  add_advise(app, args);
  add_simulate(app, args);
  add_generate(app, args);
  add_models(app, args);
  add_estimate(app, args);
  add_bench(app, args);
  add_inspect(app, args);
  add_checkpoint(app, args);
  add_route(app, args);
  if (argc > 1 && std::string(argv[1]) == "__complete") {
    print_completions(app, {argv + 2, argv + argc}, std::cout);
    return kExitOk;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;  // Help ends here too, with 0.
  }
  if (app.got_subcommand("replay")) return run_replay(args);
  if (app.got_subcommand("advise")) return run_advise(args);
  if (app.got_subcommand("simulate")) {
    run_simulation(load_trace(args, "simulate"), args.simulation, args.json, std::cout);
    return kExitOk;
  }
  if (app.got_subcommand("generate")) return run_generate(args);
  if (app.got_subcommand("bench"))
    return print_bench(args.bench, args.json, std::cout) ? kExitOk : kExitFailure;
  if (app.got_subcommand("route")) {
    serve_routes(args.route, std::cout);
    return kExitOk;
  }
  if (app.got_subcommand("checkpoint")) return run_checkpoint_command(args);
  if (app.got_subcommand("inspect"))
    return print_inspection(args.inspect, args.json, std::cout) ? kExitOk : kExitFailure;
  if (app.got_subcommand("estimate"))
    print_estimate(args.estimate, args.json, std::cout);
  else if (app.got_subcommand("models"))
    print_models(args.json, std::cout);
  else
    print_info(args.backends, args.json, std::cout);
  return kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    const int code = run(argc, argv);
    if (std::cout.flush()) return code;
    std::cerr << "kvcache: cannot write to standard output\n";
    return kExitFailure;
  } catch (const InputError& error) {
    std::cerr << "kvcache: " << error.what() << '\n';
    return kExitUsage;
  } catch (const std::bad_alloc&) {
    std::cerr << "kvcache: out of memory; use fewer requests, blocks or concurrency\n";
  } catch (const kvc::Error& error) {  // its text begins with the name of the status
    std::cerr << "kvcache: "
              << std::string(error.what()).substr(std::strlen(kvc_status_name(error.status())) + 2) << '\n';
  } catch (const std::exception& error) {
    std::cerr << "kvcache: " << error.what() << '\n';
  }
  return kExitFailure;
}
