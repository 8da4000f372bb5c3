// SPDX-License-Identifier: Apache-2.0
// Reports on standard output: tables for people, JSON for programs.
#pragma once

#include <ostream>
#include <string>

#include "cli/replay.h"

namespace kvcli {

void print_replay_table(const ReplayOptions& options, const ReplayResult& result, std::ostream& out);
void print_replay_json(const ReplayOptions& options, const ReplayResult& result, std::ostream& out);

/// 0.2.0 for 200.
std::string version_text(uint32_t version);

/// Version, build, features and defaults of the library.
void print_info(const std::vector<std::string>& backends, bool as_json, std::ostream& out);

}  // namespace kvcli
