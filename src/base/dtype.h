// SPDX-License-Identifier: Apache-2.0
// Element types of stored keys and values: KVC_FLOAT32 and so on of kvcache.h.
#pragma once
#include <kvcache/types.h>

namespace kvc {

// Bits of one element; 0 if there is no such type.
constexpr uint32_t dtype_bits(int32_t dtype) {
  switch (dtype) {
    case KVC_INT4:
      return 4;
    case KVC_INT8:
    case KVC_UINT8:
    case KVC_FLOAT8_E4M3:
    case KVC_FLOAT8_E5M2:
      return 8;
    case KVC_FLOAT16:
    case KVC_BFLOAT16:
      return 16;
    case KVC_INT32:
    case KVC_FLOAT32:
      return 32;
    case KVC_INT64:
    case KVC_UINT64:
      return 64;
    default:
      return 0;
  }
}

constexpr bool is_float(int32_t dtype) {
  return dtype == KVC_FLOAT32 || dtype == KVC_FLOAT16 || dtype == KVC_BFLOAT16;
}
// Types that are stored with a scale per group of elements.
constexpr bool is_quantized(int32_t dtype) {
  return dtype == KVC_INT8 || dtype == KVC_INT4 || dtype == KVC_FLOAT8_E4M3 || dtype == KVC_FLOAT8_E5M2;
}

const char* dtype_name(int32_t dtype);  // "bf16"; "?" for none

}  // namespace kvc
