// SPDX-License-Identifier: Apache-2.0
// Streams of a device, made here or adopted, and events. Users of a stream hold it, and can ask whether it
// has ended: then no work is left in it. Thread-safe.
#pragma once
#include <atomic>
#include <mutex>

#include "backend/error.h"

namespace kvc::gpu {

class DeviceStream {
 public:
  static kvc_status create(uint32_t device, DeviceStream** stream);
  static kvc_status adopt(uint32_t device, runtime::Stream handle, DeviceStream** stream);
  void close();  // after the enqueued work

  uint32_t device() const { return device_; }
  runtime::Stream handle() const { return handle_; }
  // 0 = the stream is not being captured.
  kvc_status find_capture(uint64_t* id) const;
  // Waits for the enqueued work; returns at once if the stream has ended.
  kvc_status synchronize();
  // The same, without ending a capture of the stream. Captured work is not enqueued.
  void finish();
  // What `other` does from now on comes after the enqueued work here. False: not possible without waiting.
  bool order_before(const DeviceStream& other);
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  void hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  void drop();

 private:
  DeviceStream(uint32_t device, runtime::Stream handle, bool own)
      : device_(device), handle_(handle), own_(own) {}

  void finish_locked();

  const uint32_t device_;
  const runtime::Stream handle_;
  const bool own_;
  std::atomic<uint32_t> holders_{1};
  std::atomic<bool> ended_{false};
  std::mutex mutex_;  // the handle's end
};

class DeviceEvent {
 public:
  static kvc_status create(uint32_t device, DeviceEvent** event);
  ~DeviceEvent();

  kvc_status record(DeviceStream& stream);
  kvc_status delay(DeviceStream& stream);
  kvc_status query(bool* done);
  kvc_status synchronize();

 private:
  DeviceEvent(uint32_t device, runtime::Event handle) : device_(device), handle_(handle) {}
  const uint32_t device_;
  const runtime::Event handle_;
};

}  // namespace kvc::gpu
