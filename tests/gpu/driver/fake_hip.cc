// SPDX-License-Identifier: Apache-2.0
// What is no memory: the device, streams and events.
#include "fake_hip.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

namespace fake {

State& state() {
  static auto* const all = new State;
  return *all;
}
thread_local hipError_t last = hipSuccess;

}  // namespace fake

using namespace fake;

namespace {
thread_local hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
}

extern "C" {

size_t fake_hip_alive() {
  const std::lock_guard lock(state().mutex);
  return state().pieces.size() + state().addresses.size() +
         static_cast<size_t>(state().streams + state().events + state().chunks + state().imports);
}

void** __hipRegisterFatBinary(const void*) {
  static void* registered;
  return &registered;
}
void __hipRegisterFunction(void**, const void*, char*, const char*, unsigned, void*, void*, dim3*, dim3*,
                           int*) {}
void __hipUnregisterFatBinary(void**) {}
hipError_t __hipPopCallConfiguration(dim3*, dim3*, size_t*, hipStream_t*) { return hipErrorNotSupported; }
hipError_t hipLaunchKernel(const void*, dim3, dim3, void**, size_t, hipStream_t) {
  return result(hipErrorLaunchFailure);
}

const char* hipGetErrorString(hipError_t error) {
  return error == hipErrorLaunchFailure ? "the fake launches nothing" : "as the fake has it";
}
hipError_t hipGetLastError() {
  const hipError_t was = last;
  last = hipSuccess;
  return was;
}
hipError_t hipGetDeviceCount(int* count) { return *count = 1, hipSuccess; }
hipError_t hipGetDevice(int* device) { return *device = 0, hipSuccess; }
hipError_t hipDeviceSynchronize() { return hipSuccess; }
hipError_t hipSetDevice(int device) { return device == 0 ? hipSuccess : result(hipErrorInvalidDevice); }
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int device) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "Fake device");
  std::strcpy(properties->gcnArchName, "gfx90a:sramecc+:xnack-");
  properties->totalGlobalMem = kMemory;
  properties->multiProcessorCount = 104;
  properties->sharedMemPerBlock = 65536;
  return require(device == 0);
}
// FAKE_HIP_READS_HOST says how the device reads ordinary memory of the host: by "faults" that fetch pages, by
// the host's page "tables", or because it is "integrated". Without it, not at all.
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  const char* const set = std::getenv("FAKE_HIP_READS_HOST");
  const std::string_view how = set == nullptr ? "" : set;
  switch (attribute) {
    case hipDeviceAttributeConcurrentManagedAccess:
      *value = 1;
      break;
    case hipDeviceAttributePageableMemoryAccess:
      *value = !how.empty();
      break;
    case hipDeviceAttributePageableMemoryAccessUsesHostPageTables:
      *value = how == "tables";
      break;
    case hipDeviceAttributeIntegrated:
      *value = how == "integrated";
      break;
    default:
      return require(false);
  }
  return require(device == 0);
}
hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return flags == hipStreamNonBlocking ? make(stream, &state().streams) : require(false);
}
hipError_t hipStreamDestroy(hipStream_t stream) { return drop(stream, &state().streams); }
hipError_t hipStreamSynchronize(hipStream_t) { return hipSuccess; }
hipError_t hipStreamWaitEvent(hipStream_t, hipEvent_t event, unsigned flags) {
  return require(event != nullptr && flags == 0);
}
hipError_t hipStreamGetCaptureInfo(hipStream_t, hipStreamCaptureStatus* status, unsigned long long* id) {
  return *status = hipStreamCaptureStatusNone, *id = 0, hipSuccess;
}
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* other) {
  const hipStreamCaptureMode was = mode;
  mode = *other, *other = was;
  return hipSuccess;
}
hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return flags == hipEventDisableTiming ? make(event, &state().events) : require(false);
}
hipError_t hipEventDestroy(hipEvent_t event) { return drop(event, &state().events); }
hipError_t hipEventRecord(hipEvent_t event, hipStream_t) { return require(event != nullptr); }
hipError_t hipEventQuery(hipEvent_t event) { return require(event != nullptr); }
hipError_t hipEventSynchronize(hipEvent_t event) { return require(event != nullptr); }
hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind kind, hipStream_t) {
  const std::lock_guard lock(state().mutex);
  if (kind != hipMemcpyDefault || find(to, bytes) == nullptr || find(from, bytes) == nullptr)
    return require(false);
  std::memmove(to, from, bytes);
  return hipSuccess;
}
hipError_t hipMemsetAsync(void* memory, int value, size_t bytes, hipStream_t) {
  const std::lock_guard lock(state().mutex);
  if (find(memory, bytes) == nullptr) return require(false);
  std::memset(memory, value, bytes);
  return hipSuccess;
}

}  // extern "C"
