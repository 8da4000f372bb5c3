// SPDX-License-Identifier: Apache-2.0
// State of the emulated runtime besides memory and streams. Each call first asks it whether a test wants the
// call to fail, and whether the call breaks current captures. Thread-safe.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>

#include "emulator/control.h"
#include "emulator/stream.h"
#include "runtime.h"

namespace kvc::gpu::runtime {

enum Code : Error { kDone, kInvalid, kNoMemory, kLaunchFailed, kLost, kCaptureFailed, kUnknownMemory };

constexpr uint32_t kNumDevices = 2;

// Failures on demand.
struct Trigger {
  std::atomic<uint64_t> seen{0}, at{0};

  bool occurs() { return ++seen == at.load(); }
};

struct State {
  Trigger triggers[3];  // by Failure
  std::atomic<bool> lost{false};
  std::atomic<uint64_t> times_synchronized{0}, captures_so_far{0};
  std::atomic<uint64_t> seed{1}, replays{0};

  Trigger& trigger(Failure failure) { return triggers[static_cast<int>(failure)]; }
  uint64_t next_replay() { return (seed << 32) + ++replays; }  // the seed of the next replay of a graph
};
State& state();

// Of this thread.
uint32_t& device_in_use();
bool& allowed_while_capturing();  // its calls do not break captures

Error check();
// Calls that break captures: all that ask, wait, allocate or free, in any thread.
Error check_captures();
Error check_allocation();

host::Stream& stream_of(Stream stream);
Error enqueue(Stream stream, std::function<void()> work);

}  // namespace kvc::gpu::runtime
