// SPDX-License-Identifier: Apache-2.0
// How groups of elements become codes and come back: quant/quantize.h, by teams of lanes.
#pragma once
#include "kernels/rows.cuh"

namespace kvc::gpu {

constexpr float kFloatMax = 3.402823466e+38f, kFloatMin = 1.175494351e-38f;

// Smallest and largest element as integers that order like floats.
struct KeyRange {
  int32_t lo = INT32_MAX, hi = INT32_MIN;
};

KVC_DEVICE int32_t order_of(int32_t bits) { return bits ^ (bits >> 31 & 0x7FFFFFFF); }  // its own inverse
KVC_DEVICE int32_t key_of(float x) {
  const auto bits = static_cast<int32_t>(float_bits(x));
  return order_of((bits & 0x7FFFFFFF) > 0x7F800000 ? 0 : bits);  // NaN counts as 0
}
KVC_DEVICE float float_of_key(int32_t key) { return bits_float(static_cast<uint32_t>(order_of(key))); }

KVC_DEVICE void add_key(float x, KeyRange* range) {
  const int32_t key = key_of(x);
  range->lo = key < range->lo ? key : range->lo;
  range->hi = key > range->hi ? key : range->hi;
}

KVC_HOST_DEVICE constexpr float largest_code(int32_t dtype, bool asymmetric) {
  if (dtype == KVC_INT8) return asymmetric ? 255.0f : 127.0f;
  if (dtype == KVC_INT4) return asymmetric ? 15.0f : 7.0f;
  return dtype == KVC_FLOAT8_E4M3 ? 448.0f : 57344.0f;
}

KVC_DEVICE float scale_for(float range, float largest) {
  const float scale = div_rn(range, largest);
  if (scale < kFloatMin) return 0;
  // The next smaller float: scale is positive and finite.
  if (mul_rn(scale, largest) > kFloatMax) return bits_float(float_bits(scale) - 1);
  return scale;
}

KVC_DEVICE float clamped(float x, float lo, float hi) { return x < lo ? lo : hi < x ? hi : x; }

KVC_DEVICE Step make_step(bool asymmetric, float largest, float lo, float hi) {
  Step step{};
  if (asymmetric) {
    step.lo = clamped(lo, -kFloatMax / 2, kFloatMax / 2);
    step.hi = clamped(hi, -kFloatMax / 2, kFloatMax / 2);
    step.offset = step.lo;
    step.scale = scale_for(sub_rn(step.hi, step.lo), largest);
  } else {
    step.hi = -lo < hi ? hi : -lo;
    step.lo = -step.hi;
    step.scale = scale_for(step.hi, largest);
  }
  step.inverse = step.scale > 0 ? div_rn(1.0f, step.scale) : 0.0f;
  return step;
}

// Of the group that the team's lanes hold together: for_each(add) calls add(x) for each element of this lane.
// All lanes of the wave take part.
template <int32_t kDtype, typename ForEach>
KVC_DEVICE Step step_of_team(uint32_t team, bool asymmetric, ForEach&& for_each) {
  const float largest = largest_code(kDtype, asymmetric);
  KeyRange range;
  for_each([&](float x) { add_key(x, &range); });
  range = {team_min(range.lo, team), team_max(range.hi, team)};
  float lo = float_of_key(range.lo), hi = float_of_key(range.hi);
  const bool plus = float_bits(hi) == 0x7F800000, minus = float_bits(lo) == 0xFF800000;
  if (ballot(plus || minus) != 0) {  // rare
    KeyRange finite;
    for_each([&](float x) {
      if (!is_infinite(x)) add_key(x, &finite);
    });
    finite = {team_min(finite.lo, team), team_max(finite.hi, team)};
    if (plus || minus) {
      const bool any = finite.lo <= finite.hi;
      const float f_lo = float_of_key(finite.lo), f_hi = float_of_key(finite.hi);
      float size = any ? (-f_lo < f_hi ? f_hi : -f_lo) : 0.0f;
      if (scale_for(size, largest) == 0) size = kFloatMax;
      // If one end is finite, it is that of the finite elements.
      lo = minus ? -size : any ? f_lo : size;
      hi = plus ? size : any ? f_hi : -size;
    }
  }
  return range.lo <= range.hi ? make_step(asymmetric, largest, lo, hi) : Step{};
}

// In units of the scale. NaN becomes what the type has for it, without arithmetic: devices do not agree on
// the bits of a NaN's product.
template <int32_t kDtype>
KVC_DEVICE float normalized(float x, const Step& step) {
  if (is_nan(x)) {
    if constexpr (!is_integer(kDtype)) return bits_float(0x7FC00000);
    x = 0;
  }
  x = x < step.lo ? step.lo : x;
  x = x > step.hi ? step.hi : x;
  return mul_rn(sub_rn(x, step.offset), step.inverse);
}

KVC_DEVICE void store_scale(float* scales, uint32_t group, const Step& step, bool asymmetric) {
  if (asymmetric) {
    scales[2 * uint64_t{group}] = step.scale;
    scales[2 * uint64_t{group} + 1] = step.offset;
  } else {
    scales[group] = step.scale;
  }
}

// A product in which a NaN of the first factor keeps its bits: devices do not agree on those.
KVC_DEVICE float scaled(float value, float scale) { return is_nan(value) ? value : mul_rn(value, scale); }

// What makes values of the codes of an element's group.
struct Restore {
  float scale, offset;
  bool has_offset;
};
template <int32_t kStored>
KVC_DEVICE Restore restore_of(const RowsArgs& args, const PlaneArgs& plane, const RowPlace& place,
                              uint32_t element) {
  if constexpr (!is_quantized(kStored)) return {};
  if (plane.scales == nullptr) return {plane.step.scale, 0, false};
  const uint64_t group = plane.group.divide(element);
  if (!args.asymmetric) return {place.scales[group], 0, false};
  return {place.scales[2 * group], place.scales[2 * group + 1], true};
}

// The value of a stored element's code.
template <int32_t kStored>
KVC_DEVICE float restored(const RowsArgs& args, const Restore& of_group, uint32_t code) {
  if constexpr (!is_quantized(kStored)) return Element<kStored>::decode(code);
  const float value = decode_unit<kStored>(code, args.asymmetric);
  if (!of_group.has_offset) return scaled(value, of_group.scale);
  return add_rn(mul_rn(value, of_group.scale), of_group.offset);
}
template <int32_t kStored>
KVC_DEVICE float stored_value(const RowsArgs& args, const PlaneArgs& plane, const RowPlace& place,
                              uint32_t element, uint32_t code) {
  return restored<kStored>(args, restore_of<kStored>(args, plane, place, element), code);
}

}  // namespace kvc::gpu
