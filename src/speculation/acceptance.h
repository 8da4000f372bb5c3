// SPDX-License-Identifier: Apache-2.0
// Counts of verdicts by depth, and the length of drafts that they suggest. Pure; any thread may call.
#pragma once
#include "speculation/drafts.h"

namespace kvc {

void count_verdict(const kvc_drafts& drafts, const kvc_verdict& verdict, kvc_acceptance* counts);
void halve(kvc_acceptance* counts);
// No accepted[d] is above tried[d].
uint32_t best_length(const kvc_acceptance& counts, const double* costs, size_t num_costs, double* num_tokens);

}  // namespace kvc
