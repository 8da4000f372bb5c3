// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.h"

namespace kvc::gpu::test {

void* device_allocate(size_t bytes) {
  void* memory = emulator::allocate_guarded(bytes);
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
    : seed_(std::random_device()()), trace_(__FILE__, __LINE__, "seed " + std::to_string(seed_)) {
  if (const char* fixed = std::getenv("KVC_TEST_SEED"))
    seed_ = static_cast<uint32_t>(std::strtoul(fixed, nullptr, 10));
  random.seed(seed_);
  emulator::set_seed(seed_);
}

}  // namespace kvc::gpu::test
