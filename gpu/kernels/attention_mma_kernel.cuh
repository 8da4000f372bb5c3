// SPDX-License-Identifier: Apache-2.0
// Kernels for tensor cores: MmaWorker or LatentWorker does the parts of a block. HIP has none.
#pragma once
#include "kernels/attention_mma.h"
#if !defined(KVC_GPU_HIP)
#include "kernels/attention_latent.cuh"
#include "kernels/attention_mma.cuh"
#endif

namespace kvc::gpu {

#if !defined(KVC_GPU_HIP)

template <template <class> class Worker, class Shape>
KVC_KERNEL(Shape::kThreads, Shape::kBlocks)
attend_mma(AttentionArgs args, Plan plan) {
  if constexpr (kHasMma) {
    KVC_DYNAMIC_SHARED(unsigned char, shared);
    Worker<Shape> worker(args, plan, shared);
    for_each_part(args, plan, [&](const Part& part) { worker.run(part); });
  }
}

template <template <class> class Worker, class Shape>
MmaKernel describe_kernel() {
  return {Shape::kRows, Shape::kBlocks, Shape::kSharedBytes,
          [](const AttentionArgs& args, const Plan& plan, Stream stream) {
            return launch(attend_mma<Worker, Shape>, {plan.num_blocks}, Shape::kThreads, Shape::kSharedBytes,
                          stream, args, plan);
          }};
}

template <int32_t kDtype, uint32_t kDim>
MmaKernel describe_kernel(bool decode) {
  return decode ? describe_kernel<MmaWorker, MmaShape<kDtype, kDim, true>>()
                : describe_kernel<MmaWorker, MmaShape<kDtype, kDim, false>>();
}

#endif

template <int32_t kDtype>
MmaKernel mma_kernel_of([[maybe_unused]] uint32_t dim, [[maybe_unused]] bool decode) {
#if !defined(KVC_GPU_HIP)
  if (dim == 64) return describe_kernel<kDtype, 64>(decode);
  if (dim == 128) return describe_kernel<kDtype, 128>(decode);
  if (dim == 256) return describe_kernel<kDtype, 256>(decode);
#endif
  return {};
}

}  // namespace kvc::gpu
