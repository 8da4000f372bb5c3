// SPDX-License-Identifier: Apache-2.0
#include "attention/rotate.h"

#include "layout/layout.h"
#include "quant/convert.h"

namespace kvc {
namespace {

void rotate_halves(float* __restrict x, const float* __restrict cosines, const float* __restrict sines,
                   uint32_t pairs) {
  float* __restrict y = x + pairs;
  for (uint32_t i = 0; i < pairs; ++i) {
    const float a = x[i], b = y[i];
    x[i] = a * cosines[i] - b * sines[i];
    y[i] = b * cosines[i] + a * sines[i];
  }
}

void rotate_neighbours(float* __restrict x, const float* __restrict cosines, const float* __restrict sines,
                       uint32_t pairs) {
  for (uint32_t i = 0; i < pairs; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * cosines[i] - b * sines[i];
    x[2 * i + 1] = b * cosines[i] + a * sines[i];
  }
}

}  // namespace

void rotate_rows(const kvc_rope_rows& rows) {
  const auto rotate = (rows.flags & KVC_ROPE_ROWS_INTERLEAVED) != 0 ? rotate_neighbours : rotate_halves;
  const uint32_t pairs = rows.rope_dim / 2;
  const auto bytes = static_cast<int64_t>(dtype_bits(rows.dtype) / 8);
  float buffer[kMaxRowElements];
  for (size_t t = 0; t < rows.num_tokens; ++t) {
    const size_t at = rows.table_row != nullptr ? static_cast<size_t>(rows.table_row[t]) : t;
    const float* cosines = rows.table + at * rows.rope_dim;
    for (uint32_t h = 0; h < rows.num_heads; ++h) {
      const int64_t first =
          static_cast<int64_t>(t) * rows.token_stride + h * rows.head_stride + rows.first_element;
      char* x = static_cast<char*>(rows.x) + first * bytes;
      if (rows.dtype == KVC_FLOAT32) {
        rotate(reinterpret_cast<float*>(x), cosines, cosines + pairs, pairs);
        continue;
      }
      to_float(rows.dtype, x, buffer, rows.rope_dim);
      rotate(buffer, cosines, cosines + pairs, pairs);
      from_float(rows.dtype, buffer, x, rows.rope_dim);
    }
  }
}

}  // namespace kvc
