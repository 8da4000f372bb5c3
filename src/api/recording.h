// SPDX-License-Identifier: Apache-2.0
// How a call comes into the log of its manager: the first line of each function that changes one is
// KVC_RECORD. calls.def says what its parameters are.
#pragma once
#include "api/guard.h"
#include "record/recorder.h"

namespace kvc {

// Whether this thread is making the call that the manager's recorder writes.
bool is_recording(const kvc_manager* m);

// Calls the function under the recorder's lock, and adds the call to the log.
template <auto kFunction>
struct Recorded;
template <typename... Args, kvc_status (*kFunction)(kvc_manager*, Args...)>
struct Recorded<kFunction> {
  static kvc_status call(kvc_manager* m, Args... args);
};

// Begins the log of a new manager. `config`: complete, its pointers to groups and pools good.
kvc_status start_recording(kvc_manager* m, const kvc_manager_config& config);
void stop_recording(kvc_manager* m);

// As kvc_log_replay.
kvc_status replay_log(const unsigned char* log, size_t size, kvc_replay_info* out);

#define KVC_RECORD(function, m, ...)                                                      \
  if ((m) != nullptr && (m)->recorder != nullptr && !::kvc::is_recording(m)) [[unlikely]] \
  return ::kvc::Recorded<function>::call(m __VA_OPT__(, ) __VA_ARGS__)

}  // namespace kvc
