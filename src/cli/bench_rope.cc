// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_rope.h"

#include <cmath>

#include "cli/library.h"

namespace kvcli {

std::vector<float> rope_angles(const BenchOptions& options) {
  std::vector<double> frequencies(options.head_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = std::pow(10000.0, -2.0 * static_cast<double>(i) / options.head_dim);
  std::vector<float> table(options.context * options.head_dim);
  check(kvc_rope_table(frequencies.data(), frequencies.size(), 1, nullptr, options.context, table.data()));
  return table;
}

void rotate_by(const float* table, const BenchOptions& options, const void* positions, kvc_rows* rows) {
  rows->rope_table = table;
  rows->rope_table_rows = options.context;
  rows->rope_rows = static_cast<const int64_t*>(positions);
}

kvc_rope_rows keys_of(const kvc_rows& rows, const BenchOptions& options) {
  auto keys = make<kvc_rope_rows>();
  keys.x = rows.k;
  keys.num_tokens = rows.num_tokens;
  keys.table = rows.rope_table;
  keys.table_rows = rows.rope_table_rows;
  keys.table_row = rows.rope_rows;
  keys.num_heads = options.kv_heads;
  keys.head_dim = options.head_dim;
  keys.dtype = rows.dtype;
  return keys;
}

}  // namespace kvcli
