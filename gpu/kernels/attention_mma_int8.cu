// SPDX-License-Identifier: Apache-2.0
// The matrix kernels over keys and values stored as int8.
#include "kernels/attention_mma_kernel.cuh"

template kvc::gpu::MmaKernel kvc::gpu::mma_kernel_of<KVC_INT8>(uint32_t dim, bool decode);
