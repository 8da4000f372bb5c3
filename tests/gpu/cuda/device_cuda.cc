// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU for tests of kernels: they run on the current device, in its default stream.
#include <cuda_runtime_api.h>

#include "gpu/device.h"

namespace kvc::gpu::test {

namespace {

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) ADD_FAILURE() << what << ": " << cudaGetErrorString(error);
}

uint32_t fresh_seed() {
  const char* fixed = std::getenv("KVC_TEST_SEED");
  return fixed != nullptr ? static_cast<uint32_t>(std::strtoul(fixed, nullptr, 10)) : std::random_device()();
}

}  // namespace

void* device_allocate_if(size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes == 0 ? 1 : bytes) == cudaSuccess) return memory;
  cudaGetLastError();  // it was reported here
  return nullptr;
}
void* device_allocate(size_t bytes) {
  void* memory = device_allocate_if(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void device_free(void* memory, size_t) { require(cudaFree(memory), "cudaFree"); }
void copy_in(void* device, const void* host, size_t bytes) {
  require(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
}
void copy_out(void* host, const void* device, size_t bytes) {
  require(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the device");
}
void synchronize() { require(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

KernelTest::KernelTest()
    : seed_(fresh_seed()), trace_(__FILE__, __LINE__, "KVC_TEST_SEED=" + std::to_string(seed_)) {
  random.seed(seed_);
}

}  // namespace kvc::gpu::test
