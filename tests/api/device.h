// SPDX-License-Identifier: Apache-2.0
// The device that tests of storages run on: the CPU, or that of KVC_TEST_DEVICE; and, if it is emulated, what
// it can be made to do.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <kvcache/device.h>

#include <cstdlib>
#include <string_view>

#include "../gpu/emulator/control.h"

namespace kvc::test {

inline const char* device() {
  static const char* const name = std::getenv("KVC_TEST_DEVICE");
  return name;  // NULL = the CPU
}

inline kvc_backend_info info_of(const char* backend) {
  kvc_backend_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_backend_properties(backend, &info), KVC_OK) << kvc_last_error();
  return info;
}

// Whether tests steer it, by control(): an emulated one, unless it stands for a GPU.
inline bool is_emulated() {
  return device() != nullptr && std::string_view(device()).substr(0, 8) == "emulated" &&
         std::getenv("KVC_TEST_AS_GPU") == nullptr;
}

// Whether the device's memory is the host's, and the other way round: of GPUs that read ordinary memory of
// the host too, the host does not see their own.
inline bool shares_host_memory() {
  const std::string_view name = device() == nullptr ? "cpu" : device();
  return name == "cpu" || name == "emulated" || name == "emulated:0";
}

// NULL: there are no emulated devices.
inline const gpu::Control* control() {
  static const gpu::Control* const table = []() -> const gpu::Control* {
    kvc_backend_info info = {};
    info.struct_size = sizeof info;
    if (kvc_backend_properties("emulated", &info) != KVC_OK) return nullptr;
    void* library = dlopen(info.path, RTLD_NOW);
    const auto get = reinterpret_cast<decltype(&kvc_emulated_control)>(dlsym(library, KVC_EMULATED_CONTROL));
    return get == nullptr ? nullptr : get();
  }();
  return table;
}

}  // namespace kvc::test
