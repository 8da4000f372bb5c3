// SPDX-License-Identifier: Apache-2.0
// Memory of devices by kvc_device_*: what the CPU gives, and what is refused by name.
#include <gtest/gtest.h>
#include <kvcache/device.h>

#include <cstring>
#include <string>

namespace {

bool says(const char* part) { return std::string(kvc_last_error()).find(part) != std::string::npos; }

TEST(DeviceMemory, OfAnUnknownDeviceIsNotFound) {
  char place = 0;
  void* const untouched = &place;
  void* memory = untouched;
  kvc_memory_handle handle = {};
  for (const char* device : {"nowhere", "cpu:1", "cpu:99999999999999999999"}) {
    EXPECT_EQ(kvc_device_allocate(device, KVC_MEMORY_DEFAULT, 64, &memory), KVC_ERROR_NOT_FOUND) << device;
    EXPECT_EQ(kvc_device_reserve_addresses(device, 64, &memory), KVC_ERROR_NOT_FOUND) << device;
    EXPECT_EQ(kvc_device_import_memory(device, &handle, &memory), KVC_ERROR_NOT_FOUND) << device;
    EXPECT_EQ(kvc_device_register(device, &place, 1), KVC_ERROR_NOT_FOUND) << device;
    EXPECT_EQ(kvc_device_unregister(device, &place), KVC_ERROR_NOT_FOUND) << device;
  }
  EXPECT_EQ(memory, untouched);
  kvc_backend_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_backend_properties("nowhere", &info), KVC_ERROR_NOT_FOUND);
}

TEST(DeviceMemory, IsGivenBackOnce) {
  void* memory = nullptr;
  ASSERT_EQ(kvc_device_allocate("cpu", KVC_MEMORY_HOST, 1000, &memory), KVC_OK) << kvc_last_error();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 256, 0u);
  std::memset(memory, 1, 1000);
  EXPECT_EQ(kvc_device_release(memory), KVC_OK);
  EXPECT_EQ(kvc_device_release(memory), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_device_release(nullptr), KVC_OK);
  kvc_memory_handle handle = {};
  EXPECT_EQ(kvc_device_export_memory(memory, &handle), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(kvc_device_map(memory, 0, 1), KVC_ERROR_NOT_FOUND);
}

TEST(DeviceMemory, OfTheCpuIsNotPinnedNorGrownNorShared) {
  void* memory = nullptr;
  for (const uint32_t kind : {uint32_t{KVC_MEMORY_DEVICE}, uint32_t{KVC_MEMORY_PINNED}, 31u, 32u, 40u}) {
    EXPECT_EQ(kvc_device_allocate("cpu", kind, 64, &memory), KVC_ERROR_UNSUPPORTED) << kind;
    EXPECT_TRUE(says("GPU")) << kvc_last_error();
  }
  EXPECT_EQ(kvc_device_reserve_addresses("cpu", 64, &memory), KVC_ERROR_UNSUPPORTED);
  kvc_memory_handle handle = {};
  std::strcpy(handle.device, "cuda");
  EXPECT_EQ(kvc_device_import_memory("cpu", &handle, &memory), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(says("\"cuda\"")) << kvc_last_error();
  std::strcpy(handle.device, "cpu");
  EXPECT_EQ(kvc_device_import_memory("cpu", &handle, &memory), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(memory, nullptr);
  ASSERT_EQ(kvc_device_allocate("cpu", KVC_MEMORY_DEFAULT, 64, &memory), KVC_OK);
  EXPECT_EQ(kvc_device_export_memory(memory, &handle), KVC_ERROR_UNSUPPORTED);
  EXPECT_EQ(kvc_device_map(memory, 60, 5), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_device_map(memory, 65, 0), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(kvc_device_release(memory), KVC_OK);
}

}  // namespace
