// SPDX-License-Identifier: Apache-2.0
// The two ways in which kvcache(1) ends early. InputError: the user or a file asked for something impossible
// (exit code 2). LibraryError: a library call failed, or its answers contradict each other (exit code 1).
// Each text says what was wrong and what to do about it.
#pragma once

#include <stdexcept>

namespace kvcli {

enum ExitCode { kExitOk = 0, kExitFailure = 1, kExitUsage = 2 };

struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct LibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace kvcli
