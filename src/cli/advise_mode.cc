// SPDX-License-Identifier: Apache-2.0
#include "cli/advise_mode.h"

#include <algorithm>
#include <iomanip>
#include <kvcache/sizing.hpp>
#include <nlohmann/json.hpp>

#include "cli/errors.h"
#include "cli/library.h"

namespace kvcli {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kMostIntervals = 1'000'000;
constexpr uint32_t kBlockSize = 16;
constexpr const char* kActions[] = {"keep", "grow", "shrink"};
constexpr const char* kBases[] = {"last", "forecast", "level"};
constexpr const char* kReasons[] = {"need", "hysteresis", "cooldown", "limit"};

nlohmann::ordered_json decision_json(const kvc_sizing_decision& d) {
  return {{"second", d.now_ns / kSecond},
          {"needed", d.needed},
          {"level", d.level},
          {"trend", d.trend},
          {"forecast", d.forecast},
          {"variation", d.variation},
          {"basis", kBases[d.basis]},
          {"wanted", d.wanted},
          {"action", kActions[d.action]},
          {"reason", kReasons[d.reason]},
          {"from_blocks", d.from_blocks},
          {"to_blocks", d.to_blocks}};
}

/// Of the intervals after the first: those that needed more than the size that was decided before them.
size_t num_short(const std::vector<kvc_sizing_decision>& log) {
  return static_cast<size_t>(std::count_if(log.begin() + 1, log.end(), [](const kvc_sizing_decision& d) {
    return d.needed > static_cast<double>(d.from_blocks);
  }));
}

double mean_blocks(const std::vector<kvc_sizing_decision>& log) {
  double sum = 0;
  for (const kvc_sizing_decision& d : log) sum += static_cast<double>(d.to_blocks);
  return sum / static_cast<double>(log.size());
}

}  // namespace

const std::vector<std::string>& mode_names() {
  static const std::vector<std::string> names{"reactive", "predictive", "hybrid"};
  return names;
}

std::vector<double> needs_of(const Trace& trace, uint64_t interval_seconds, uint32_t block_size) {
  std::vector<double> needs;
  for (const TraceRequest& request : trace.requests) {
    const uint64_t interval = request.timestamp_ms / (interval_seconds * 1000);
    if (interval >= kMostIntervals) {
      throw InputError("a request comes after " + std::to_string(request.timestamp_ms / 1000) +
                       " seconds; give a larger --interval");
    }
    if (interval >= needs.size()) needs.resize(interval + 1);
    const uint64_t tokens = uint64_t{request.input_length} + request.num_outputs();
    const uint64_t blocks = (tokens + block_size - 1) / block_size;
    needs[interval] += static_cast<double>(blocks);
  }
  return needs;
}

std::vector<kvc_sizing_decision> decide_sizes(const std::vector<double>& needs, const ModeOptions& options) {
  const uint64_t interval = options.interval_seconds * kSecond;
  auto config = make<kvc_sizer_config>();
  config.mode = static_cast<uint32_t>(std::ranges::find(mode_names(), options.mode) - mode_names().begin());
  config.lead_time_ns = interval;
  config.half_life_ns = 2 * interval;
  config.window = 8;
  config.hysteresis = 0.1;
  kvc::Sizer sizer(config);
  std::vector<kvc_sizing_decision> log;
  log.reserve(needs.size());
  for (const double needed : needs) log.push_back(sizer.decide((log.size() + 1) * interval, needed));
  return log;
}

void print_decisions(const Trace& trace, const ModeOptions& options, bool as_json, std::ostream& out) {
  const auto log = decide_sizes(needs_of(trace, options.interval_seconds, kBlockSize), options);
  if (as_json) {
    nlohmann::ordered_json json = {{"mode", options.mode},
                                   {"interval_seconds", options.interval_seconds},
                                   {"block_size", kBlockSize},
                                   {"short_intervals", num_short(log)},
                                   {"mean_blocks", mean_blocks(log)},
                                   {"log", nlohmann::json::array()}};
    for (const kvc_sizing_decision& d : log) json["log"].push_back(decision_json(d));
    out << json.dump(2) << '\n';
    return;
  }
  out << log.size() << " intervals of " << options.interval_seconds << " s, blocks of " << kBlockSize
      << " tokens, mode " << options.mode << "\n\n   second    needed     level  forecast   basis    wanted"
      << "  action      reason    blocks\n"
      << std::fixed << std::setprecision(0);
  for (const kvc_sizing_decision& d : log) {
    out << std::setw(9) << d.now_ns / kSecond << std::setw(10) << d.needed << std::setw(10) << d.level
        << std::setw(10) << d.forecast << std::setw(9) << kBases[d.basis] << std::setw(9) << d.wanted
        << std::setw(8) << kActions[d.action] << std::setw(12) << kReasons[d.reason] << std::setw(10)
        << d.to_blocks << '\n';
  }
  out << "\nshort intervals " << num_short(log) << ", mean size " << mean_blocks(log) << " blocks\n";
}

}  // namespace kvcli
