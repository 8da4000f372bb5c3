// SPDX-License-Identifier: Apache-2.0
#include "sizing/sizer.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace kvc {

bool Sizer::create(Memory& memory, const kvc_sizer_config& config) {
  config_ = config;
  size_ = config.num_blocks;
  return need_.create(memory, config.half_life_ns, config.window) && log_.create(memory, config.log_capacity);
}

uint32_t Sizer::choose_basis(const kvc_workload_info& need, double forecast, double variation) const {
  if (config_.mode == KVC_SIZING_REACTIVE) return KVC_SIZING_BY_LAST;
  if (config_.mode == KVC_SIZING_PREDICTIVE) return KVC_SIZING_BY_FORECAST;
  if (variation > config_.burst_threshold)
    return need.last > forecast ? KVC_SIZING_BY_LAST : KVC_SIZING_BY_FORECAST;
  const bool significant = std::fabs(forecast - need.level) > config_.hysteresis * need.level;
  return significant ? KVC_SIZING_BY_FORECAST : KVC_SIZING_BY_LEVEL;
}

// From what is wanted to what is done.
void Sizer::settle(kvc_sizing_decision* decision) const {
  const double low = static_cast<double>(config_.min_blocks), high = static_cast<double>(config_.max_blocks);
  const double asked = std::ceil(decision->wanted);
  const auto target = static_cast<uint64_t>(std::clamp(asked, low, high));
  const uint64_t change = target > size_ ? target - size_ : size_ - target;
  decision->to_blocks = size_;
  decision->action = KVC_SIZING_KEEP;
  if (change != 0 && static_cast<double>(change) <= config_.hysteresis * static_cast<double>(size_)) {
    decision->reason = KVC_SIZING_HYSTERESIS;
  } else if (target < size_ && changed_ && decision->now_ns - changed_ns_ < config_.cooldown_ns) {
    decision->reason = KVC_SIZING_COOLDOWN;
  } else {
    decision->to_blocks = target;
    decision->reason = asked < low || asked > high ? KVC_SIZING_LIMIT : KVC_SIZING_NEED;
    if (change != 0) decision->action = target > size_ ? KVC_SIZING_GROW : KVC_SIZING_SHRINK;
  }
}

kvc_status Sizer::decide(uint64_t now_ns, double needed, kvc_sizing_decision* out) {
  KVC_TRY(need_.check(now_ns, needed, "needed_blocks"));
  if (needed < 0) return invalid("needed_blocks is %g; give 0 or more", needed);
  need_.record(now_ns, needed);
  kvc_workload_info need = {};
  need_.read(&need);

  kvc_sizing_decision decision = {};
  decision.struct_size = sizeof decision;
  decision.number = count_;
  decision.now_ns = now_ns;
  decision.from_blocks = size_;
  decision.mode = config_.mode;
  decision.needed = needed;
  decision.level = need.level;
  decision.trend = need.trend;
  decision.forecast = need_.predict(config_.lead_time_ns);
  decision.variation = need.mean == 0 ? 0 : std::sqrt(need.variance) / need.mean;
  decision.basis = choose_basis(need, decision.forecast, decision.variation);
  const double by[] = {needed, decision.forecast, need.level};
  decision.wanted = by[decision.basis] * (1 + config_.headroom);
  settle(&decision);

  if (decision.to_blocks != size_) {
    size_ = decision.to_blocks;
    changed_ns_ = now_ns;
    changed_ = true;
  }
  log_[count_++ % log_.size()] = decision;
  *out = decision;
  return KVC_OK;
}

kvc_status Sizer::read_log(uint64_t number, kvc_sizing_decision* out) const {
  const uint64_t first = count_ - std::min<uint64_t>(count_, log_.size());
  if (number >= first && number < count_) {
    *out = log_[number % log_.size()];
    return KVC_OK;
  }
  if (count_ == 0) return fail(KVC_ERROR_NOT_FOUND, "no decision %llu: none was made yet", ull(number));
  return fail(KVC_ERROR_NOT_FOUND, "no decision %llu: the log has %llu .. %llu", ull(number), ull(first),
              ull(count_ - 1));
}

}  // namespace kvc
