// SPDX-License-Identifier: Apache-2.0
// Memory and launches of the kernel tests on the emulator.
#include "gpu/device.h"
#include "seed.h"

namespace kvc::gpu::test {

void* device_allocate_if(size_t bytes) { return emulator::allocate_guarded(bytes); }
void* device_allocate(size_t bytes) {
  void* memory = device_allocate_if(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void device_free(void* memory, size_t bytes) { emulator::free_guarded(memory, bytes); }
void copy_in(void* device, const void* host, size_t bytes) {
  if (bytes != 0) std::memcpy(device, host, bytes);
}
void copy_out(void* host, const void* device, size_t bytes) {
  if (bytes != 0) std::memcpy(host, device, bytes);
}
void synchronize() {}

KernelTest::KernelTest()
    : seed_(static_cast<uint32_t>(kvc::test::test_seed())),
      trace_(__FILE__, __LINE__, "KVC_TEST_SEED=" + std::to_string(seed_)) {
  random.seed(seed_);
  emulator::set_seed(seed_);
}

}  // namespace kvc::gpu::test
