// SPDX-License-Identifier: Apache-2.0
// The table of kernels of one instruction set, over the vector of simd.h. Each kernels_*.cc includes it once,
// after defining the macros of simd.h, KVC_ATTENTION_KERNELS (the table) and KVC_ATTENTION_NAME.
#pragma once
#include "attention/kernel_amx_bf16.h"
#include "attention/kernel_amx_int8.h"
#include "attention/kernel_amx_run.h"
#include "attention/kernel_scores.h"
#include "attention/kernel_softmax.h"
#include "attention/kernel_values.h"
#include "attention/kernel_widen.h"

namespace kvc {

// Constant-initialised: loading the library runs no code of an instruction set that may be missing.
#define KVC_OF(function) KVC_ATTENTION_NAMESPACE::function
#define KVC_OF_HALVES(kernel) KVC_OF(kernel<kF16>), KVC_OF(kernel<kBf16>)
#define KVC_OF_QUANTIZED(kernel)                                                                             \
  KVC_OF(kernel<kI8>), KVC_OF(kernel<kU8>), KVC_OF(kernel<kI4>), KVC_OF(kernel<kU4>), KVC_OF(kernel<kE4M3>), \
      KVC_OF(kernel<kE5M2>)
constinit const Kernels KVC_ATTENTION_KERNELS = {
    KVC_ATTENTION_NAME,
    // On processors with tile registers, VDPBF16PS takes twice as long as the two additions that it replaces.
    KVC_ATTENTION_LEVEL == 4 ? &kAvx512Kernels : nullptr,
    KVC_ATTENTION_LEVEL >= 3,
    KVC_ATTENTION_LEVEL > 0,
    KVC_ATTENTION_LEVEL == 4,
    {KVC_OF(row_scores<kF32>), KVC_OF_HALVES(row_scores), KVC_OF_QUANTIZED(row_scores)},
    {KVC_OF(tile_scores<kF32>), KVC_OF_HALVES(tile_scores)},
    {nullptr, KVC_OF_HALVES(widen_rows), KVC_OF_QUANTIZED(widen_rows)},
    {nullptr, KVC_OF_HALVES(widen_tiles)},
    KVC_OF(adjust),
    KVC_OF(softmax),
    {KVC_OF(add_values<kF32>), KVC_OF_HALVES(add_values), KVC_OF_QUANTIZED(add_values)},
    KVC_OF(in_pairs),
    KVC_OF(finish),
    KVC_OF(scale),
#if KVC_ATTENTION_LEVEL == 4
    KVC_OF(pack_queries),
    KVC_OF(pack_keys),
    KVC_OF(pack_values),
    KVC_OF(attend_run),
#else
    nullptr,
    nullptr,
    nullptr,
    nullptr,
#endif
};
#undef KVC_OF_QUANTIZED
#undef KVC_OF_HALVES
#undef KVC_OF

}  // namespace kvc
