// SPDX-License-Identifier: Apache-2.0
// The definition of attention in double precision: one query, one head and one key at a time, in two passes.
// Tests compare the faster implementations with it.
#include <cmath>
#include <limits>
#include <vector>

#include "attention/attention.h"
#include "quant/convert.h"

namespace kvc {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// The row of one token's keys or values, dequantized.
std::vector<float> row_of(const AttentionArgs& args, bool keys, int32_t block, uint32_t head,
                          uint64_t token) {
  std::vector<float> row(keys ? args.layout->k_dim : args.layout->v_dim);
  const auto count = static_cast<uint32_t>(row.size());
  read_row({args.layout, args.slab, args.residual_keys}, keys, args.layer, static_cast<uint64_t>(block), head,
           token, count, row.data());
  hadamard_row(*args.layout, row.data(), count);
  return row;
}

// Whether query i of request r, at position p, sees position j in KV head `head`.
bool sees(const AttentionArgs& args, size_t r, uint64_t i, int64_t p, uint64_t j, uint32_t head) {
  const int64_t at = static_cast<int64_t>(j);
  if (args.causal && at > p) return false;
  const bool behind = p > at && static_cast<uint64_t>(p - at) >= args.window;
  if (args.window != 0 && j >= args.sinks && behind) return false;
  if (args.block_mask != nullptr) {
    const uint64_t block = j / args.layout->block_size;
    const uint8_t* row = args.block_mask + (r * args.layout->num_heads + head) * args.block_mask_stride;
    if ((row[block / 8] >> (block % 8) & 1) == 0) return false;
  }
  const uint64_t mask_start = args.mask_starts != nullptr ? args.mask_starts[r] : 0;
  if (args.mask == nullptr || j < mask_start) return true;
  const uint64_t bit = args.mask_offsets[r] + i * (args.kv_lens[r] - mask_start) + j - mask_start;
  return (args.mask[bit / 8] >> (bit % 8) & 1) != 0;
}

void attend_row(const AttentionArgs& args, size_t r, uint64_t i, uint32_t head,
                std::vector<double>& weights) {
  const Layout& layout = *args.layout;
  const uint64_t queries = args.q_offsets[r + 1] - args.q_offsets[r];
  const uint64_t kv_len = args.kv_lens[r];
  const int64_t start = static_cast<int64_t>(args.q_starts != nullptr ? args.q_starts[r] : kv_len - queries);
  const int64_t p = start + static_cast<int64_t>(i);
  const uint32_t kv_head = head / (args.num_q_heads / layout.num_heads);
  const uint64_t token = args.q_offsets[r] + i, q_bytes = dtype_bits(args.q_dtype) / 8;
  const char* q =
      static_cast<const char*>(args.q) + (token * args.q_token_stride + head * args.q_head_stride) * q_bytes;
  char* out =
      static_cast<char*>(args.out) + (token * args.out_token_stride + head * args.out_head_stride) * q_bytes;
  const int32_t* table = args.block_tables + r * args.table_stride;

  weights.assign(kv_len, kMinusInfinity);
  double row_max = kMinusInfinity;
  for (uint64_t j = 0; j < kv_len; ++j) {
    if (!sees(args, r, i, p, j, kv_head)) continue;
    const std::vector<float> key =
        row_of(args, true, table[j / layout.block_size], kv_head, j % layout.block_size);
    double logit = 0;
    for (uint32_t e = 0; e < layout.k_dim; ++e) {
      logit += static_cast<double>(read_element(args.q_dtype, q + e * q_bytes)) * static_cast<double>(key[e]);
    }
    logit *= static_cast<double>(args.scale);
    const double cap = static_cast<double>(args.soft_cap);
    if (cap != 0) logit = cap * std::tanh(logit / cap);
    if (args.alibi_slopes != nullptr) {
      logit +=
          static_cast<double>(args.alibi_slopes[head]) * static_cast<double>(static_cast<int64_t>(j) - p);
    }
    weights[j] = logit;
    row_max = std::fmax(row_max, logit);
  }

  std::vector<double> sums(layout.v_dim, 0.0);
  double row_sum = 0;
  if (args.sink_logits != nullptr && std::isfinite(args.sink_logits[head])) {
    const auto sink = static_cast<double>(args.sink_logits[head]);
    row_max = std::fmax(row_max, sink);
    row_sum = std::exp(sink - row_max);
  }
  for (uint64_t j = 0; j < kv_len; ++j) {
    if (weights[j] == kMinusInfinity) continue;
    const double weight = std::exp(weights[j] - row_max);
    row_sum += weight;
    const std::vector<float> value =
        row_of(args, false, table[j / layout.block_size], kv_head, j % layout.block_size);
    for (uint32_t e = 0; e < layout.v_dim; ++e) sums[e] += weight * static_cast<double>(value[e]);
  }
  for (uint32_t e = 0; e < layout.v_dim; ++e) {
    write_element(args.q_dtype, row_sum == 0 ? 0.0f : static_cast<float>(sums[e] / row_sum),
                  out + e * q_bytes);
  }
  if (args.lse != nullptr)
    args.lse[token * args.num_q_heads + head] = static_cast<float>(row_max + std::log(row_sum));
}

}  // namespace

void attend_reference(const AttentionArgs& args) {
  std::vector<double> weights;
  for (size_t r = 0; r < args.num_requests; ++r) {
    for (uint64_t i = 0; i < args.q_offsets[r + 1] - args.q_offsets[r]; ++i) {
      for (uint32_t head = 0; head < args.num_q_heads; ++head) attend_row(args, r, i, head, weights);
    }
  }
}

}  // namespace kvc
