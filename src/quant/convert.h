// SPDX-License-Identifier: Apache-2.0
// Float32 to and from the stored float types, n elements at a time. Conversions round to nearest even, keep
// denormals exact (whatever flush-to-zero mode the thread is in) and keep NaN a NaN, quiet, with its sign.
// Beyond the largest value fp16, bf16 and E5M2 become infinite as IEEE 754 says; E4M3, which has no infinity,
// saturates to 448, infinities included (as cvt.rn.satfinite does). Every processor gives the same bits.
// Buffers do not overlap and are aligned to their elements. No state: any thread may call.
#pragma once
#include <kvcache/types.h>

namespace kvc {

constexpr bool is_convertible(int32_t dtype) {
  return dtype == KVC_FLOAT32 || dtype == KVC_FLOAT16 || dtype == KVC_BFLOAT16 || dtype == KVC_FLOAT8_E4M3 ||
         dtype == KVC_FLOAT8_E5M2;
}

// For another type than these, both do nothing.
void to_float(int32_t dtype, const void* in, float* out, size_t n);
void from_float(int32_t dtype, const float* in, void* out, size_t n);

// One element, where speed does not matter.
inline float read_element(int32_t dtype, const char* at) {
  float value = 0;
  to_float(dtype, at, &value, 1);
  return value;
}
inline void write_element(int32_t dtype, float value, char* at) { from_float(dtype, &value, at, 1); }

// The two ways that fp16 may take, apart so that they can be compared. The F16C ones exist only where
// has_f16c() is true.
bool has_f16c();
void fp16_to_float_portable(const uint16_t* in, float* out, size_t n);
void float_to_fp16_portable(const float* in, uint16_t* out, size_t n);
void fp16_to_float_f16c(const uint16_t* in, float* out, size_t n);
void float_to_fp16_f16c(const float* in, uint16_t* out, size_t n);

}  // namespace kvc
