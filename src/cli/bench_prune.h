// SPDX-License-Identifier: Apache-2.0
// `kvcache bench attention --prune`: what attention over chosen blocks keeps of dense attention, and its
// time.
#pragma once

#include <ostream>
#include <string>

#include "cli/bench.h"

namespace kvcli {

/// How blocks are chosen: one of the three ways of kvc_block_choice.
struct Prune {
  std::string mode;  // topk, ratio or threshold
  double value = 0;
};
/// Throws InputError, with the value, the limit and the fix.
Prune parse_prune(const std::string& text);

/// Returns false if attention over the chosen blocks is not what the reference computes over them. Throws
/// InputError for options that exclude each other.
bool print_prune(const BenchOptions& options, bool as_json, std::ostream& out);

}  // namespace kvcli
