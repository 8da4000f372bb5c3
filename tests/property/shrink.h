// SPDX-License-Identifier: Apache-2.0
// Makes a failing sequence of operations short: deletes stretches, halving their length, as long as what is
// left still fails.
#ifndef KVCACHE_TESTS_PROPERTY_SHRINK_H_
#define KVCACHE_TESTS_PROPERTY_SHRINK_H_

#include <string>
#include <vector>

#include "property/ops.h"

struct Failure {
  std::vector<Op> ops;  // the last one fails
  std::string error;
};

// Runs the operations on a new World, everything compared after each. An empty error: nothing failed.
Failure replay(const Setup& setup, const std::vector<Op>& ops, uint64_t hash_mask);

// The shortest failing sequence found within `seconds`; `failure` itself if it does not fail when replayed.
Failure shrink(const Setup& setup, const Failure& failure, uint64_t hash_mask, double seconds);

#endif  // KVCACHE_TESTS_PROPERTY_SHRINK_H_
