// SPDX-License-Identifier: Apache-2.0
// The options of `kvcache simulate`.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/simulate.h"

namespace kvcli {

void add_simulate_options(CLI::App& simulate, SimulateOptions& options);

}  // namespace kvcli
