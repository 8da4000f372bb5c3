// SPDX-License-Identifier: Apache-2.0
// The errors of kvcache(1). InputError: an option or a file is wrong (exit code 2). LibraryError: a call of
// the library failed, or its results contradict each other (exit code 1). Each text names the problem and the
// fix.
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
