// SPDX-License-Identifier: Apache-2.0
// What a benchmark computes with, and what the CPU makes of a part of it.
#pragma once

#include <kvcache.h>

#include <cstdint>
#include <random>
#include <vector>

#include "cli/library.h"

namespace kvcli {

/// Normally distributed floats, without a period that rows or blocks could share.
void fill_normal(std::mt19937& random, char* to, size_t count);

/// The keys and values that a storage is filled with: one array of rows, which every layer and every piece of
/// a layer begins at another row of, so that a kernel that reads the wrong layer or block gets other numbers.
class BenchSource {
 public:
  BenchSource(std::mt19937& random, const kvc_storage_config& config);

  bool has_values() const { return !v_.empty(); }
  const std::vector<float>& keys() const { return k_; }
  const std::vector<float>& values() const { return v_; }
  /// Tokens whose rows follow each other in the arrays: a piece begins at each multiple of it.
  uint64_t piece() const { return piece_; }
  /// Of a token, counted over all blocks of the table: where its row begins in keys() and values().
  size_t key_of(uint32_t layer, uint64_t token) const { return row(layer, token) * key_elements_; }
  size_t value_of(uint32_t layer, uint64_t token) const { return row(layer, token) * value_elements_; }

 private:
  uint64_t row(uint32_t layer, uint64_t token) const;

  const uint64_t piece_;
  const size_t key_elements_, value_elements_;  // of a token
  std::vector<float> k_, v_;
};

/// Blocks that follow each other in the table of a benchmark.
struct BenchBlocks {
  uint64_t first, count;
};

/// A storage of the CPU with some blocks of a benchmark's, stored from the same source: block `i` of
/// `blocks`, counted through, is its block i. Layer l is the benchmark's layer first_layer + l.
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
