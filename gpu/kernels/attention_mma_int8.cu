// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_mma_kernel.cuh"

namespace kvc::gpu {

MmaKernel mma_kernel_int8(uint32_t dim, bool decode) { return make_mma_kernel<KVC_INT8>(dim, decode); }

}  // namespace kvc::gpu
