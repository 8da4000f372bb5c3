// SPDX-License-Identifier: Apache-2.0
// Whole rows in shared memory, a block of threads for each, and their Hadamard transform (quant/hadamard.h).
#pragma once
#include "kernels/quantize.cuh"

namespace kvc::gpu {

constexpr uint32_t kRowThreads = 64, kRowTeam = 32;

// A kernel of for_each_row(), with shared memory for the longest row as floats, an even number of them:
// compilers read the two of a pair at once.
inline int launch_rows(RowsPlan plan, void (*kernel)(RowsArgs), Stream stream) {
  const Grid grid = grid_of(&plan, 1, [](const PlaneArgs&) { return uint64_t{1}; });
  const uint32_t longest = std::max(plan.args.planes[0].elements, plan.args.planes[1].elements);
  const size_t floats = longest + longest % 2;
  return launch(kernel, grid, kRowThreads, floats * sizeof(float), stream, plan.args);
}

// Calls function(plane, place) for each row of this block, in all threads.
template <typename Function>
KVC_DEVICE void for_each_row(const RowsArgs& args, Function&& function) {
  const PlaneArgs& plane = args.planes[blockIdx.z];
  const uint64_t total = args.num_tokens * plane.heads.value;
  for (uint64_t i = blockIdx.x; i < total; i += gridDim.x) {
    RowPlace place;
    if (find_row(args, plane, i, &place)) function(plane, place);
  }
}

// Writes a row of n elements with the codes code(element). All threads of the block take part.
template <int32_t kDtype, typename Code>
KVC_DEVICE void store_row(char* row, uint32_t n, Code&& code) {
  for (uint32_t e = 2 * threadIdx.x; e < n; e += 2 * kRowThreads) {
    const uint32_t codes[2] = {code(e), e + 1 < n ? code(e + 1) : 0};
    store_codes<kDtype, false>(row, 0, 0, e, n, codes);
  }
  sync_block();
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
