// SPDX-License-Identifier: Apache-2.0
// The JSON keys are an interface: add keys, do not rename them.
#include "cli/bench.h"

#include <kvcache/model.h>

#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>

#include "cli/bench_ceiling.h"
#include "cli/bench_checkpoint.h"
#include "cli/bench_events.h"
#include "cli/bench_json.h"
#include "cli/bench_options.h"
#include "cli/bench_prune.h"
#include "cli/bench_subject.h"
#include "cli/machine.h"
#include "cli/table.h"

namespace kvcli {
namespace {

using Json = nlohmann::ordered_json;

/// Runs of at least this many bytes are swapped by the copy engine, shorter ones by a kernel.
uint64_t kernel_bytes(const BenchOptions& options) {
  const auto info = ask<kvc_device_info>(kvc_device_read_info, options.device.c_str());
  return options.what == "swap-out" ? info.swap_out_kernel_bytes : info.swap_in_kernel_bytes;
}

/// Whether BenchArray takes the rows that are compared.
bool can_check(const BenchOptions& options) {
  const uint64_t value_dim = options.v_head_dim != 0 ? options.v_head_dim : options.head_dim;
  const auto whole = [](uint64_t heads, uint64_t dim, const std::string& dtype) {
    return heads * dim * (dtype == "fp32" ? 4 : 2) % 16 == 0;
  };
  if (is_attention(options)) return whole(options.heads, value_dim, options.query_dtype);
  return options.what != "gather" || (whole(options.kv_heads, options.head_dim, options.dtype) &&
                                      whole(options.kv_heads, value_dim, options.dtype));
}

/// Seconds of the same work on a storage that keeps each request in one block, as if nothing were paged; 0
/// where there is none.
double contiguous_seconds(BenchOptions options) {
  constexpr uint64_t kMostTokens = uint64_t{1} << 20;  // of a block
  if (!options.device.empty() || is_swap(options) || options.what == "copy" || options.context > kMostTokens)
    return 0;
  options.block_size = static_cast<uint32_t>((options.context + 15) / 16 * 16);
  options.check = false;
  return BenchSubject(options).run().seconds;
}

/// What a run has measured, and what it is held against.
struct Figures {
  BenchTimes times;
  bool rotates_apart;  // the keys of a store, too
  double apart;        // seconds
  double contiguous;   // seconds; 0 = not measured
  double reached;      // GB/s
  Ceiling ceiling;
  double gflops, fma_gflops;  // 0 = no attention; not on the CPU
  bool right;

  double machine() const { return ceiling.bandwidth / 1e9; }
};

Figures measure(BenchSubject& subject, const BenchOptions& options) {
  Figures figures = {};
  const bool on_device = !options.device.empty();
  figures.times = subject.run();
  figures.rotates_apart = options.rope && options.what == "store" && !on_device;
  if (figures.rotates_apart) figures.apart = subject.store_rotated_apart().seconds;
  figures.reached = subject.layer_bytes() / figures.times.seconds / 1e9;
  figures.ceiling = ceiling_of(options);
  figures.contiguous = contiguous_seconds(options);
  if (is_attention(options)) {
    figures.gflops = subject.flops() / figures.times.seconds / 1e9;
    if (!on_device) figures.fma_gflops = peak_flops(options.threads) / 1e9;
  }
  figures.right = !options.check || subject.checked().right();
  return figures;
}

Json json_of(const Figures& figures, const BenchSubject& subject, const BenchOptions& options) {
  const BenchTimes& times = figures.times;
  const bool on_device = !options.device.empty();
  Json json = setting_json(options, subject.layers());
  if (is_swap(options)) json["run_bytes"] = subject.run_bytes();
  if (is_swap(options) && on_device) json["kernel_bytes"] = kernel_bytes(options);
  json["us_per_layer"] = times.seconds * 1e6;
  if (on_device) json["enqueue_us_per_layer"] = times.enqueue_seconds * 1e6;
  if (figures.rotates_apart) json["apart_us_per_layer"] = figures.apart * 1e6;
  if (figures.contiguous != 0) {
    json["contiguous_us_per_layer"] = figures.contiguous * 1e6;
    json["contiguous_ratio"] = figures.contiguous / times.seconds;
  }
  json["gb_per_s"] = figures.reached;
  if (subject.traffic_bytes() != 0) json["traffic_gb_per_s"] = subject.traffic_bytes() / times.seconds / 1e9;
  json[figures.ceiling.key] = figures.machine();
  json["ratio"] = figures.reached / figures.machine();
  json["above_1"] = figures.reached > figures.machine();
  if (is_attention(options)) json["gflops"] = figures.gflops;
  if (figures.fma_gflops != 0) {
    json["fma_gflops"] = figures.fma_gflops;
    json["fma_ratio"] = figures.gflops / figures.fma_gflops;
  }
  if (options.check) json["check"] = check_json(subject.checked());
  return json;
}

void print_swap(const BenchSubject& subject, const BenchOptions& options, std::ostream& out) {
  out << "  runs of " << subject.run_bytes() << " bytes";
  if (!options.device.empty()) {
    const uint64_t limit = kernel_bytes(options);
    out << (subject.run_bytes() < limit ? " by a kernel" : " by the copy engine");
    if (limit != 0 && limit != UINT64_MAX) out << "; the copy engine is faster from " << limit << " bytes";
  }
  out << '\n';
}

void print_text(const Figures& figures, const BenchSubject& subject, const BenchOptions& options,
                std::ostream& out) {
  const double seconds = figures.times.seconds;
  const bool on_device = !options.device.empty();
  out << std::fixed << std::setprecision(2) << options.what << " of " << counted(options.batch, "request")
      << " of " << options.context << " tokens, " << options.kv_heads << " KV heads of " << options.head_dim
      << ", " << options.dtype << ", ";
  if (on_device)
    out << options.device;
  else
    out << counted(options.threads, "thread");
  out << "\n  " << hardware(options) << "\n  " << seconds * 1e6 << " us per layer";
  if (on_device) out << " (" << figures.times.enqueue_seconds * 1e6 << " us to enqueue)";
  out << ", " << figures.reached << " GB/s of keys and values\n";
  print_ratio(options, figures.ceiling, figures.reached * 1e9, out);
  if (figures.contiguous != 0)
    out << "  " << figures.contiguous * 1e6
        << " us if each request is contiguous: " << figures.contiguous / seconds << " of the paged time\n";
  if (figures.rotates_apart)
    out << "  " << figures.apart * 1e6
        << " us if kvc_rope_apply rotates the keys before the store, in one thread\n";
  if (is_swap(options)) print_swap(subject, options, out);
  if (options.check) {
    const BenchCheck& checked = subject.checked();
    out << "  " << checked.rows << " results compared with the CPU: " << (figures.right ? "right" : "WRONG")
        << ", largest relative error " << std::defaultfloat << checked.max_error << " (limit "
        << checked.limit << ")\n"
        << std::fixed;
  }
  if (!is_attention(options)) return;
  out << "  " << figures.gflops << " GFLOP/s, " << options.queries
      << (options.queries == 1 ? " query" : " queries") << " per request\n";
  if (figures.fma_gflops != 0)
    out << "  the machine computes " << figures.fma_gflops
        << " GFLOP/s of fp32 multiply-adds in registers: " << figures.gflops / figures.fma_gflops
        << " of it\n";
}

}  // namespace

bool print_bench(const BenchOptions& given, bool as_json, std::ostream& out) {
  check_options(given);
  if (given.what == "checkpoint") return print_bench_checkpoint(given, as_json, out);
  if (given.what == "events") return print_bench_events(given, as_json, out);
  if (given.what == "tier") return print_tier_bench(given.tier, as_json, out);
  if (given.what == "index") return print_index_bench(given.index, given.tier.seconds, as_json, out);
  if (!given.prune.empty()) return print_prune(given, as_json, out);
  BenchOptions options = given;
  options.check |= options.device.empty() && !options.no_check && can_check(options);
  BenchSubject subject(options);
  const Figures figures = measure(subject, options);
  if (as_json)
    out << json_of(figures, subject, options).dump(2) << '\n';
  else
    print_text(figures, subject, options, out);
  return figures.right;
}

}  // namespace kvcli
