// SPDX-License-Identifier: Apache-2.0
#include "cli/curve.h"

#include <kvcache/sizing.h>

#include <cmath>

#include "cli/library.h"

namespace kvcli {

void open_curve(kvc_manager* manager, double sample_rate) {
  auto config = make<kvc_curve_config>();
  config.sample_rate = sample_rate;
  check(kvc_manager_open_curve(manager, KVC_ALL_NAMESPACES, &config));
}

CurveReport read_curve(kvc_manager* manager, uint64_t num_blocks) {
  const auto info = ask<kvc_curve_info>(kvc_manager_curve_info, manager, KVC_ALL_NAMESPACES);
  CurveReport report = {info.sample_rate, info.sampled, info.bytes, {}, {}};
  for (int half = -8; half <= 6; ++half) {
    const auto size = static_cast<uint64_t>(static_cast<double>(num_blocks) * std::exp2(half / 2.0));
    if (size != 0) report.num_blocks.push_back(size);
  }
  report.hit_rates.resize(report.num_blocks.size());
  check(kvc_manager_read_curve(manager, KVC_ALL_NAMESPACES, report.num_blocks.data(),
                               report.num_blocks.size(), report.hit_rates.data()));
  return report;
}

}  // namespace kvcli
