// SPDX-License-Identifier: Apache-2.0
// The input of a benchmark, and the results of the CPU for a part of it.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "cli/library.h"

namespace kvcli {

/// Writes normally distributed floats. Their period differs from those of rows and blocks.
void fill_normal(std::mt19937& random, char* to, size_t count);

/// The keys and values that fill a storage: one array of rows. Each layer, and each piece of a layer, starts
/// at another row of it, so a kernel that reads the wrong layer or block gets other numbers.
class BenchSource {
 public:
  BenchSource(std::mt19937& random, const kvc_storage_config& config);

  bool has_values() const { return !v_.empty(); }
  const std::vector<float>& keys() const { return k_; }
  const std::vector<float>& values() const { return v_; }
  /// Tokens with consecutive rows: a piece starts at each multiple of this.
  uint64_t piece() const { return piece_; }
  /// Index of the first element of a token's row. Tokens are counted over all blocks of the table.
  size_t key_of(uint32_t layer, uint64_t token) const { return row(layer, token) * key_elements_; }
  size_t value_of(uint32_t layer, uint64_t token) const { return row(layer, token) * value_elements_; }

 private:
  uint64_t row(uint32_t layer, uint64_t token) const;

  const uint64_t piece_;
  const size_t key_elements_, value_elements_;  // of a token
  std::vector<float> k_, v_;
};

/// Consecutive blocks of a benchmark's table.
struct BenchBlocks {
  uint64_t first, count;
};

/// A storage on the CPU with some blocks of a benchmark, filled from the same source. Its block i is the i-th
/// of all `blocks`; its layer l is the benchmark's layer first_layer + l.
class BenchReference {
 public:
  BenchReference(kvc_storage_config config, const BenchSource& source, const std::vector<BenchBlocks>& blocks,
                 uint32_t first_layer, uint32_t num_layers);

  kvc_storage* storage() const { return storage_.get(); }
  uint64_t num_blocks() const { return table_.size(); }
  /// 0, 1, ...: the blocks in order.
  const std::vector<int32_t>& table() const { return table_; }

 private:
  std::vector<int32_t> table_;
  Storage storage_;
};

}  // namespace kvcli
