// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_mma_kernel.cuh"

namespace kvc::gpu {

MmaKernel latent_kernel([[maybe_unused]] int32_t dtype, [[maybe_unused]] uint32_t k_dim,
                        [[maybe_unused]] uint32_t v_dim) {
#if !defined(KVC_GPU_HIP)
  if (k_dim == LatentShape<true>::kDim && v_dim == LatentShape<true>::kValueDim) {
    if (dtype == KVC_BFLOAT16) return describe_kernel<LatentWorker, LatentShape<true>>();
    if (dtype == KVC_FLOAT16) return describe_kernel<LatentWorker, LatentShape<false>>();
  }
#endif
  return {};
}

}  // namespace kvc::gpu
