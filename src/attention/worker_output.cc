// SPDX-License-Identifier: Apache-2.0
// What a worker leaves behind: the state of a split in its slot, the sum of slots, rows of output.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/worker.h"
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
  const auto out_of = [&](size_t at) { return static_cast<char*>(args_.out) + at * row_bytes; };
  for (uint32_t h = 0; h < piece.heads; ++h) {
    for (uint32_t r = 0; r < piece.rows; ++r) {
      if (r + kRowsAhead < piece.rows) {
        const char* ahead = out_of(row_at(piece, h, r + kRowsAhead));
        for (size_t i = 0; i < row_bytes; i += 64) __builtin_prefetch(ahead + i, 1);
      }
      const size_t row = size_t{h} * piece.rows + r, at = row_at(piece, h, r);
      float total = 0;
      for (size_t i = 0; i < 16; ++i) total += scratch_.total[row * 16 + i];
      float* o = scratch_.o + row * shape_.v_dim;
      const float factor = total == 0 ? 0.0f : 1 / total;
      for (uint32_t e = 0; e < dim; ++e) o[e] *= factor;
      rotate_row(*args_.layout, o, dim);
      from_float(args_.q_dtype, o, out_of(at), dim);
      if (args_.lse != nullptr) {
        args_.lse[at] = total == 0 ? -std::numeric_limits<float>::infinity()
                                   : (scratch_.top[row] + std::log2(total)) * 0.6931471805599453f;
      }
    }
  }
}

}  // namespace kvc
