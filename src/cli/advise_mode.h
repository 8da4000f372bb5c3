// SPDX-License-Identifier: Apache-2.0
// `kvcache advise --mode`: what a sizer would decide while the requests of a trace arrive, interval by
// interval.
#pragma once
#include <kvcache/sizing.h>

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "cli/trace.h"

namespace kvcli {

struct ModeOptions {
  std::string mode;  // One of mode_names(); empty = none.
  uint64_t interval_seconds = 60;
};

const std::vector<std::string>& mode_names();

/// The need of an interval: the blocks that the requests fill that arrive in it.
std::vector<double> needs_of(const Trace& trace, uint64_t interval_seconds, uint32_t block_size);

/// What a sizer of this mode decides at the end of each interval. It looks one interval ahead, and ignores
/// changes of up to a tenth.
std::vector<kvc_sizing_decision> decide_sizes(const std::vector<double>& needs, const ModeOptions& options);

void print_decisions(const Trace& trace, const ModeOptions& options, bool as_json, std::ostream& out);

}  // namespace kvcli
