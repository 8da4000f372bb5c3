// SPDX-License-Identifier: Apache-2.0
// Parts as OpenMetrics 1.0 text: each family once, with the values of all parts.
#pragma once
#include "metrics/families.h"

namespace kvc {

std::string render_metrics(const std::vector<MetricsPart>& parts, bool with_vllm);

}  // namespace kvc
