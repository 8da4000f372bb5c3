// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 with VDPBF16PS and the tile registers of AMX, for bf16 and bytes; CMakeLists.txt
// gives this file the options.
#ifdef __x86_64__
#define KVC_ATTENTION_LEVEL 4
#define KVC_ATTENTION_NAMESPACE attention_amx
#define KVC_ATTENTION_KERNELS kAmxKernels
#define KVC_ATTENTION_NAME "amx"
#include "attention/kernel.h"
#endif
