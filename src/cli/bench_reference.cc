// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_reference.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

namespace kvcli {
namespace {

constexpr uint64_t kPieceTokens = 4096, kShifts = 1021;

uint64_t value_dim(const kvc_storage_config& config) {
  if ((config.flags & KVC_STORAGE_LATENT) != 0) return 0;  // values are a part of the keys
  return config.v_head_dim != 0 ? config.v_head_dim : config.head_dim;
}

}  // namespace

void fill_normal(std::mt19937& random, char* to, size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> pattern(65521);  // a prime: rows differ
  for (float& x : pattern) x = normal(random);
  for (size_t i = 0; i < count; i += pattern.size())
    std::memcpy(to + i * 4, pattern.data(), std::min(pattern.size(), count - i) * 4);
}

BenchSource::BenchSource(std::mt19937& random, const kvc_storage_config& config)
    : piece_(std::max<uint64_t>(kPieceTokens / config.block_size, 1) * config.block_size),
      key_elements_(size_t{config.num_heads} * config.head_dim),
      value_elements_(config.num_heads * value_dim(config)),
      k_((piece_ + kShifts) * key_elements_),
      v_((piece_ + kShifts) * value_elements_) {
  fill_normal(random, reinterpret_cast<char*>(k_.data()), k_.size());
  fill_normal(random, reinterpret_cast<char*>(v_.data()), v_.size());
}

uint64_t BenchSource::row(uint32_t layer, uint64_t token) const {
  return token % piece_ + (token / piece_ * 101 + uint64_t{layer} * 37) % kShifts;
}

BenchReference::BenchReference(kvc_storage_config config, const BenchSource& source,
                               const std::vector<BenchBlocks>& blocks, uint32_t first_layer,
                               uint32_t num_layers) {
  config.device = nullptr;
  config.flags &= ~uint32_t{KVC_STORAGE_TILED_KEYS};
  config.num_threads = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  config.num_layers = num_layers;
  config.num_blocks = 0;
  for (const BenchBlocks& some : blocks) config.num_blocks += some.count;
  table_.resize(config.num_blocks);
  std::iota(table_.begin(), table_.end(), 0);
  storage_.reset(ask<kvc_storage*>(kvc_storage_create, &config));
  auto rows = make<kvc_rows>();
  rows.dtype = KVC_FLOAT32;
  rows.block_table = table_.data();
  rows.block_table_size = table_.size();
  for (uint32_t layer = 0; layer < num_layers; ++layer) {
    rows.first_layer = layer;
    rows.first_token = 0;
    for (const BenchBlocks& some : blocks) {
      const uint64_t end = (some.first + some.count) * config.block_size;
      for (uint64_t token = some.first * config.block_size; token < end; token += rows.num_tokens) {
        rows.num_tokens = std::min(source.piece() - token % source.piece(), end - token);
        // The library only reads them.
        rows.k = const_cast<float*>(source.keys().data()) + source.key_of(first_layer + layer, token);
        if (source.has_values())
          rows.v = const_cast<float*>(source.values().data()) + source.value_of(first_layer + layer, token);
        check(kvc_storage_store(storage_.get(), &rows, nullptr));
        rows.first_token += rows.num_tokens;
      }
    }
  }
}

}  // namespace kvcli
