// SPDX-License-Identifier: Apache-2.0
// The table of kernels of one instruction set, written once over the vector of simd.h. Each kernels_*.cc
// includes it once, after setting what simd.h needs, KVC_ATTENTION_KERNELS (the table) and
// KVC_ATTENTION_NAME.
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
constinit const Kernels KVC_ATTENTION_KERNELS = {
    KVC_ATTENTION_NAME,
    // On processors with tile registers, VDPBF16PS takes twice as long as the two additions that it replaces.
    KVC_ATTENTION_LEVEL == 4 ? &kAvx512Kernels : nullptr,
    KVC_ATTENTION_LEVEL >= 3,
    KVC_ATTENTION_LEVEL > 0,
    KVC_ATTENTION_LEVEL == 4,
    {KVC_OF(row_scores<kF32>), KVC_OF(row_scores<kF16>), KVC_OF(row_scores<kBf16>), KVC_OF(row_scores<kI8>),
     KVC_OF(row_scores<kU8>), KVC_OF(row_scores<kI4>), KVC_OF(row_scores<kU4>), KVC_OF(row_scores<kE4M3>),
     KVC_OF(row_scores<kE5M2>)},
    {KVC_OF(tile_scores<kF32>), KVC_OF(tile_scores<kF16>), KVC_OF(tile_scores<kBf16>)},
    {nullptr, KVC_OF(widen_rows<kF16>), KVC_OF(widen_rows<kBf16>), KVC_OF(widen_rows<kI8>),
     KVC_OF(widen_rows<kU8>), KVC_OF(widen_rows<kI4>), KVC_OF(widen_rows<kU4>), KVC_OF(widen_rows<kE4M3>),
     KVC_OF(widen_rows<kE5M2>)},
    {nullptr, KVC_OF(widen_tiles<kF16>), KVC_OF(widen_tiles<kBf16>)},
    KVC_OF(adjust),
    KVC_OF(softmax),
    {KVC_OF(add_values<kF32>), KVC_OF(add_values<kF16>), KVC_OF(add_values<kBf16>), KVC_OF(add_values<kI8>),
     KVC_OF(add_values<kU8>), KVC_OF(add_values<kI4>), KVC_OF(add_values<kU4>), KVC_OF(add_values<kE4M3>),
     KVC_OF(add_values<kE5M2>)},
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
#undef KVC_OF

}  // namespace kvc
