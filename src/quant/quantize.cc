// SPDX-License-Identifier: Apache-2.0
#include "quant/quantize.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "quant/convert.h"

namespace kvc {
namespace {

// Elements that pass through the stack at once, as floats in units of the scale.
constexpr size_t kChunk = 256;

// A code is (clamp(x, lo, hi) - offset) * inverse, rounded.
struct Step {
  float scale, offset, inverse, lo, hi;
};

// Smallest and largest element as integers that order like floats: compilers vectorise a minimum of integers,
// but not one of floats that keeps IEEE's rules.
struct KeyRange {
  int32_t lo = std::numeric_limits<int32_t>::max();
  int32_t hi = std::numeric_limits<int32_t>::min();
};

int32_t order(int32_t bits) { return bits ^ ((bits >> 31) & 0x7FFFFFFF); }  // its own inverse
int32_t key_of(float x) {
  const int32_t bits = std::bit_cast<int32_t>(x);
  return order((bits & 0x7FFFFFFF) > 0x7F800000 ? 0 : bits);  // NaN counts as 0
}
float float_of_key(int32_t key) { return std::bit_cast<float>(order(key)); }

float largest_code(const QuantFormat& format) {
  switch (format.dtype) {
    case KVC_INT8:
      return format.asymmetric ? 255.0f : 127.0f;
    case KVC_INT4:
      return format.asymmetric ? 15.0f : 7.0f;
    case KVC_FLOAT8_E4M3:
      return 448.0f;
    default:
      return 57344.0f;
  }
}

bool keeps_nan(const QuantFormat& format) { return is_convertible(format.dtype); }

// The replacement of NaN.
float nan_value(const QuantFormat& format) {
  return keeps_nan(format) ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
}

float scale_for(float range, float top) {
  float scale = range / top;
  if (scale < FLT_MIN) return 0;  // a denormal scale has too few bits to give the same codes again
  if (scale * top > FLT_MAX) scale = std::nextafter(scale, 0.0f);
  return scale;
}

Step make_step(const QuantFormat& format, float lo, float hi) {
  Step step{};
  if (format.asymmetric) {
    step.lo = std::clamp(lo, -FLT_MAX / 2, FLT_MAX / 2);
    step.hi = std::clamp(hi, -FLT_MAX / 2, FLT_MAX / 2);
    step.offset = step.lo;
    step.scale = scale_for(step.hi - step.lo, largest_code(format));
  } else {
    step.hi = std::max(-lo, hi);
    step.lo = -step.hi;
    step.scale = scale_for(step.hi, largest_code(format));
  }
  step.inverse = step.scale > 0 ? 1 / step.scale : 0;
  return step;
}

// The rare case: n elements, `stride` apart, with an infinity among them.
Step step_with_infinity(const QuantFormat& format, const float* in, size_t n, size_t stride) {
  KeyRange finite;
  bool plus = false, minus = false;
  for (size_t i = 0; i < n; ++i) {
    const float x = in[i * stride];
    if (std::isinf(x)) {
      (x > 0 ? plus : minus) = true;
    } else {
      finite.lo = std::min(finite.lo, key_of(x));
      finite.hi = std::max(finite.hi, key_of(x));
    }
  }
  const bool any = finite.lo <= finite.hi;
  float size = any ? std::max(-float_of_key(finite.lo), float_of_key(finite.hi)) : 0;
  if (scale_for(size, largest_code(format)) == 0) size = FLT_MAX;
  const float lo = minus ? -size : any ? float_of_key(finite.lo) : size;
  const float hi = plus ? size : any ? float_of_key(finite.hi) : -size;
  return make_step(format, lo, hi);
}

Step step_of(const QuantFormat& format, const KeyRange& range, const float* in, size_t n, size_t stride) {
  if (range.lo > range.hi) return Step{};  // nothing in it
  const float lo = float_of_key(range.lo), hi = float_of_key(range.hi);
  if (std::isinf(lo) || std::isinf(hi)) return step_with_infinity(format, in, n, stride);
  return make_step(format, lo, hi);
}

KeyRange range_of(const float* in, size_t n) {
  int32_t lo = KeyRange{}.lo, hi = KeyRange{}.hi;
  for (size_t i = 0; i < n; ++i) {
    const int32_t key = key_of(in[i]);
    lo = std::min(lo, key);
    hi = std::max(hi, key);
  }
  return {lo, hi};
}

float normalized(float x, float nan, float lo, float hi, float offset, float inverse) {
  x = x == x ? x : nan;
  x = x < lo ? lo : x;
  x = x > hi ? hi : x;
  return (x - offset) * inverse;
}

// Integer nearest to a small float, in the low bits: the sum has no bits below the point left.
uint32_t rounded(float x) { return std::bit_cast<uint32_t>(x + 12582912.0f); }

void store_nibbles(const float* __restrict in, size_t n, size_t at, uint8_t* __restrict out) {
  if (at % 2 != 0 && n != 0) {
    out[at / 2] = static_cast<uint8_t>(out[at / 2] | (rounded(in[0]) & 15) << 4);
    ++in, ++at, --n;
  }
  out += at / 2;
  for (size_t i = 0; i < n / 2; ++i) {
    out[i] = static_cast<uint8_t>((rounded(in[2 * i]) & 15) | (rounded(in[2 * i + 1]) & 15) << 4);
  }
  if (n % 2 != 0) out[n / 2] = rounded(in[n - 1]) & 15;
}

// n elements in units of the scale become the codes from element `at` of a row on.
void store_codes(int32_t dtype, const float* __restrict in, size_t n, size_t at, void* row) {
  uint8_t* __restrict out = static_cast<uint8_t*>(row);
  if (dtype == KVC_INT4) return store_nibbles(in, n, at, out);
  out += at;
  if (dtype != KVC_INT8) return from_float(dtype, in, out, n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(rounded(in[i]));
}

// `flip` is the sign bit of signed codes, else 0.
void load_nibbles(const uint8_t* __restrict in, size_t n, size_t at, int flip, float* __restrict out) {
  const auto value = [flip](int nibble) { return static_cast<float>((nibble ^ flip) - flip); };
  if (at % 2 != 0 && n != 0) {
    *out++ = value(in[at / 2] >> 4);
    ++at, --n;
  }
  in += at / 2;
  for (size_t i = 0; i < n / 2; ++i) {
    out[2 * i] = value(in[i] & 15);
    out[2 * i + 1] = value(in[i] >> 4);
  }
  if (n % 2 != 0) out[n - 1] = value(in[n / 2] & 15);
}

void load_codes(const QuantFormat& format, const void* row, size_t at, size_t n, float* __restrict out) {
  const uint8_t* __restrict in = static_cast<const uint8_t*>(row);
  if (format.dtype == KVC_INT4) return load_nibbles(in, n, at, format.asymmetric ? 0 : 8, out);
  in += at;
  if (format.dtype != KVC_INT8) return to_float(format.dtype, in, out, n);
  const int flip = format.asymmetric ? 0 : 128;
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>((in[i] ^ flip) - flip);
}

size_t scale_width(const QuantFormat& format) { return format.asymmetric ? 2 : 1; }

void store_scale(const QuantFormat& format, const Step& step, float* out) {
  out[0] = step.scale;
  if (format.asymmetric) out[1] = step.offset;
}

size_t group_size(const QuantFormat& format, size_t n) {
  return format.group != 0 ? std::min<size_t>(format.group, n) : n;
}

// Elements [at, at + n) of a row.
void encode(const QuantFormat& format, const Step& step, const float* in, size_t at, size_t n, void* codes) {
  const float nan = nan_value(format);
  float units[kChunk];
  for (size_t end = at + n; at < end; at += kChunk) {
    const size_t count = std::min(kChunk, end - at);
    for (size_t i = 0; i < count; ++i) {
      units[i] = normalized(in[at + i], nan, step.lo, step.hi, step.offset, step.inverse);
    }
    store_codes(format.dtype, units, count, at, codes);
  }
}

void quantize_group(const QuantFormat& format, const float* in, size_t at, size_t n, void* codes,
                    float* scale) {
  const Step step = step_of(format, range_of(in + at, n), in + at, n, 1);
  encode(format, step, in, at, n, codes);
  store_scale(format, step, scale);
}

void dequantize_group(const QuantFormat& format, const void* codes, size_t at, size_t n, const float* scale,
                      float* out) {
  load_codes(format, codes, at, n, out + at);
  const float factor = scale[0], offset = format.asymmetric ? scale[1] : 0;
  float* __restrict values = out + at;
  if (format.asymmetric) {
    for (size_t i = 0; i < n; ++i) values[i] = values[i] * factor + offset;
  } else {
    for (size_t i = 0; i < n; ++i) values[i] *= factor;
  }
}

// Steps of up to kChunk channels, apart so that loops over channels vectorise.
struct ChannelSteps {
  float offset[kChunk], inverse[kChunk], lo[kChunk], hi[kChunk];
};

struct ChannelBlock {
  const float* values;  // of the first channel of a chunk
  size_t tokens, dim, width;
};

void channel_steps(const QuantFormat& format, const ChannelBlock& block, ChannelSteps& steps, float* scales) {
  int32_t lo[kChunk], hi[kChunk];
  std::fill_n(lo, block.width, KeyRange{}.lo);
  std::fill_n(hi, block.width, KeyRange{}.hi);
  for (size_t t = 0; t < block.tokens; ++t) {
    const float* row = block.values + t * block.dim;
    for (size_t i = 0; i < block.width; ++i) {
      const int32_t key = key_of(row[i]);
      lo[i] = std::min(lo[i], key);
      hi[i] = std::max(hi[i], key);
    }
  }
  for (size_t i = 0; i < block.width; ++i, scales += scale_width(format)) {
    const Step step = step_of(format, {lo[i], hi[i]}, block.values + i, block.tokens, block.dim);
    steps.offset[i] = step.offset;
    steps.inverse[i] = step.inverse;
    steps.lo[i] = step.lo;
    steps.hi[i] = step.hi;
    store_scale(format, step, scales);
  }
}

void normalize_channels(const float* __restrict row, size_t width, float nan, const ChannelSteps& steps,
                        float* __restrict out) {
  for (size_t i = 0; i < width; ++i) {
    out[i] = normalized(row[i], nan, steps.lo[i], steps.hi[i], steps.offset[i], steps.inverse[i]);
  }
}

}  // namespace

bool is_valid(const QuantFormat& format) {
  return is_quantized(format.dtype) && !(format.asymmetric && is_convertible(format.dtype));
}

size_t code_bytes(const QuantFormat& format, size_t n) {
  return format.dtype == KVC_INT4 ? n / 2 + n % 2 : n;
}

size_t scales_of(const QuantFormat& format, size_t n) {
  if (n == 0) return 0;
  const size_t size = group_size(format, n);
  return (n / size + (n % size != 0)) * scale_width(format);
}

void quantize_row(const QuantFormat& format, const float* in, size_t n, void* codes, float* scales) {
  const size_t size = group_size(format, n);
  for (size_t at = 0; at < n; at += size, scales += scale_width(format)) {
    quantize_group(format, in, at, std::min(size, n - at), codes, scales);
  }
}

void dequantize_row(const QuantFormat& format, const void* codes, const float* scales, size_t n, float* out) {
  const size_t size = group_size(format, n);
  for (size_t at = 0; at < n; at += size, scales += scale_width(format)) {
    dequantize_group(format, codes, at, std::min(size, n - at), scales, out);
  }
}

void quantize_with_scale(const QuantFormat& format, float scale, const float* in, size_t n, void* codes) {
  const float most = std::min(scale * largest_code(format), FLT_MAX);
  encode(format, {scale, 0, 1 / scale, -most, most}, in, 0, n, codes);
}

size_t channel_scales_of(const QuantFormat& format, size_t dim) { return dim * scale_width(format); }

void quantize_channels(const QuantFormat& format, const float* block, size_t tokens, size_t dim, void* codes,
                       size_t stride, float* scales) {
  const float nan = nan_value(format);
  ChannelSteps steps;
  float units[kChunk];
  for (size_t at = 0; at < dim; at += kChunk) {
    const ChannelBlock chunk{block + at, tokens, dim, std::min(kChunk, dim - at)};
    channel_steps(format, chunk, steps, scales + at * scale_width(format));
    for (size_t t = 0; t < tokens; ++t) {
      normalize_channels(chunk.values + t * dim, chunk.width, nan, steps, units);
      store_codes(format.dtype, units, chunk.width, at, static_cast<uint8_t*>(codes) + t * stride);
    }
  }
}

void dequantize_channels(const QuantFormat& format, const void* codes, const float* scales, size_t dim,
                         float* __restrict row) {
  load_codes(format, codes, 0, dim, row);
  if (format.asymmetric) {
    for (size_t i = 0; i < dim; ++i) row[i] = row[i] * scales[2 * i] + scales[2 * i + 1];
  } else {
    for (size_t i = 0; i < dim; ++i) row[i] *= scales[i];
  }
}

}  // namespace kvc
