// SPDX-License-Identifier: Apache-2.0
// The kernels of attention_mma.cuh and attention_latent.cuh as the host sees them.
#pragma once
#include "kernels/attention_config.h"

namespace kvc::gpu {

// For a stored type and a head dim.
MmaKernel mma_kernel(int32_t dtype, uint32_t dim, bool decode);
// Defined for each stored type by a source file of its own, attention_mma_<type>.cu.
template <int32_t kDtype>
MmaKernel mma_kernel_of(uint32_t dim, bool decode);

// For latent rows, decode and prefill.
MmaKernel latent_kernel(int32_t dtype, uint32_t k_dim, uint32_t v_dim);

}  // namespace kvc::gpu
