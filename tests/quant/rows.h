// SPDX-License-Identifier: Apache-2.0
// Quantized rows for tests: there and back, data, and all formats.
#pragma once
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quant/quantize.h"

namespace kvc::test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Row {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

inline Row quantize(const QuantFormat& format, const std::vector<float>& in) {
  Row row{std::vector<uint8_t>(code_bytes(format, in.size())),
          std::vector<float>(scales_of(format, in.size()))};
  quantize_row(format, in.data(), in.size(), row.codes.data(), row.scales.data());
  return row;
}

inline std::vector<float> dequantize(const QuantFormat& format, const Row& row, size_t n) {
  std::vector<float> out(n);
  dequantize_row(format, row.codes.data(), row.scales.data(), n, out.data());
  return out;
}

inline std::vector<float> round_trip(const QuantFormat& format, const std::vector<float>& in) {
  return dequantize(format, quantize(format, in), in.size());
}

inline std::vector<float> normal_data(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& x : out) x = normal(random);
  return out;
}

inline std::vector<QuantFormat> all_formats(std::vector<uint32_t> groups = {0, 1, 3, 16, 32, 128, 300}) {
  std::vector<QuantFormat> out;
  for (uint32_t group : groups) {
    for (bool asymmetric : {false, true}) {
      out.push_back({KVC_INT8, group, asymmetric});
      out.push_back({KVC_INT4, group, asymmetric});
    }
    out.push_back({KVC_FLOAT8_E4M3, group, false});
    out.push_back({KVC_FLOAT8_E5M2, group, false});
  }
  return out;
}

inline std::string name(const QuantFormat& format) {
  return "type " + std::to_string(format.dtype) + " group " + std::to_string(format.group) +
         (format.asymmetric ? " asymmetric" : "");
}

}  // namespace kvc::test
