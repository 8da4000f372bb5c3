// SPDX-License-Identifier: Apache-2.0
// The kernels of attention_mma.cuh and attention_latent.cuh as the host sees them. One source file per stored
// type makes them.
#pragma once
#include "kernels/attention_config.h"

namespace kvc::gpu {

// For a stored type and a head dim.
MmaKernel mma_kernel(int32_t dtype, uint32_t dim, bool decode);

// For latent rows, decode and prefill.
MmaKernel latent_kernel(int32_t dtype, uint32_t k_dim, uint32_t v_dim);

MmaKernel mma_kernel_bf16(uint32_t dim, bool decode);
MmaKernel mma_kernel_fp16(uint32_t dim, bool decode);
MmaKernel mma_kernel_e4m3(uint32_t dim, bool decode);
MmaKernel mma_kernel_e5m2(uint32_t dim, bool decode);
MmaKernel mma_kernel_int8(uint32_t dim, bool decode);
MmaKernel mma_kernel_int4(uint32_t dim, bool decode);

}  // namespace kvc::gpu
