// SPDX-License-Identifier: Apache-2.0
// Errors of a backend: a status, and a text for the library that opened the backend. Any thread.
#pragma once
#include "backend/backend.h"
#include "runtime.h"

namespace kvc::gpu {

void set_host(const kvc_backend_host* host);

// Formats the calling thread's error text and returns `status`.
[[gnu::cold]] kvc_status refuse(kvc_status status, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

// The status of a runtime error: OK, OUT_OF_MEMORY or DEVICE. `doing` completes "... failed".
[[gnu::cold]] kvc_status report(runtime::Error error, const char* doing);
inline kvc_status check(runtime::Error error, const char* doing) {
  return error == 0 ? kvc_status{KVC_OK} : report(error, doing);
}

// Makes a device the thread's current one while it lives. Meanwhile nothing that the thread does with the
// device, allocating and waiting included, ends a capture of another stream.
class OnDevice {
 public:
  explicit OnDevice(uint32_t device) {
    error_ = runtime::current_device(&before_);
    if (error_ != 0 || before_ == device) return;
    error_ = runtime::set_device(device);
    changed_ = error_ == 0;
  }
  ~OnDevice() {
    if (changed_) static_cast<void>(runtime::set_device(before_));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  kvc_status status() const { return check(error_, "choosing the device"); }

 private:
  const runtime::AllowWhileCapturing allowed_;
  uint32_t before_ = 0;
  runtime::Error error_ = 0;
  bool changed_ = false;
};

#define KVC_TRY(call) \
  if (const kvc_status kvc_tried = (call); kvc_tried != KVC_OK) return kvc_tried

}  // namespace kvc::gpu
