// SPDX-License-Identifier: Apache-2.0
#include "backend/device_stream.h"

#include <new>

namespace kvc::gpu {

kvc_status DeviceStream::create(uint32_t device, DeviceStream** stream) {
  const OnDevice on(device);
  KVC_TRY(on.status());
  runtime::Stream handle;
  KVC_TRY(check(runtime::create_stream(&handle), "making a stream"));
  auto* made = new (std::nothrow) DeviceStream(device, handle, true);
  if (made == nullptr) {
    static_cast<void>(runtime::destroy_stream(handle));
    return refuse(KVC_ERROR_OUT_OF_MEMORY, "no memory for a stream");
  }
  *stream = made;
  return KVC_OK;
}

kvc_status DeviceStream::adopt(uint32_t device, runtime::Stream handle, DeviceStream** stream) {
  auto* made = new (std::nothrow) DeviceStream(device, handle, false);
  if (made == nullptr) return refuse(KVC_ERROR_OUT_OF_MEMORY, "no memory for a stream");
  *stream = made;
  return KVC_OK;
}

void DeviceStream::close() {
  {
    const std::lock_guard lock(mutex_);
    const OnDevice on(device_);
    finish_locked();
    if (own_) static_cast<void>(runtime::destroy_stream(handle_));
    ended_.store(true, std::memory_order_release);
  }
  drop();
}

void DeviceStream::drop() {
  if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

kvc_status DeviceStream::find_capture(uint64_t* id) const {
  return check(runtime::find_capture(handle_, id), "asking whether a stream is captured");
}

kvc_status DeviceStream::synchronize() {
  const std::lock_guard lock(mutex_);
  if (ended()) return KVC_OK;
  const OnDevice on(device_);
  KVC_TRY(on.status());
  return check(runtime::synchronize(handle_), "waiting for a stream");
}

void DeviceStream::finish() {
  const std::lock_guard lock(mutex_);
  if (ended()) return;
  const OnDevice on(device_);
  finish_locked();
}

void DeviceStream::finish_locked() {
  uint64_t capture = 0;
  // The default stream cannot be asked, or waited for, while another is captured.
  const bool captured = runtime::find_capture(handle_, &capture) != 0 || capture != 0;
  if (captured || runtime::synchronize(handle_) != 0) static_cast<void>(runtime::synchronize_device());
}

bool DeviceStream::order_before(const DeviceStream& other) {
  const std::lock_guard lock(mutex_);
  if (ended()) return true;
  uint64_t capture = 0;
  if (runtime::find_capture(handle_, &capture) != 0 || capture != 0) return false;
  runtime::Event event;
  if (runtime::create_event(&event) != 0) return false;
  const bool ordered = runtime::record(event, handle_) == 0 && runtime::wait(other.handle(), event) == 0;
  static_cast<void>(runtime::destroy_event(event));
  return ordered;
}

kvc_status DeviceEvent::create(uint32_t device, DeviceEvent** event) {
  const OnDevice on(device);
  KVC_TRY(on.status());
  runtime::Event handle;
  KVC_TRY(check(runtime::create_event(&handle), "making an event"));
  auto* made = new (std::nothrow) DeviceEvent(device, handle);
  if (made == nullptr) {
    static_cast<void>(runtime::destroy_event(handle));
    return refuse(KVC_ERROR_OUT_OF_MEMORY, "no memory for an event");
  }
  *event = made;
  return KVC_OK;
}

DeviceEvent::~DeviceEvent() {
  const OnDevice on(device_);
  static_cast<void>(runtime::destroy_event(handle_));
}

kvc_status DeviceEvent::record(DeviceStream& stream) {
  const OnDevice on(device_);
  KVC_TRY(on.status());
  return check(runtime::record(handle_, stream.handle()), "recording an event");
}

kvc_status DeviceEvent::delay(DeviceStream& stream) {
  const OnDevice on(device_);
  KVC_TRY(on.status());
  return check(runtime::wait(stream.handle(), handle_), "making a stream wait");
}

kvc_status DeviceEvent::query(bool* done) {
  const OnDevice on(device_);
  KVC_TRY(on.status());
  return check(runtime::query(handle_, done), "asking for an event");
}

kvc_status DeviceEvent::synchronize() {
  const OnDevice on(device_);
  KVC_TRY(on.status());
  return check(runtime::synchronize_event(handle_), "waiting for an event");
}

}  // namespace kvc::gpu
