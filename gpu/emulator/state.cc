// SPDX-License-Identifier: Apache-2.0
#include "emulator/state.h"

namespace kvc::gpu::runtime {

State& state() {
  static auto* const all = new State;
  return *all;
}

uint32_t& device_in_use() {
  thread_local uint32_t device = 0;
  return device;
}
bool& allowed_while_capturing() {
  thread_local bool allow = false;
  return allow;
}

Error check() {
  if (state().trigger(Failure::kLost).occurs()) state().lost = true;
  return state().lost ? kLost : kDone;
}
Error check_captures() {
  if (const Error error = check(); error != 0) return error;
  if (!host::captures_exist() || allowed_while_capturing()) return kDone;
  host::break_captures();
  return kCaptureFailed;
}
Error check_allocation() {
  if (const Error error = check_captures(); error != 0) return error;
  return state().trigger(Failure::kAllocate).occurs() ? kNoMemory : kDone;
}

host::Stream& stream_of(Stream stream) {
  static host::Stream* const defaults[kNumDevices] = {new host::Stream(0), new host::Stream(1)};
  return stream == nullptr ? *defaults[device_in_use()] : *static_cast<host::Stream*>(stream);
}

Error enqueue(Stream stream, std::function<void()> work) {
  if (const Error error = check(); error != 0) return error;
  if (state().trigger(Failure::kLaunch).occurs()) return kLaunchFailed;
  return stream_of(stream).enqueue(std::move(work)) ? kDone : kCaptureFailed;
}

AllowWhileCapturing::AllowWhileCapturing() : before_(allowed_while_capturing()) {
  allowed_while_capturing() = true;
}
AllowWhileCapturing::~AllowWhileCapturing() { allowed_while_capturing() = before_ != 0; }

}  // namespace kvc::gpu::runtime
