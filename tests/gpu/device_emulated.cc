// SPDX-License-Identifier: Apache-2.0
#include "gpu/device.h"

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

namespace {

uint32_t fresh_seed() {
  const char* fixed = std::getenv("KVC_TEST_SEED");
  return fixed != nullptr ? static_cast<uint32_t>(std::strtoul(fixed, nullptr, 10)) : std::random_device()();
}

}  // namespace

KernelTest::KernelTest()
    : seed_(fresh_seed()), trace_(__FILE__, __LINE__, "KVC_TEST_SEED=" + std::to_string(seed_)) {
  random.seed(seed_);
  emulator::set_seed(seed_);
}

}  // namespace kvc::gpu::test
