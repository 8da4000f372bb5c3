// SPDX-License-Identifier: Apache-2.0
// The JSON of a check, for `kvcache bench` and the benchmarks of graphs.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/bench_check.h"

namespace kvcli {

nlohmann::ordered_json check_json(const BenchCheck& check);

}  // namespace kvcli
