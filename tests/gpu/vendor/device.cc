// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU for tests of kernels: they run on the current device, in its default stream.
#include "gpu/device.h"

#include "gpu/vendor/vendor.h"
#include "seed.h"

namespace kvc::gpu::test {
namespace {

void require(KVC_VENDOR(Error_t) error, const char* what) {
  if (error != KVC_VENDOR(Success)) ADD_FAILURE() << what << ": " << KVC_VENDOR(GetErrorString)(error);
}

}  // namespace

void* device_allocate_if(size_t bytes) {
  void* memory = nullptr;
  if (KVC_VENDOR(Malloc)(&memory, bytes == 0 ? 1 : bytes) == KVC_VENDOR(Success)) return memory;
  static_cast<void>(KVC_VENDOR(GetLastError)());  // it was reported here
  return nullptr;
}
void* device_allocate(size_t bytes) {
  void* memory = device_allocate_if(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void device_free(void* memory, size_t) { require(KVC_VENDOR(Free)(memory), "Free"); }
void copy_in(void* device, const void* host, size_t bytes) {
  require(KVC_VENDOR(Memcpy)(device, host, bytes, KVC_VENDOR(MemcpyHostToDevice)), "Memcpy to the device");
}
void copy_out(void* host, const void* device, size_t bytes) {
  require(KVC_VENDOR(Memcpy)(host, device, bytes, KVC_VENDOR(MemcpyDeviceToHost)), "Memcpy from the device");
}
void synchronize() { require(KVC_VENDOR(DeviceSynchronize)(), "DeviceSynchronize"); }

KernelTest::KernelTest()
    : seed_(static_cast<uint32_t>(kvc::test::test_seed())),
      trace_(__FILE__, __LINE__, "KVC_TEST_SEED=" + std::to_string(seed_)) {
  random.seed(seed_);
}

}  // namespace kvc::gpu::test
