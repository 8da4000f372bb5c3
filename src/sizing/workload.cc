// SPDX-License-Identifier: Apache-2.0
#include "sizing/workload.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace kvc {

bool Workload::create(Memory& memory, uint64_t half_life_ns, uint32_t window) {
  half_life_ = seconds(half_life_ns);
  return window_.create(memory, window);
}

kvc_status Workload::check(uint64_t now_ns, double value, const char* what) const {
  if (!(std::fabs(value) <= kLargest)) {  // also NaN
    return invalid("%s is %g; give a finite number of at most %g", what, value, kLargest);
  }
  if (count_ != 0 && now_ns <= last_.ns) {
    return invalid("now_ns is %llu, the last observation was at %llu; give a later time", ull(now_ns),
                   ull(last_.ns));
  }
  return KVC_OK;
}

void Workload::record(uint64_t now_ns, double value) {
  const double dt = seconds(now_ns - last_.ns);
  if (count_ == 0) {
    average_ = level_ = value;
  } else {
    const double a = -std::expm1(-dt / half_life_ * 0.6931471805599453);  // 1 - 2^(-dt / half life)
    average_ += a * (value - average_);
    if (count_ == 1) {
      trend_ = (value - level_) / dt;
      level_ = value;
    } else {
      const double before = level_;
      level_ = a * value + (1 - a) * (level_ + trend_ * dt);
      trend_ = a * ((level_ - before) / dt) + (1 - a) * trend_;
    }
  }
  last_ = {now_ns, value};
  window_[count_++ % window_.size()] = last_;
}

void Workload::read(kvc_workload_info* info) const {
  info->num_observations = count_;
  if (count_ == 0) return;
  const size_t n = std::min<uint64_t>(count_, window_.size());
  double sum = 0, peak = last_.value;
  for (size_t i = 0; i < n; ++i) {
    sum += window_[i].value;
    peak = std::max(peak, window_[i].value);
  }
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += (window_[i].value - mean) * (window_[i].value - mean);
  const double variance = squares / static_cast<double>(n), deviation = std::sqrt(variance);
  const uint64_t oldest = window_[(count_ - n) % window_.size()].ns;
  info->last_ns = last_.ns;
  info->last = last_.value;
  info->average = average_;
  info->level = level_;
  info->trend = trend_;
  info->mean = mean;
  info->variance = variance;
  info->peak = peak;
  info->rate = n == 1 ? 0 : static_cast<double>(n - 1) / seconds(last_.ns - oldest);
  info->burstiness = deviation + mean == 0 ? 0 : (deviation - mean) / (deviation + mean);
  info->dispersion = mean == 0 ? 0 : variance / mean;
}

}  // namespace kvc
