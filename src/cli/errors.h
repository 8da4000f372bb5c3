// SPDX-License-Identifier: Apache-2.0
// The errors of kvcache(1), besides kvc::Error for a failed call. InputError: an option or a file is wrong
// (exit code 2). LibraryError: results of the library contradict each other (exit code 1).
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
