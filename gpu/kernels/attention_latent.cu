// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_mma_kernel.cuh"

namespace kvc::gpu {

MmaKernel latent_kernel([[maybe_unused]] int32_t dtype, [[maybe_unused]] uint32_t k_dim,
                        [[maybe_unused]] uint32_t v_dim) {
#if !defined(KVC_GPU_HIP)
  using Shape = LatentShape<KVC_BFLOAT16>;
  if (k_dim != Shape::kDim || v_dim != Shape::kValueDim) return {};
  switch (dtype) {
    case KVC_BFLOAT16:
      return describe_kernel<LatentWorker, LatentShape<KVC_BFLOAT16>>();
    case KVC_FLOAT16:
      return describe_kernel<LatentWorker, LatentShape<KVC_FLOAT16>>();
    case KVC_FLOAT8_E4M3:
      return describe_kernel<LatentWorker, LatentShape<KVC_FLOAT8_E4M3>>();
    case KVC_FLOAT8_E5M2:
      return describe_kernel<LatentWorker, LatentShape<KVC_FLOAT8_E5M2>>();
    case KVC_INT8:
      return describe_kernel<LatentWorker, LatentShape<KVC_INT8>>();
    default:
      return {};
  }
#endif
  return {};
}

}  // namespace kvc::gpu
