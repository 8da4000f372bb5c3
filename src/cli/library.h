// SPDX-License-Identifier: Apache-2.0
// The thin C++ dress of the C API that this tool needs: managers and storages that destroy themselves, calls
// that throw LibraryError with the library's own text, and a stopwatch for the time inside calls.
#pragma once

#include <kvcache.h>

#include <chrono>
#include <memory>
#include <string>

#include "cli/errors.h"

namespace kvcli {

inline void check(kvc_status status, const char* call) {
  if (status == KVC_OK) return;
  throw LibraryError(std::string(call) + ": " + kvc_status_name(status) + ": " + kvc_last_error());
}

struct ManagerDeleter {
  void operator()(kvc_manager* manager) const { kvc_manager_destroy(manager); }
};
using Manager = std::unique_ptr<kvc_manager, ManagerDeleter>;

inline Manager create_manager(const kvc_manager_config& config) {
  kvc_manager* manager = nullptr;
  check(kvc_manager_create(&config, &manager), "kvc_manager_create");
  return Manager(manager);
}

struct StorageDeleter {
  void operator()(kvc_storage* storage) const { kvc_storage_destroy(storage); }
};
using Storage = std::unique_ptr<kvc_storage, StorageDeleter>;

inline Storage create_storage(const kvc_storage_config& config) {
  kvc_storage* storage = nullptr;
  check(kvc_storage_create(&config, &storage), "kvc_storage_create");
  return Storage(storage);
}

/// Sums the time between start() and stop(). A pair reads the clock twice: measure calls, not tokens.
class Stopwatch {
 public:
  void start() { started_ = Clock::now(); }
  /// Returns the seconds since start().
  double stop() {
    const Clock::duration elapsed = Clock::now() - started_;
    total_ += elapsed;
    return std::chrono::duration<double>(elapsed).count();
  }
  double seconds() const { return std::chrono::duration<double>(total_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point started_{};
  Clock::duration total_{};
};

}  // namespace kvcli
