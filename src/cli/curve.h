// SPDX-License-Identifier: Apache-2.0
// The miss-ratio curve of a replay: the hit rates of pools from a 16th to 8 times its own.
#pragma once

#include "cli/replay_result.h"

namespace kvcli {

/// Starts a curve of all namespaces that follows this share of the blocks.
void open_curve(kvc_manager* manager, double sample_rate);

/// Two sizes per power of two.
CurveReport read_curve(kvc_manager* manager, uint64_t num_blocks);

}  // namespace kvcli
