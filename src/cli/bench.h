// SPDX-License-Identifier: Apache-2.0
// `kvcache bench`: the speed of storage operations and attention, and the bandwidth of the machine or device
// in the same run.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "cli/bench_index.h"
#include "cli/bench_tier.h"

namespace kvcli {

struct BenchOptions {
  /// attention, step (stores a new token, then attention), store, gather, copy, swap-out, swap-in,
  /// checkpoint, tier, index
  std::string what = "attention";
  std::string device;       // empty: the CPU
  uint64_t context = 4096;  // tokens of each request
  uint64_t batch = 1;       // requests
  uint32_t heads = 32, kv_heads = 8, head_dim = 128, block_size = 16, threads = 1;
  uint32_t v_head_dim = 0;  // 0: as head_dim
  bool latent = false;      // one row of head_dim elements; the values are its first v_head_dim elements
  uint32_t queries = 1;     // per request, for attention; 1 is a decode step
  uint32_t layers = 0;      // calls use one after the other; 0: so many that no cache holds them
  std::string dtype = "bf16";
  std::string layout = "lbhnc";
  std::string query_dtype = "fp32";  // or bf16
  bool rope = false;                 // store and step: keys rotate while they are stored
  bool check = false;                // compare results of the last call with the CPU's
  bool no_check = false;             // on the CPU too, where they are compared unless that is impossible
  std::string prune;                 // attention on the CPU over chosen blocks: topk:N, ratio:R, threshold:T
  std::string folder;                // checkpoint: where to write
  std::string codec = "none";        // checkpoint
  bool own_plans = false;            // attention on a device: each layer makes its own plan
  TierBenchOptions tier;
  IndexBenchOptions index;
};

inline bool is_attention(const BenchOptions& options) {
  return options.what == "attention" || options.what == "step";
}

inline bool is_swap(const BenchOptions& options) {
  return options.what == "swap-out" || options.what == "swap-in";
}

/// Returns false if --check found wrong results. Throws InputError for options that exclude each other.
bool print_bench(const BenchOptions& options, bool as_json, std::ostream& out);

}  // namespace kvcli
