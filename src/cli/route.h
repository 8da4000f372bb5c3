// SPDX-License-Identifier: Apache-2.0
// `kvcache route`: a router's index as a process, which answers lines of JSON on a socket of this machine.
#pragma once

#include <ostream>

#include "cli/route_answers.h"

namespace kvcli {

/// Prints where it listens, and serves until a client says stop, or SIGINT or SIGTERM comes. Throws
/// InputError for an address that it cannot take.
void serve_routes(const RouteOptions& options, std::ostream& out);

}  // namespace kvcli
