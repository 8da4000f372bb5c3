// SPDX-License-Identifier: Apache-2.0
// The runtime of the vendor whose GPU a test program is for: KVC_VENDOR(name) is cudaName or hipName.
#pragma once
#if defined(__HIP_PLATFORM_AMD__)
#include <hip/hip_runtime_api.h>
#define KVC_VENDOR(name) hip##name
#define KVC_VENDOR_DEVICE "hip:0"
#else
#include <cuda_runtime_api.h>
#define KVC_VENDOR(name) cuda##name
#define KVC_VENDOR_DEVICE "cuda:0"
#endif
