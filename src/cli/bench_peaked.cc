// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_peaked.h"

#include <algorithm>
#include <cmath>

namespace kvcli {
namespace {

constexpr uint64_t kPassage = 64;                        // tokens
constexpr float kLogits[] = {12.0f, 10.0f, 8.0f, 6.0f};  // of the passages that a query points to

uint32_t value_dim(const BenchOptions& options) {
  return options.v_head_dim != 0 ? options.v_head_dim : options.head_dim;
}

std::vector<float> normal_floats(std::mt19937& random, size_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

void add(const float* direction, float factor, uint32_t dim, float* to) {
  for (uint32_t e = 0; e < dim; ++e) to[e] += factor * direction[e];
}

}  // namespace

PeakedRequest::PeakedRequest(const BenchOptions& options, std::mt19937& random) {
  const uint32_t dim = options.head_dim, kv_heads = options.kv_heads, group = options.heads / kv_heads;
  const uint64_t passages = (options.context + kPassage - 1) / kPassage;
  std::vector<float> directions = normal_floats(random, passages * kv_heads * dim);  // of length 1
  for (size_t at = 0; at < directions.size(); at += dim) {
    double square = 0;
    for (size_t e = at; e < at + dim; ++e) square += double{directions[e]} * double{directions[e]};
    for (size_t e = at; e < at + dim; ++e) directions[e] /= static_cast<float>(std::sqrt(square));
  }
  const auto direction = [&](uint64_t passage, uint32_t head) {
    return &directions[(passage * kv_heads + head) * dim];
  };
  keys = normal_floats(random, options.context * kv_heads * dim);
  for (uint64_t token = 0; token < options.context; ++token)
    for (uint32_t head = 0; head < kv_heads; ++head)
      add(direction(token / kPassage, head), std::sqrt(static_cast<float>(dim)), dim,
          &keys[(token * kv_heads + head) * dim]);
  values = normal_floats(random, options.context * kv_heads * value_dim(options));
  queries = normal_floats(random, size_t{options.queries} * options.heads * dim);
  for (uint64_t query = 0; query < options.queries; ++query) {
    const uint64_t seen = (options.context - options.queries + query) / kPassage + 1;  // passages
    for (uint32_t head = 0; head < options.heads; ++head)
      for (const float logit : kLogits)
        add(direction(random() % seen, head / group), logit, dim,
            &queries[(query * options.heads + head) * dim]);
  }
}

PeakedAttention::PeakedAttention(const BenchOptions& options, const float* query,
                                 const std::vector<float>& keys, uint32_t kv_head, uint64_t tokens)
    : blocks((tokens + options.block_size - 1) / options.block_size), tokens_(tokens) {
  for (uint64_t token = 0; token < tokens; ++token) {
    const float* key = &keys[(token * options.kv_heads + kv_head) * options.head_dim];
    double product = 0;
    for (uint32_t e = 0; e < options.head_dim; ++e) product += double{query[e]} * double{key[e]};
    tokens_[token] = product / std::sqrt(static_cast<double>(options.head_dim));
  }
  const double best = *std::max_element(tokens_.begin(), tokens_.end());
  double sum = 0;
  for (double& x : tokens_) sum += x = std::exp(x - best);
  for (uint64_t token = 0; token < tokens; ++token)
    blocks[token / options.block_size] += tokens_[token] /= sum;
}

std::vector<float> PeakedAttention::result(const BenchOptions& options, const std::vector<float>& values,
                                           uint32_t kv_head, const std::vector<bool>& keeps) const {
  const uint32_t dim = value_dim(options);
  std::vector<double> sums(dim);
  double kept = 0;
  for (uint64_t token = 0; token < tokens_.size(); ++token) {
    if (!keeps[token / options.block_size]) continue;
    const float* value = &values[(token * options.kv_heads + kv_head) * dim];
    for (uint32_t e = 0; e < dim; ++e) sums[e] += tokens_[token] * double{value[e]};
    kept += tokens_[token];
  }
  std::vector<float> mean(dim);
  for (uint32_t e = 0; e < dim; ++e) mean[e] = static_cast<float>(sums[e] / kept);
  return mean;
}

}  // namespace kvcli
