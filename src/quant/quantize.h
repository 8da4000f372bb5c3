// SPDX-License-Identifier: Apache-2.0
// Rows of floats as int8, int4 or fp8 codes with a float scale per group of elements, and blocks of keys with
// a scale per channel. A code c stands for c * scale, or, asymmetric, for c * scale + offset. Stateless, no
// allocation; any thread may call. Buffers do not overlap. Codes and scales are the same on every processor.
//
// Codes: KVC_INT8 is -127..127, asymmetric 0..255, one byte each; KVC_INT4 is -7..7 in two's complement,
// asymmetric 0..15, two per byte, the first in the low half, odd rows padded with 0; fp8 is one byte each.
//
// What holds for every group:
// - the scale is (largest magnitude) / (largest code); asymmetric (largest - smallest) / (largest code), with
//   the smallest as offset. Codes are rounded to nearest even.
// - a scale below the smallest normal float (that of zeros, say) is stored as 0, and the group comes back as
//   zeros, or, asymmetric, as its offset.
// - NaN counts as 0. Its integer code is that of 0 (asymmetric: the nearest); fp8 keeps NaN.
// - an infinity is stored as the largest finite magnitude of its group, with its sign, and as FLT_MAX where
//   the scale of that would be 0. Asymmetric, magnitudes end at FLT_MAX / 2, so that no range overflows.
// - all elements but NaN are finite after dequantization, and quantizing them again gives the same codes.
#pragma once
#include <kvcache/types.h>

namespace kvc {

struct QuantFormat {
  int32_t dtype;    // is_quantized()
  uint32_t group;   // elements per scale, fewer in the last group of a row; 0 = the whole row is one group
  bool asymmetric;  // (scale, offset) pairs instead of scales; integers alone
};

bool is_valid(const QuantFormat& format);  // all functions below take valid formats only

size_t code_bytes(const QuantFormat& format, size_t n);  // of a row of n elements
size_t scales_of(const QuantFormat& format, size_t n);   // floats of a row: scales or (scale, offset) pairs

// A whole tensor with one scale is a row with group 0.
void quantize_row(const QuantFormat& format, const float* in, size_t n, void* codes, float* scales);
void dequantize_row(const QuantFormat& format, const void* codes, const float* scales, size_t n, float* out);

// Symmetric, with a scale from the caller (1e-30 .. 1e30): magnitudes are clamped to the largest code,
// infinities included. The inverse is dequantize_row() with group 0.
void quantize_with_scale(const QuantFormat& format, float scale, const float* in, size_t n, void* codes);

// One scale per channel over all tokens of a block [tokens][dim]: the group is the block, format.group is
// ignored. Codes are rows of code_bytes(dim), `stride` bytes apart, scales [dim], or [dim][2] asymmetric. The
// inverse takes the first `dim` channels of one token.
size_t channel_scales_of(const QuantFormat& format, size_t dim);  // in floats
void quantize_channels(const QuantFormat& format, const float* block, size_t tokens, size_t dim, void* codes,
                       size_t stride, float* scales);
void dequantize_channels(const QuantFormat& format, const void* codes, const float* scales, size_t dim,
                         float* row);

}  // namespace kvc
