// SPDX-License-Identifier: Apache-2.0
// `kvcache bench checkpoint FOLDER`: the bandwidth of saving and restoring, and of the disk in the same run.
#pragma once

#include "cli/bench.h"

namespace kvcli {

/// False if a restored page differs.
bool print_bench_checkpoint(const BenchOptions& options, bool as_json, std::ostream& out);

}  // namespace kvcli
