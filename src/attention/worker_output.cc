// SPDX-License-Identifier: Apache-2.0
// What a worker writes: the partial result of a split, the sum of partial results, rows of output.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/worker.h"
#include "base/copy.h"
#include "quant/convert.h"

namespace kvc {

void Worker::store_partial(const Piece& piece, float* partial) {
  const size_t rows = size_t{piece.heads} * piece.rows;
  for (size_t row = 0; row < rows; ++row) {
    partial = std::copy_n(scratch_.o + row * shape_.v_dim, shape_.v_dim, partial);
    float row_sum = 0;
    for (size_t i = 0; i < 16; ++i) row_sum += scratch_.row_sum[row * 16 + i];
    *partial++ = scratch_.row_max[row];
    *partial++ = row_sum;
  }
}

void Worker::add_partial(const Piece& piece, const float* partial) {
  const size_t rows = size_t{piece.heads} * piece.rows;
  for (size_t row = 0; row < rows; ++row, partial += shape_.v_dim + 2) {
    const float other_max = partial[shape_.v_dim], other_sum = partial[shape_.v_dim + 1];
    float& row_max = scratch_.row_max[row];
    float& row_sum = scratch_.row_sum[row * 16];
    const float highest = std::max(row_max, other_max);
    const float keep = std::exp2(row_max - highest), add = std::exp2(other_max - highest);
    float* o = scratch_.o + row * shape_.v_dim;
    for (uint32_t e = 0; e < shape_.v_dim; ++e) o[e] = o[e] * keep + partial[e] * add;
    row_sum = row_sum * keep + other_sum * add;
    row_max = highest;
  }
}

// The factor of a row's sum of values. Writes the log-sum-exp unless lse is nullptr.
float Worker::finish_row(size_t row, uint32_t q_head, float* lse) const {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity(), kLn2 = 0.6931471805599453f;
  const float* row_sums = scratch_.row_sum + row * 16;
  float sums[4] = {};
  for (size_t i = 0; i < 16; ++i) sums[i % 4] += row_sums[i];
  const float row_sum = (sums[0] + sums[1]) + (sums[2] + sums[3]), row_max = scratch_.row_max[row];
  const float sink = args_.sink_logits != nullptr ? args_.sink_logits[q_head] : kMinusInfinity;
  if (row_sum == 0) {
    if (lse != nullptr) *lse = sink;
    return 0;
  }
  if (sink == kMinusInfinity) {
    if (lse != nullptr) *lse = (row_max + std::log2(row_sum)) * kLn2;
    return 1 / row_sum;
  }
  // Relative to the greater one of exp(sink) and exp(highest logit).
  const double highest = static_cast<double>(row_max) * static_cast<double>(kLn2);
  const auto above = static_cast<float>(static_cast<double>(sink) - highest);
  const float keep = above > 0 ? std::exp(-above) : 1;
  const float all = above > 0 ? row_sum * keep + 1 : row_sum + std::exp(above);
  if (lse != nullptr) {
    const double base = above > 0 ? static_cast<double>(sink) : highest;
    *lse = static_cast<float>(base + static_cast<double>(std::log(all)));
  }
  return keep / all;
}

void Worker::write_output(const Piece& piece) {
  const uint32_t dim = args_.layout->v_dim;
  const size_t row_bytes = size_t{dim} * dtype_bits(args_.q_dtype) / 8;
  const bool stream = args_.q_offsets[args_.num_requests] * args_.num_q_heads * row_bytes >= kStreamBytes;
  for (uint32_t h = 0; h < piece.heads; ++h) {
    for_each_row(piece, h, [&](uint32_t row_of_head, RowPlace at, RowPlace ahead) {
      if (!stream) {
        const char* const fetched = out_at(ahead);
        for (size_t i = 0; i < row_bytes; i += 64) __builtin_prefetch(fetched + i, 1);
      }
      const size_t row = size_t{h} * piece.rows + row_of_head;
      float* const o = scratch_.o + row * shape_.v_dim;
      float* const lse = args_.lse != nullptr ? args_.lse + at.token * args_.num_q_heads + at.head : nullptr;
      all_kernels_.scale(o, shape_.v_dim, finish_row(row, at.head, lse));
      hadamard_row(*args_.layout, o, dim);
      char* const row_out = stream ? reinterpret_cast<char*>(scratch_.o_before) : out_at(at);
      from_float(args_.q_dtype, o, row_out, dim);
      if (stream) copy_bytes(out_at(at), row_out, row_bytes, true);
    });
  }
  stream_fence(stream);
}

}  // namespace kvc
