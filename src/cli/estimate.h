// SPDX-License-Identifier: Apache-2.0
// `kvcache models` and `kvcache estimate`: the presets, and the memory of a model's KV cache.
#pragma once
#include <kvcache/model.h>

#include <cstdint>
#include <ostream>
#include <string>

namespace kvcli {

struct EstimateOptions {
  std::string model;           // A preset, a config.json, or its folder.
  std::string dtype = "fp16";  // As large as bf16, the default of `bench`: most models store 16 bits.
  std::string budget;          // Such as "24GiB"; empty = none.
  uint32_t block_size = 16;
  uint32_t scale_group = 0;  // 0 = the library's default.
  bool asymmetric = false;
  bool tensor_scales = false;
  bool channel_keys = false;
  uint32_t channel_tokens = 0;  // 0 = those of a block.
  uint64_t context = 0;         // 0 = the model's.
  uint64_t batch = 1;
  uint64_t chunk = 1;
  uint64_t checkpoint = 0;  // 0 = no checkpoints.
};

/// Parses "24GiB", "1.5 GB" or "4096": a number and a unit (B; KB, MB, GB, TB of 1000; KiB, ... of 1024;
/// upper and lower case are equal). Throws InputError.
uint64_t parse_bytes(const std::string& text);

/// A preset, or the model of a config.json or its folder. Throws InputError.
kvc_model find_model(const std::string& name);

/// Throws InputError for a question that has no answer.
kvc_memory_estimate estimate_of(const kvc_memory_query& query);

/// Throws InputError if there is no such model or an option is out of range.
void print_estimate(const EstimateOptions& options, bool as_json, std::ostream& out);

void print_models(bool as_json, std::ostream& out);

}  // namespace kvcli
