// SPDX-License-Identifier: Apache-2.0
// Kernels that do nothing but what a device is fastest at, so that others can be measured against it.
#pragma once
#include "portable.h"

namespace kvc::gpu::bench {

// Each reads or copies `bytes` bytes, a multiple of 16, and returns the runtime's error code. Threads add up
// the words that they read, and write their sum if it is one that is not to be expected.
constexpr uint32_t kSumThatIsWritten = 0x9E3779B9;
int launch_read(const void* from, uint64_t bytes, void* sum, uint32_t processors, Stream stream);
int launch_copy(void* to, const void* from, uint64_t bytes, uint32_t processors, Stream stream);
// Products of tensor cores with operands in registers. 0: the device has none that the library uses.
uint64_t product_flops(uint32_t processors, uint32_t steps);
int launch_products(float* unused, uint32_t processors, uint32_t steps, Stream stream);

}  // namespace kvc::gpu::bench
