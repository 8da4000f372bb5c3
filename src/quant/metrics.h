// SPDX-License-Identifier: Apache-2.0
// Measures what quantization costs and saves, from the floats before and after and the bytes stored (codes
// and scales). Elements that were not finite before are not counted in the errors; a finite one that becomes
// NaN or infinite has an infinite error. A meter belongs to one thread at a time.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvc {

struct QuantMetrics {
  uint64_t elements;
  uint64_t bytes, fp16_bytes;  // stored; what fp16 would have taken
  double ratio;                // fp16_bytes / bytes; 0 if nothing is stored
  double mse;                  // mean squared error; 0 without elements
  double snr_db;               // +infinity without error, -infinity if there is error but no signal
  double max_error;
};

// Sums behind the metrics: of elements that were finite before, the squares and the squared errors.
struct QuantSums {
  uint64_t bytes = 0, elements = 0, finite = 0;
  double signal = 0, noise = 0, max_error = 0;

  QuantMetrics metrics() const;
};

// Sums up rows.
class QuantMeter {
 public:
  void add(const float* original, const float* restored, size_t n, uint64_t bytes);
  const QuantSums& sums() const { return sums_; }
  QuantMetrics metrics() const { return sums_.metrics(); }

 private:
  QuantSums sums_;
};

QuantMetrics measure(const float* original, const float* restored, size_t n, uint64_t bytes);

}  // namespace kvc
