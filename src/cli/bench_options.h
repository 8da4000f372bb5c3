// SPDX-License-Identifier: Apache-2.0
// Options of `kvcache bench`.
#pragma once

#include "cli/bench.h"

namespace CLI {
class App;
}

namespace kvcli {

void add_bench_options(CLI::App& bench, BenchOptions& options);

/// Throws InputError for options that exclude each other.
void check_options(const BenchOptions& options);

}  // namespace kvcli
