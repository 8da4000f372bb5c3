// SPDX-License-Identifier: Apache-2.0
// Who says at the end of a request whether its session is over: whether a later request of the trace uses the
// last full block of its prompt. It is right with a given probability; a wrong answer is the opposite one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/trace.h"

namespace kvcli {

/// The accuracy in "oracle:X", 0 to 1. Throws InputError, which names --hints.
double parse_hints(const std::string& text);

class SessionOracle {
 public:
  SessionOracle(const Trace& trace, double accuracy);

  /// The answer for a request of the trace; the same in every run.
  bool says_over(uint32_t request) const { return over_[request] != wrong(request); }

 private:
  bool wrong(uint32_t request) const;

  double accuracy_;
  std::vector<bool> over_;
};

}  // namespace kvcli
