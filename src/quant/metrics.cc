// SPDX-License-Identifier: Apache-2.0
#include "quant/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double snr(double signal, double noise) {
  if (noise == 0) return kInfinity;
  return 10 * std::log10(signal / noise);  // of 0: -infinity
}

}  // namespace

void QuantMeter::add(const float* original, const float* restored, size_t n, uint64_t bytes) {
  sums_.bytes += bytes;
  sums_.elements += n;
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(original[i])) continue;
    const double value = original[i];
    const double error = std::isfinite(restored[i]) ? std::abs(value - double{restored[i]}) : kInfinity;
    ++sums_.finite;
    sums_.signal += value * value;
    sums_.noise += error * error;
    sums_.max_error = std::max(sums_.max_error, error);
  }
}

QuantMetrics QuantSums::metrics() const {
  QuantMetrics result{};
  result.elements = elements;
  result.bytes = bytes;
  result.fp16_bytes = 2 * elements;
  result.ratio = bytes != 0 ? static_cast<double>(result.fp16_bytes) / static_cast<double>(bytes) : 0;
  result.mse = finite != 0 ? noise / static_cast<double>(finite) : 0;
  result.snr_db = snr(signal, noise);
  result.max_error = max_error;
  return result;
}

QuantMetrics measure(const float* original, const float* restored, size_t n, uint64_t bytes) {
  QuantMeter meter;
  meter.add(original, restored, n, bytes);
  return meter.metrics();
}

}  // namespace kvc
