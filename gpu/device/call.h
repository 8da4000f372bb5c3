// SPDX-License-Identifier: Apache-2.0
// One call of a storage on its way to the device: the current device, the stream, host arrays as they come
// along, and workspace. Everything is enqueued; without a stream of the caller the call uses one of the
// library's and waits at its end.
#pragma once
#include <cstring>

#include "device/staging.h"
#include "device/workspace.h"

namespace kvc::gpu {

// What a storage keeps for its calls.
class CallMemory {
 public:
  explicit CallMemory(uint32_t device) : workspace(device), staging(device) {}
  ~CallMemory();

  void note(DeviceStream& stream);  // something is enqueued there
  void wait();                      // for all of it

  Workspace workspace;
  Staging staging;

 private:
  std::mutex mutex_;
  std::vector<DeviceStream*> streams_;  // held
};

class Call {
 public:
  Call(uint32_t device, CallMemory& memory, DeviceStream* stream)
      : device_(device), on_(device), memory_(memory), stream_(stream), own_(stream == nullptr) {}
  ~Call();

  kvc_status begin();
  // Host arrays, of which the device gets a copy: upload() puts its address in place of the host's. NULL
  // stays NULL.
  template <typename T>
  void array(T*& host, size_t count) {
    size_t stride = count;
    array(host, 1, count, stride);
  }
  // Rows of `count` elements, `stride` apart; the copies are packed.
  template <typename T>
  void array(T*& host, size_t rows, size_t count, size_t& stride) {
    if (host == nullptr) return;
    add({&host, reinterpret_cast<const char*>(host), rows, count * sizeof(T), stride * sizeof(T), 0});
    stride = count;
  }
  // Sends the arrays, and takes `workspace` bytes beside them.
  kvc_status upload(uint64_t workspace = 0);
  // Memory that the caller gives: its address on the device.
  template <typename T>
  kvc_status address(T*& memory, const char* name) {
    void* on_device;
    KVC_TRY(find(memory, name, &on_device));
    memory = static_cast<T*>(on_device);
    return KVC_OK;
  }

  runtime::Stream stream() const { return stream_->handle(); }
  char* workspace() const { return block_.data; }
  // After the last launch: its error, or that of waiting.
  kvc_status end(runtime::Error error, const char* doing);

 private:
  struct Array {
    void* place;  // of the pointer to it
    const char* data;
    size_t rows, row_bytes, stride;
    uint64_t offset;  // in the block
  };
  static constexpr size_t kMaxArrays = 9;

  void add(const Array& array);
  kvc_status find(const void* memory, const char* name, void** on_device);
  void pack(uint64_t begin, uint64_t end, char* to) const;
  kvc_status send(char* to, uint64_t bytes);

  const uint32_t device_;
  const OnDevice on_;
  CallMemory& memory_;
  DeviceStream* stream_;
  const bool own_;
  uint64_t capture_ = 0;
  Array arrays_[kMaxArrays];
  size_t num_arrays_ = 0;
  uint64_t array_bytes_ = 0;
  Workspace::Block block_ = {};
};

}  // namespace kvc::gpu
