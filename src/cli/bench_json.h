// SPDX-License-Identifier: Apache-2.0
// What the JSON of all benchmarks has in common.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/bench.h"
#include "cli/bench_check.h"

namespace kvcli {

/// The processor, or the device.
std::string hardware(const BenchOptions& options);

/// The keys that say what is measured, and on what.
nlohmann::ordered_json setting_json(const BenchOptions& options, uint32_t layers);

nlohmann::ordered_json check_json(const BenchCheck& check);

}  // namespace kvcli
