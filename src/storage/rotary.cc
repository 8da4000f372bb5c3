// SPDX-License-Identifier: Apache-2.0
#include "storage/rotary.h"

#include <kvcache/model.h>

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

Rotary Rotary::from(size_t t) const {
  Rotary rest = *this;
  if (table_row != nullptr) {
    rest.table_row += t;
  } else if (table != nullptr) {
    rest.table += t * dim;
  }
  return rest;
}

void Rotary::rotate(size_t t, int32_t dtype, void* row) const {
  const auto rotate_pairs = interleaved != 0 ? rotate_neighbours : rotate_halves;
  const uint32_t pairs = dim / 2;
  const float* cosines = table + (table_row != nullptr ? static_cast<size_t>(table_row[t]) : t) * dim;
  char* x = static_cast<char*>(row) + first * size_t{dtype_bits(dtype) / 8};
  if (dtype == KVC_FLOAT32) return rotate_pairs(reinterpret_cast<float*>(x), cosines, cosines + pairs, pairs);
  float buffer[kMaxRowElements];
  to_float(dtype, x, buffer, dim);
  rotate_pairs(buffer, cosines, cosines + pairs, pairs);
  from_float(dtype, buffer, x, dim);
}

Rotary rotary_of(const kvc_rope_rows& rows) {
  return {{rows.table, rows.table_row, rows.table_rows, rows.rope_dim, rows.first_element,
           (rows.flags & KVC_ROPE_ROWS_INTERLEAVED) != 0, 0}};
}

void rotate_rows(const kvc_rope_rows& rows) {
  const Rotary rotary = rotary_of(rows);
  const auto bytes = static_cast<int64_t>(dtype_bits(rows.dtype) / 8);
  for (size_t t = 0; t < rows.num_tokens; ++t) {
    for (uint32_t h = 0; h < rows.num_heads; ++h) {
      const int64_t first = static_cast<int64_t>(t) * rows.token_stride + h * rows.head_stride;
      rotary.rotate(t, rows.dtype, static_cast<char*>(rows.x) + first * bytes);
    }
  }
}

}  // namespace kvc
