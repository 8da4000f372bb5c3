// SPDX-License-Identifier: Apache-2.0
// Small floats written out from their definition, in double arithmetic and with a search: slow, exact and
// with nothing in common with src/quant. A format has kExponent bits, kMantissa bits and a sign; the value of
// a code is
// (-1)^s 2^(e - bias) 1.m, or 2^(1 - bias) 0.m for e = 0.
#pragma once
#include <kvcache/types.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace kvc::reference {

class Format {
 public:
  // `ieee`: the top exponent holds infinity and NaNs; otherwise only the code of all ones is a NaN, and
  // larger values saturate.
  Format(int32_t type, int exponent, int mantissa, bool ieee)
      : dtype(type), exponent_(exponent), mantissa_(mantissa), ieee_(ieee) {
    for (uint32_t code = 0; std::isfinite(decode(code)); ++code) values_.push_back(decode(code));
  }

  int32_t dtype;

  uint32_t codes() const { return 2u << (exponent_ + mantissa_); }
  uint32_t sign() const { return codes() / 2; }
  uint32_t largest() const { return static_cast<uint32_t>(values_.size()) - 1; }
  bool nan(uint32_t code) const { return std::isnan(decode(code)); }

  double decode(uint32_t code) const {
    const double negative = code & sign() ? -1 : 1;
    const int e = static_cast<int>(code >> mantissa_) & ((1 << exponent_) - 1);
    const int m = static_cast<int>(code) & ((1 << mantissa_) - 1);
    const int top = (1 << exponent_) - 1, bias = top / 2;
    if (ieee_ && e == top) return m ? kNan : negative * kInfinity;
    if (!ieee_ && e == top && m == (1 << mantissa_) - 1) return kNan;
    const double fraction = std::ldexp(m, -mantissa_);
    return negative * (e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, e - bias));
  }

  // Halfway between a code and the next; after the largest, where the next value would be if there were one.
  double middle(uint32_t code) const {
    const double next = code < largest() ? values_[code + 1] : 2 * values_[code] - values_[code - 1];
    return (values_[code] + next) / 2;
  }

  // Nearest code, ties to the even one. Of a NaN: `largest() + 1`, which says only that it is one or too
  // large.
  uint32_t encode(float value) const {
    const double size = std::abs(double{value});
    const uint32_t bit = std::signbit(value) ? sign() : 0;
    if (size >= middle(largest())) return bit | (ieee_ ? largest() + 1 : largest());
    const auto above = std::upper_bound(values_.begin(), values_.end(), size);
    const uint32_t below = static_cast<uint32_t>(above - values_.begin()) - 1;
    if (below == largest()) return bit | below;
    const bool up = size > middle(below) || (size == middle(below) && below % 2 != 0);
    return bit | (up ? below + 1 : below);
  }

 private:
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  int exponent_, mantissa_;
  bool ieee_;
  std::vector<double> values_;  // of the codes that are finite and not negative, ascending
};

inline const Format kFp16{KVC_FLOAT16, 5, 10, true};
inline const Format kBf16{KVC_BFLOAT16, 8, 7, true};
inline const Format kE4M3{KVC_FLOAT8_E4M3, 4, 3, false};
inline const Format kE5M2{KVC_FLOAT8_E5M2, 5, 2, true};

inline std::vector<const Format*> formats() { return {&kFp16, &kBf16, &kE4M3, &kE5M2}; }

// Where rounding is decided: each value of a format, each middle and what lies just beside them, both signs;
// then infinities, float denormals, the largest float and a sweep of all magnitudes.
inline std::vector<float> hard_floats(const Format& format) {
  std::vector<float> out;
  const auto add = [&out](float x) { out.insert(out.end(), {x, -x}); };
  const auto add_around = [&add](double x) {
    const float f = static_cast<float>(x);
    add(f);
    add(std::nextafter(f, 0.0f));
    add(std::nextafter(f, std::numeric_limits<float>::infinity()));
  };
  for (uint32_t code = 0; code <= format.largest(); ++code) {
    add_around(format.decode(code));
    add_around(format.middle(code));
  }
  for (float x : {0.0f, 1e-45f, 1e-40f, std::numeric_limits<float>::min(), 464.0f, 465.0f, 65519.996f,
                  65520.0f, std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()}) {
    add(x);
  }
  for (uint32_t bits = 0; bits < 0x7F800000u; bits += 4999) add(std::bit_cast<float>(bits));
  return out;
}

}  // namespace kvc::reference
