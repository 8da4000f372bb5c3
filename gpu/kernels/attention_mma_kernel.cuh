// SPDX-License-Identifier: Apache-2.0
// What a source file of attention_mma.h holds.
#pragma once
#include "kernels/attention_mma.h"
#if !defined(KVC_GPU_HIP)
#include "kernels/attention_mma.cuh"
#endif

namespace kvc::gpu {

#if defined(KVC_GPU_HIP)

template <int32_t kDtype>
MmaKernel make_mma_kernel(uint32_t /*dim*/, bool /*decode*/) {
  return {};
}

#else

template <class Shape>
MmaKernel describe_mma_kernel() {
  return {Shape::kRows, Shape::kBlocks, Shape::kSharedBytes,
          [](const AttentionArgs& args, const Plan& plan, Stream stream) {
            return launch(attend_mma<Shape>, {plan.num_blocks}, Shape::kThreads, Shape::kSharedBytes, stream,
                          args, plan);
          }};
}

template <int32_t kDtype, uint32_t kDim>
MmaKernel describe_mma_kernel(bool decode) {
  return decode ? describe_mma_kernel<MmaShape<kDtype, kDim, true>>()
                : describe_mma_kernel<MmaShape<kDtype, kDim, false>>();
}

template <int32_t kDtype>
MmaKernel make_mma_kernel(uint32_t dim, bool decode) {
  return dim == 64    ? describe_mma_kernel<kDtype, 64>(decode)
         : dim == 128 ? describe_mma_kernel<kDtype, 128>(decode)
         : dim == 256 ? describe_mma_kernel<kDtype, 256>(decode)
                      : MmaKernel{};
}

#endif

}  // namespace kvc::gpu
