// SPDX-License-Identifier: Apache-2.0
// What there is to compute on, as `kvcache info` tells it.
#pragma once
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace kvcli {

/// The CPU, CUDA, HIP and `more`. One that is not installed is no error: most machines need one at most.
nlohmann::ordered_json backends_info(const std::vector<std::string>& more);
void print_backends(const nlohmann::ordered_json& backends, std::ostream& out);

}  // namespace kvcli
