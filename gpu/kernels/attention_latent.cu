// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_mma.h"
#if !defined(KVC_GPU_HIP)
#include "kernels/attention_latent.cuh"
#endif

namespace kvc::gpu {

#if defined(KVC_GPU_HIP)

MmaKernel latent_kernel(int32_t /*dtype*/, uint32_t /*k_dim*/, uint32_t /*v_dim*/) { return {}; }

#else

namespace {

template <class Shape>
MmaKernel describe() {
  return {Shape::kRows, Shape::kBlocks, Shape::kSharedBytes,
          [](const AttentionArgs& args, const Plan& plan, Stream stream) {
            return launch(attend_latent<Shape>, {plan.num_blocks}, Shape::kThreads, Shape::kSharedBytes,
                          stream, args, plan);
          }};
}

}  // namespace

MmaKernel latent_kernel(int32_t dtype, uint32_t k_dim, uint32_t v_dim) {
  if (k_dim != LatentShape<true>::kDim || v_dim != LatentShape<true>::kValueDim) return {};
  return dtype == KVC_BFLOAT16  ? describe<LatentShape<true>>()
         : dtype == KVC_FLOAT16 ? describe<LatentShape<false>>()
                                : MmaKernel{};
}

#endif

}  // namespace kvc::gpu
