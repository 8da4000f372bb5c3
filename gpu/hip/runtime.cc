// SPDX-License-Identifier: Apache-2.0
// The runtime of HIP on AMD's devices.
#include <hip/hip_runtime_api.h>

#include <cstdio>

#define KVC_VENDOR(name) hip##name
#include "vendor_runtime.inc"

namespace kvc::gpu::runtime {
namespace {

hipMemAllocationProp properties_of_chunks() {
  hipMemAllocationProp chunks = {};
  uint32_t device = 0;
  static_cast<void>(current_device(&device));
  chunks.type = hipMemAllocationTypePinned;
  chunks.location.type = hipMemLocationTypeDevice;
  chunks.location.id = static_cast<int>(device);
  return chunks;
}

}  // namespace

const char* const kName = "hip";
const char* const kArchitectures = KVC_GPU_ARCHITECTURES;
const int32_t kDlpackDevice = 10;

Error properties(uint32_t device, Properties* out) {
  hipDeviceProp_t found;
  if (const Error error = done(hipGetDeviceProperties(&found, static_cast<int>(device))); error != 0)
    return error;
  int pageable = 0, host_tables = 0, integrated = 0, managed = 0;
  const struct {
    hipDeviceAttribute_t attribute;
    int* value;
  } asked[] = {{hipDeviceAttributePageableMemoryAccess, &pageable},
               {hipDeviceAttributePageableMemoryAccessUsesHostPageTables, &host_tables},
               {hipDeviceAttributeIntegrated, &integrated},
               {hipDeviceAttributeConcurrentManagedAccess, &managed}};
  for (const auto& [attribute, value] : asked) {
    if (const Error error = done(hipDeviceGetAttribute(value, attribute, static_cast<int>(device)));
        error != 0)
      return error;
  }
  *out = {};
  std::snprintf(out->name, sizeof out->name, "%.63s", found.name);
  std::snprintf(out->architecture, sizeof out->architecture, "%.*s",
                static_cast<int>(std::strcspn(found.gcnArchName, ":")), found.gcnArchName);
  out->memory_bytes = found.totalGlobalMem;
  out->num_processors = static_cast<uint32_t>(found.multiProcessorCount);
  out->shared_bytes = static_cast<uint32_t>(found.sharedMemPerBlock);
  out->reads_host_memory = pageable != 0 && (host_tables != 0 || integrated != 0);
  out->managed_memory = managed != 0;
  uint64_t granularity = 0;
  out->virtual_memory = map_granularity(&granularity) == 0 && granularity != 0;
  return 0;
}

Error allocate_pinned(uint64_t bytes, void** memory) {
  return done(hipHostMalloc(memory, bytes, hipHostMallocPortable));
}
Error release_pinned(void* memory) { return done(hipHostFree(memory)); }

// Memory that the runtime does not know is an error to it, or in later versions has no address on the device.
Error find_address(const void* memory, Found* found) {
  hipPointerAttribute_t native = {};
  const Error error = done(hipPointerGetAttributes(&native, memory));
  *found = {};
  if (error == 0) *found = {native.devicePointer, native.devicePointer != nullptr, native.isManaged != 0};
  return error == hipErrorInvalidValue ? 0 : error;
}

Error copy(const Copies& copies, Stream stream) { return copy_each(copies, stream); }

Error map_granularity(uint64_t* bytes) {
  size_t found = 0;
  const hipMemAllocationProp chunks = properties_of_chunks();
  const Error error =
      done(hipMemGetAllocationGranularity(&found, &chunks, hipMemAllocationGranularityRecommended));
  *bytes = found;
  return error;
}

Error reserve(uint64_t bytes, void** addresses) {
  return done(hipMemAddressReserve(addresses, bytes, 0, nullptr, 0));
}

Error map(void* at, uint64_t bytes, void** mapping) {
  const hipMemAllocationProp chunks = properties_of_chunks();
  hipMemGenericAllocationHandle_t handle = nullptr;
  Error error = done(hipMemCreate(&handle, bytes, &chunks, 0));
  if (error != 0) return error;
  error = done(hipMemMap(at, bytes, 0, handle, 0));
  if (error == 0) {
    hipMemAccessDesc access = {};
    access.location = chunks.location;
    access.flags = hipMemAccessFlagsProtReadWrite;
    error = done(hipMemSetAccess(at, bytes, &access, 1));
    if (error != 0) static_cast<void>(done(hipMemUnmap(at, bytes)));
  }
  if (error != 0) {
    static_cast<void>(done(hipMemRelease(handle)));
    return error;
  }
  *mapping = handle;
  return 0;
}

Error unmap(void* at, uint64_t bytes, void* mapping) {
  const Error error = done(hipMemUnmap(at, bytes));
  if (error != 0) return error;
  return done(hipMemRelease(static_cast<hipMemGenericAllocationHandle_t>(mapping)));
}

Error free_addresses(void* addresses, uint64_t bytes) { return done(hipMemAddressFree(addresses, bytes)); }

}  // namespace kvc::gpu::runtime
