// SPDX-License-Identifier: Apache-2.0
// `kvcache bench`: what storage operations reach on this machine or on a device, beside what that itself
// reaches in the same run.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

namespace kvcli {

struct BenchOptions {
  /// attention, step (a new token stored, then attention), store, gather, copy, swap-out or swap-in
  std::string what = "attention";
  std::string device;       // empty: the CPU
  uint64_t context = 4096;  // tokens of each request
  uint64_t batch = 1;       // requests
  uint32_t heads = 32, kv_heads = 8, head_dim = 128, block_size = 16, threads = 1;
  uint32_t v_head_dim = 0;  // 0: as head_dim
  bool latent = false;   // one row of head_dim for keys and values: these are its first v_head_dim elements
  uint32_t queries = 1;  // of each request, for attention: 1 is a decode step
  uint32_t layers = 0;   // that are gone through in turn; 0: so many that no cache holds them
  std::string dtype = "bf16";
  std::string layout = "lbhnc";
  std::string query_dtype = "fp32";  // or bf16
  bool rope = false;                 // of store and step: keys turn while they are stored
  bool check = false;                // results of the last call are compared with the CPU's
  bool own_schedules = false;  // of attention on a device: each layer's, not one for all layers of a model
};

inline bool is_attention(const BenchOptions& options) {
  return options.what == "attention" || options.what == "step";
}

inline bool is_swap(const BenchOptions& options) {
  return options.what == "swap-out" || options.what == "swap-in";
}

/// Whether what was computed is right, or was not to be checked. Throws InputError for options that do not go
/// together.
bool print_bench(const BenchOptions& options, bool as_json, std::ostream& out);

}  // namespace kvcli
