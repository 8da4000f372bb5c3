// SPDX-License-Identifier: Apache-2.0
// What a worker leaves behind: the state of a split in its slot, the sum of slots, rows of output.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/worker.h"
#include "base/copy.h"
#include "quant/convert.h"

namespace kvc {

void Worker::store_slot(const Piece& piece, float* slot) {
  const size_t rows = size_t{piece.heads} * piece.rows;
  for (size_t row = 0; row < rows; ++row) {
    slot = std::copy_n(scratch_.o + row * shape_.v_dim, shape_.v_dim, slot);
    float total = 0;
    for (size_t i = 0; i < 16; ++i) total += scratch_.total[row * 16 + i];
    *slot++ = scratch_.top[row];
    *slot++ = total;
  }
}

void Worker::add_slot(const Piece& piece, const float* slot) {
  const size_t rows = size_t{piece.heads} * piece.rows;
  for (size_t row = 0; row < rows; ++row, slot += shape_.v_dim + 2) {
    const float other_top = slot[shape_.v_dim], other_total = slot[shape_.v_dim + 1];
    float& top = scratch_.top[row];
    float& total = scratch_.total[row * 16];
    const float highest = std::max(top, other_top);
    const float keep = std::exp2(top - highest), add = std::exp2(other_top - highest);
    float* o = scratch_.o + row * shape_.v_dim;
    for (uint32_t e = 0; e < shape_.v_dim; ++e) o[e] = o[e] * keep + slot[e] * add;
    total = total * keep + other_total * add;
    top = highest;
  }
}

void Worker::write_output(const Piece& piece) {
  const uint32_t dim = args_.layout->v_dim;
  const size_t row_bytes = size_t{dim} * dtype_bits(args_.q_dtype) / 8;
  const bool stream = args_.q_offsets[args_.num_requests] * args_.num_q_heads * row_bytes >= kStreamBytes;
  const auto out_at = [&](size_t at) { return static_cast<char*>(args_.out) + at * row_bytes; };
  for (uint32_t h = 0; h < piece.heads; ++h) {
    for_neighbours(piece, h, [&](uint32_t first, uint32_t count, size_t at, size_t ahead) {
      if (!stream) {
        for (size_t i = 0; i < count * row_bytes; i += 64) __builtin_prefetch(out_at(ahead) + i, 1);
      }
      for (uint32_t r = 0; r < count; ++r, ++at) {
        const size_t row = size_t{h} * piece.rows + first + r;
        const float* totals = scratch_.total + row * 16;
        float sums[4] = {};
        for (size_t i = 0; i < 16; ++i) sums[i % 4] += totals[i];
        const float total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        float* o = scratch_.o + row * shape_.v_dim;
        all_kernels_.scale(o, shape_.v_dim, total == 0 ? 0.0f : 1 / total);
        rotate_row(*args_.layout, o, dim);
        char* const row_out = stream ? reinterpret_cast<char*>(scratch_.o_before) : out_at(at);
        from_float(args_.q_dtype, o, row_out, dim);
        if (stream) copy_bytes(out_at(at), row_out, row_bytes, true);
        if (args_.lse != nullptr) {
          args_.lse[at] = total == 0 ? -std::numeric_limits<float>::infinity()
                                     : (scratch_.top[row] + std::log2(total)) * 0.6931471805599453f;
        }
      }
    });
  }
  stream_fence(stream);
}

}  // namespace kvc
