// SPDX-License-Identifier: Apache-2.0
// The runtime of emulated devices: two of them, of which the first reads any host memory and has managed
// memory, as some machines have it, and the second only what is pinned or its own; other memory it would
// fetch page by page. Here devices and their memory; runtime_streams.cc has the rest.
#include "runtime.h"

#include <cstdio>

#include "emulator/emulator.h"
#include "emulator/memory.h"
#include "emulator/state.h"

namespace kvc::gpu::runtime {
namespace {

Error allocate_kind(host::Kind kind, uint64_t bytes, void** memory) {
  if (const Error error = check_allocation(); error != 0) return error;
  *memory = host::allocate(device_in_use(), kind, bytes);
  return *memory == nullptr ? kNoMemory : kDone;
}

}  // namespace

const char* const kName = "emulated";
const char* const kArchitectures = "host";
const int32_t kDlpackDevice = 12;  // a device that is neither of the others

const char* error_text(Error error) {
  switch (error) {
    case kDone:
      return "done";
    case kNoMemory:
      return "out of memory";
    case kLaunchFailed:
      return "the launch failed, as a test wanted";
    case kLost:
      return "the device is lost, as a test wanted";
    case kCaptureFailed:
      return "not permitted while a stream is captured";
    case kUnknownMemory:
      return "no such memory";
    default:
      return "invalid argument";
  }
}
bool is_out_of_memory(Error error) { return error == kNoMemory; }

Error device_count(uint32_t* count) {
  emulator::set_enqueue(enqueue);
  *count = kNumDevices;
  return kDone;
}
void explain_none(Error error, char* text, size_t size) {
  std::snprintf(text, size, "%s", error_text(error));
}

Error properties(uint32_t device, Properties* out) {
  *out = {};
  std::snprintf(out->name, sizeof out->name, "Emulated device %u", device);
  std::snprintf(out->architecture, sizeof out->architecture, "host");
  out->memory_bytes = host::kDeviceBytes;
  out->num_processors = 4;
  out->shared_bytes = emulator::kMaxSharedBytes;
  out->has_mma = true;
  out->reads_host_memory = device == 0;
  out->virtual_memory = true;
  out->managed_memory = device == 0;
  return check();
}

Error current_device(uint32_t* device) {
  *device = device_in_use();
  return kDone;
}
Error set_device(uint32_t device) {
  if (device >= kNumDevices) return kInvalid;
  device_in_use() = device;
  return check();
}

Error free_memory(uint64_t* bytes) {
  *bytes = host::kDeviceBytes - host::bytes_in_use(device_in_use());
  return check();
}

Error allocate(uint64_t bytes, void** memory) { return allocate_kind(host::Kind::kDevice, bytes, memory); }
Error allocate_managed(uint64_t bytes, void** memory) {
  return allocate_kind(host::Kind::kManaged, bytes, memory);
}
Error synchronize_device() {
  ++state().times_synchronized;
  if (const Error error = check_captures(); error != 0) return error;
  host::wait_for_device(device_in_use());
  return kDone;
}
Error release(void* memory) {
  static_cast<void>(synchronize_device());
  const bool known =
      host::release(memory, host::Kind::kDevice) || host::release(memory, host::Kind::kManaged);
  return known ? kDone : kUnknownMemory;
}
Error allocate_pinned(uint64_t bytes, void** memory) {
  return allocate_kind(host::Kind::kPinned, bytes, memory);
}
Error release_pinned(void* memory) {
  static_cast<void>(check_captures());
  return host::release(memory, host::Kind::kPinned) ? kDone : kUnknownMemory;
}
Error register_host(void* memory, uint64_t bytes) {
  if (const Error error = check_allocation(); error != 0) return error;
  return host::adopt(memory, bytes) ? kDone : kInvalid;
}
Error unregister_host(void* memory) {
  static_cast<void>(check_captures());
  return host::release(memory, host::Kind::kRegistered) ? kDone : kUnknownMemory;
}
// As CUDA has it on devices that fetch pages: any memory has an address.
Error find_address(const void* memory, Found* found) {
  *found = {const_cast<void*>(memory), host::is_known(device_in_use(), memory), host::is_managed(memory)};
  return check();
}

Error export_memory(void* memory, unsigned char* handle) {
  if (const Error error = check(); error != 0) return error;
  return host::share(memory, handle) ? kDone : kInvalid;
}
Error import_memory(const unsigned char* handle, void** memory) {
  if (const Error error = check(); error != 0) return error;
  *memory = host::import(device_in_use(), handle);
  return *memory == nullptr ? kInvalid : kDone;
}
Error close_memory(void* memory) {
  return host::release(memory, host::Kind::kImported) ? kDone : kUnknownMemory;
}

Error map_granularity(uint64_t* bytes) {
  *bytes = host::kChunkBytes;
  return kDone;
}
Error reserve(uint64_t bytes, void** addresses) {
  if (const Error error = check(); error != 0) return error;
  *addresses = host::reserve(device_in_use(), bytes);
  return *addresses == nullptr ? kNoMemory : kDone;
}
Error map(void* at, uint64_t bytes, void** mapping) {
  if (const Error error = check_allocation(); error != 0) return error;
  *mapping = at;
  return host::map(device_in_use(), at, bytes) ? kDone : kNoMemory;
}
Error unmap(void* at, uint64_t bytes, void*) {
  host::unmap(device_in_use(), at, bytes);
  return kDone;
}
Error free_addresses(void* addresses, uint64_t) {
  return host::release(addresses, host::Kind::kReserved) ? kDone : kUnknownMemory;
}

}  // namespace kvc::gpu::runtime
