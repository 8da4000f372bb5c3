// SPDX-License-Identifier: Apache-2.0
// The runtime of CUDA. Of the driver's own functions those of virtual memory are used; they are asked for at
// run time, so that the library links with the static runtime alone.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>

#define KVC_VENDOR(name) cuda##name
#include "vendor_runtime.inc"

namespace kvc::gpu::runtime {
namespace {

template <typename Function>
Error find_driver(const char* name, Function** function) {
  cudaDriverEntryPointQueryResult found;
  void* address = nullptr;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &address, 10020, cudaEnableDefault, &found);
  if (error != cudaSuccess) return done(error);
  if (found != cudaDriverEntryPointSuccess) return cudaErrorCallRequiresNewerDriver;
  *function = reinterpret_cast<Function*>(address);
  return 0;
}

// Calls a function of the driver by its name.
template <typename Function, typename... Arguments>
Error call_driver(const char* name, Function*, Arguments... arguments) {
  Function* function = nullptr;
  if (const Error error = find_driver(name, &function); error != 0) return error;
  const CUresult result = function(arguments...);  // the codes that matter here are those of the runtime
  return result == CUDA_ERROR_OUT_OF_MEMORY ? Error{cudaErrorMemoryAllocation} : static_cast<Error>(result);
}
#define KVC_DRIVER(name, ...) call_driver(#name, &name, __VA_ARGS__)

CUmemAllocationProp properties_of_chunks() {
  CUmemAllocationProp chunks = {};
  uint32_t device = 0;
  static_cast<void>(current_device(&device));
  chunks.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  chunks.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  chunks.location.id = static_cast<int>(device);
  return chunks;
}

CUdeviceptr address_of(void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

}  // namespace

const char* const kName = "cuda";
const char* const kArchitectures = KVC_GPU_ARCHITECTURES;
const int32_t kDlpackDevice = 2;

Error properties(uint32_t device, Properties* out) {
  cudaDeviceProp found;
  if (const Error error = done(cudaGetDeviceProperties(&found, static_cast<int>(device))); error != 0)
    return error;
  *out = {};
  std::snprintf(out->name, sizeof out->name, "%.63s", found.name);
  std::snprintf(out->architecture, sizeof out->architecture, "sm_%d%d", found.major, found.minor);
  out->memory_bytes = found.totalGlobalMem;
  out->num_processors = static_cast<uint32_t>(found.multiProcessorCount);
  out->shared_bytes = static_cast<uint32_t>(found.sharedMemPerBlockOptin);
  out->has_mma = found.major >= 8;
  out->reads_host_memory = found.pageableMemoryAccess != 0 &&
                           (found.pageableMemoryAccessUsesHostPageTables != 0 || found.integrated != 0);
  out->virtual_memory = true;
  out->managed_memory = found.concurrentManagedAccess != 0;
  return 0;
}

Error allocate_pinned(uint64_t bytes, void** memory) {
  return done(cudaHostAlloc(memory, bytes, cudaHostAllocPortable));
}
Error release_pinned(void* memory) { return done(cudaFreeHost(memory)); }

Error find_address(const void* memory, Found* found) {
  cudaPointerAttributes native;
  const Error error = done(cudaPointerGetAttributes(&native, memory));
  *found = {};
  if (error == 0)
    *found = {native.devicePointer, native.type != cudaMemoryTypeUnregistered,
              native.type == cudaMemoryTypeManaged};
  return error;
}

// At once where that is possible: neither in a graph nor in the default stream. What is refused, by an older
// driver too, goes one by one: a copy that is done twice does no harm.
Error copy(const Copies& copies, Stream stream) {
#if CUDART_VERSION >= 13000  // before, the function has another parameter
  uint64_t capture = 0;
  if (copies.count > 1 && stream != nullptr && stream != cudaStreamLegacy &&
      find_capture(stream, &capture) == 0 && capture == 0) {
    cudaMemcpyAttributes in_order = {};
    in_order.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    size_t first = 0;
    if (done(cudaMemcpyBatchAsync(copies.to, copies.from, copies.bytes, copies.count, &in_order, &first, 1,
                                  native_stream(stream))) == 0)
      return 0;
  }
#endif
  return copy_each(copies, stream);
}

Error map_granularity(uint64_t* bytes) {
  size_t found = 0;
  const CUmemAllocationProp chunks = properties_of_chunks();
  const Error error =
      KVC_DRIVER(cuMemGetAllocationGranularity, &found, &chunks, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  *bytes = found;
  return error;
}

Error reserve(uint64_t bytes, void** addresses) {
  CUdeviceptr found = 0;
  const Error error = KVC_DRIVER(cuMemAddressReserve, &found, size_t{bytes}, size_t{0}, CUdeviceptr{0}, 0ull);
  *addresses = reinterpret_cast<void*>(found);
  return error;
}

Error map(void* at, uint64_t bytes, void** mapping) {
  const CUmemAllocationProp chunks = properties_of_chunks();
  CUmemGenericAllocationHandle handle = 0;
  Error error = KVC_DRIVER(cuMemCreate, &handle, size_t{bytes}, &chunks, 0ull);
  if (error != 0) return error;
  error = KVC_DRIVER(cuMemMap, address_of(at), size_t{bytes}, size_t{0}, handle, 0ull);
  if (error == 0) {
    const CUmemAccessDesc access = {chunks.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    error = KVC_DRIVER(cuMemSetAccess, address_of(at), size_t{bytes}, &access, size_t{1});
    if (error != 0) static_cast<void>(KVC_DRIVER(cuMemUnmap, address_of(at), size_t{bytes}));
  }
  if (error != 0) {
    static_cast<void>(KVC_DRIVER(cuMemRelease, handle));
    return error;
  }
  *mapping = reinterpret_cast<void*>(handle);
  return 0;
}

Error unmap(void* at, uint64_t bytes, void* mapping) {
  const Error error = KVC_DRIVER(cuMemUnmap, address_of(at), size_t{bytes});
  if (error != 0) return error;
  return KVC_DRIVER(cuMemRelease, reinterpret_cast<CUmemGenericAllocationHandle>(mapping));
}

Error free_addresses(void* addresses, uint64_t bytes) {
  return KVC_DRIVER(cuMemAddressFree, address_of(addresses), size_t{bytes});
}

}  // namespace kvc::gpu::runtime
