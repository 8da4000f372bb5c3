// SPDX-License-Identifier: Apache-2.0
// The matrix kernels over keys and values stored as fp8 E5M2.
#include "kernels/attention_mma_kernel.cuh"

template kvc::gpu::MmaKernel kvc::gpu::mma_kernel_of<KVC_FLOAT8_E5M2>(uint32_t dim, bool decode);
