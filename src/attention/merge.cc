// SPDX-License-Identifier: Apache-2.0
#include "attention/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "layout/layout.h"
#include "quant/convert.h"

namespace kvc {

void merge_partials(const char* outs, const float* lses, size_t num_partials, size_t num_rows, uint32_t dim,
                    int32_t dtype, char* out, float* lse) {
  constexpr float kNoRow = -std::numeric_limits<float>::infinity();
  const size_t row_bytes = size_t{dim} * dtype_bits(dtype) / 8;
  float part[kMaxRowElements], sum[kMaxRowElements];
  for (size_t row = 0; row < num_rows; ++row) {
    float row_max = kNoRow, row_sum = 0;
    for (size_t p = 0; p < num_partials; ++p) row_max = std::max(row_max, lses[p * num_rows + row]);
    std::fill_n(sum, dim, 0.0f);
    for (size_t p = 0; p < num_partials; ++p) {
      const float of_part = lses[p * num_rows + row];
      if (of_part == kNoRow) continue;  // its row is undefined
      const float weight = std::exp(of_part - row_max);
      row_sum += weight;
      to_float(dtype, outs + (p * num_rows + row) * row_bytes, part, dim);
      for (uint32_t e = 0; e < dim; ++e) sum[e] += weight * part[e];
    }
    const float factor = row_sum == 0 ? 0.0f : 1 / row_sum;
    for (uint32_t e = 0; e < dim; ++e) sum[e] *= factor;
    from_float(dtype, sum, out + row * row_bytes, dim);
    if (lse != nullptr) lse[row] = row_sum == 0 ? kNoRow : row_max + std::log(row_sum);
  }
}

}  // namespace kvc
