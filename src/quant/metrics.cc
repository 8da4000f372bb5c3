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
  bytes_ += bytes;
  elements_ += n;
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(original[i])) continue;
    const double value = original[i];
    const double error = std::isfinite(restored[i]) ? std::abs(value - double{restored[i]}) : kInfinity;
    ++finite_;
    signal_ += value * value;
    noise_ += error * error;
    max_error_ = std::max(max_error_, error);
  }
}

QuantMetrics QuantMeter::metrics() const {
  QuantMetrics result{};
  result.elements = elements_;
  result.bytes = bytes_;
  result.fp16_bytes = 2 * elements_;
  result.ratio = bytes_ != 0 ? static_cast<double>(result.fp16_bytes) / static_cast<double>(bytes_) : 0;
  result.mse = finite_ != 0 ? noise_ / static_cast<double>(finite_) : 0;
  result.snr_db = snr(signal_, noise_);
  result.max_error = max_error_;
  return result;
}

QuantMetrics measure(const float* original, const float* restored, size_t n, uint64_t bytes) {
  QuantMeter meter;
  meter.add(original, restored, n, bytes);
  return meter.metrics();
}

}  // namespace kvc
