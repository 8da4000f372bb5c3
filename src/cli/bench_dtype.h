// SPDX-License-Identifier: Apache-2.0
// Types of rows, and the types that they are stored as.
#pragma once
#include <kvcache/types.h>

#include <cstddef>
#include <cstdint>

namespace kvcli {

inline bool is_float(int32_t dtype) {
  return dtype == KVC_FLOAT32 || dtype == KVC_FLOAT16 || dtype == KVC_BFLOAT16;
}
/// Float types are given as they are stored; quantized types are given as fp32.
inline int32_t row_dtype(int32_t stored) { return is_float(stored) ? stored : KVC_FLOAT32; }
inline size_t width(int32_t dtype) { return dtype == KVC_FLOAT32 ? 4 : 2; }

}  // namespace kvcli
