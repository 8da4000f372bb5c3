// SPDX-License-Identifier: Apache-2.0
// The Hadamard transform of a row (quant/hadamard.h) in shared memory, by one block of threads.
#pragma once
#include "kernels/quantize.cuh"

namespace kvc::gpu {

constexpr uint32_t kRowThreads = 64, kRowTeam = 32;

// Of the longest row.
inline size_t row_bytes_shared(const RowsPlan& plan) {
  uint32_t largest = plan.args.planes[0].elements;
  if (plan.num_planes == 2 && plan.args.planes[1].elements > largest) largest = plan.args.planes[1].elements;
  return largest * sizeof(float);
}

// In the order of quant/hadamard.h. A row whose transform is not finite becomes NaN. All threads of the block
// take part.
KVC_DEVICE void hadamard_row(float* row, uint32_t n, uint32_t* not_finite) {
  for (uint32_t half = 1; half < n; half *= 2) {
    for (uint32_t i = threadIdx.x; i < n / 2; i += kRowThreads) {
      float* const a = row + (i / half * 2 * half + i % half);
      const float sum = add_rn(a[0], a[half]), difference = sub_rn(a[0], a[half]);
      a[0] = sum;
      a[half] = difference;
    }
    sync_block();
  }
  const float norm = static_cast<float>(1 / sqrt(static_cast<double>(n)));
  if (threadIdx.x == 0) *not_finite = 0;
  sync_block();
  bool finite = true;
  for (uint32_t i = threadIdx.x; i < n; i += kRowThreads) {
    row[i] = mul_rn(row[i], norm);
    finite = finite && !is_infinite(row[i]) && !is_nan(row[i]);
  }
  if (!finite) atomic_add(not_finite, 1u);
  sync_block();
  if (*not_finite != 0) {
    for (uint32_t i = threadIdx.x; i < n; i += kRowThreads) row[i] = bits_float(0x7FC00000);
  }
  sync_block();
}

}  // namespace kvc::gpu
