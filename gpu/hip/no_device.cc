// SPDX-License-Identifier: Apache-2.0
// Why HIP finds no device. Its runtime says only that there is none; /dev/kfd, by which it reaches them,
// tells more.
#include <hip/hip_runtime_api.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "runtime.h"

namespace kvc::gpu::runtime {
namespace {

constexpr char kDriver[] = "/dev/kfd";

// The first variable that hides devices, or nullptr.
const char* hiding() {
  for (const char* name : {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    if (std::getenv(name) != nullptr) return name;
  }
  return nullptr;
}

}  // namespace

void explain_none(Error error, char* text, size_t size) {
  if (error == 0) error = hipErrorNoDevice;
  const int found = access(kDriver, R_OK | W_OK) == 0 ? 0 : errno;
  const char* const variable = hiding();
  if (found == ENOENT) {
    std::snprintf(
        text, size,
        "%s (error %d); there is no %s: load the module amdgpu, or give the container its GPUs (--device "
        "/dev/kfd --device /dev/dri)",
        error_text(error), error, kDriver);
  } else if (found != 0) {
    std::snprintf(text, size, "%s (error %d); this user may not use %s: add it to the group render",
                  error_text(error), error, kDriver);
  } else if (variable != nullptr) {
    std::snprintf(text, size, "%s (error %d); %s is \"%.64s\"", error_text(error), error, variable,
                  std::getenv(variable));
  } else {
    std::snprintf(text, size, "%s (error %d); rocminfo shows what the driver sees", error_text(error), error);
  }
}

}  // namespace kvc::gpu::runtime
