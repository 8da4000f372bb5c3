// SPDX-License-Identifier: Apache-2.0
// Keys, values and queries whose attention is peaked, and attention over them in double precision: what
// `kvcache bench --prune` measures by. Nothing here calls the library's attention.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "cli/bench.h"

namespace kvcli {

/// One request. A passage of 64 tokens has a random direction for each KV head: its keys are normally
/// distributed, plus this direction times sqrt(head_dim). Each query and query head points to four passages
/// that it sees: scaled by 1 / sqrt(head_dim), the products with their keys are about 12, 10, 8 and 6 above
/// those with others. Values are normally distributed.
struct PeakedRequest {
  PeakedRequest(const BenchOptions& options, std::mt19937& random);

  std::vector<float> keys, values;  // [context][kv_heads][head_dim or v_head_dim]
  std::vector<float> queries;       // [queries][heads][head_dim]
};

/// Attention of one query of one query head.
struct PeakedAttention {
  /// Over tokens 0 .. tokens - 1 of keys and values [tokens][kv_heads][dim].
  PeakedAttention(const BenchOptions& options, const float* query, const std::vector<float>& keys,
                  uint32_t kv_head, uint64_t tokens);

  /// Probability of the tokens of each block, 1 in total.
  std::vector<double> blocks;
  /// The result over the blocks with keeps[block], as if there were no others.
  std::vector<float> result(const BenchOptions& options, const std::vector<float>& values, uint32_t kv_head,
                            const std::vector<bool>& keeps) const;

 private:
  std::vector<double> tokens_;  // probability of each
};

}  // namespace kvcli
