// SPDX-License-Identifier: Apache-2.0
// Backends and devices for `kvcache info`.
#pragma once
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace kvcli {

/// The CPU, CUDA, HIP and `more`. A backend that is not installed is no error.
nlohmann::ordered_json backends_info(const std::vector<std::string>& more);
void print_backends(const nlohmann::ordered_json& backends, std::ostream& out);

}  // namespace kvcli
