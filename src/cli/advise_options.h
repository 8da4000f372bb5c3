// SPDX-License-Identifier: Apache-2.0
// Options of `kvcache advise`, besides the trace.
#pragma once

#include "cli/advise.h"

namespace CLI {
class App;
}

namespace kvcli {

void add_advise_options(CLI::App& advise, AdviseOptions& options);

}  // namespace kvcli
