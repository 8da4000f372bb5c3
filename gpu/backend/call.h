// SPDX-License-Identifier: Apache-2.0
// One call of a storage on its way to the device: the current device, the stream, host arrays and workspace.
// Everything is enqueued. Without a stream of the caller, the call uses one of the library's and waits at its
// end.
#pragma once
#include "backend/host_arrays.h"
#include "backend/staging.h"
#include "backend/workspace.h"

namespace kvc::gpu {

inline constexpr uint64_t kWorkspaceAlignment = 256;

// What a storage keeps for its calls.
class CallMemory {
 public:
  explicit CallMemory(uint32_t device) : workspace(device), staging(device) {}
  ~CallMemory();

  void note(DeviceStream& stream);  // work was enqueued there
  void wait();                      // for all of that work

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
  // Host arrays that the device needs: add them before upload().
  HostArrays& arrays() { return arrays_; }
  // Bytes for a workspace, aligned to kWorkspaceAlignment, and for the copies of `arrays`.
  static uint64_t needed(uint64_t workspace, const HostArrays& arrays);
  // Sends the arrays, and takes `workspace` bytes. `given`: needed() bytes on the device to use for both.
  kvc_status upload(uint64_t workspace = 0, char* given = nullptr);
  // Replaces the address of the caller's memory by the device's.
  template <typename T>
  kvc_status address(T*& memory, const char* name) {
    void* on_device;
    KVC_TRY(find(memory, name, &on_device));
    memory = static_cast<T*>(on_device);
    return KVC_OK;
  }

  runtime::Stream stream() const { return stream_->handle(); }
  char* workspace() const { return workspace_; }
  // Call it after the last launch. Returns the error of the launch or of waiting.
  kvc_status end(runtime::Error error, const char* doing);

 private:
  kvc_status find(const void* memory, const char* name, void** on_device);
  kvc_status send(char* to);

  const uint32_t device_;
  const OnDevice on_;
  CallMemory& memory_;
  DeviceStream* stream_;
  const bool own_;
  uint64_t capture_ = 0;
  HostArrays arrays_;
  Workspace::Block block_ = {};
  char* workspace_ = nullptr;
};

}  // namespace kvc::gpu
