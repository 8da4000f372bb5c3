// SPDX-License-Identifier: Apache-2.0
// Why CUDA finds no device. To its static runtime a driver that is missing, damaged or too old is one error:
// which of them it is, the loader knows.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>

#include "runtime.h"

namespace kvc::gpu::runtime {
namespace {

constexpr char kDriver[] = "libcuda.so.1";

void explain_driver(char* text, size_t size) {
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess && version != 0 && version < CUDART_VERSION) {
    std::snprintf(
        text, size,
        "NVIDIA's driver knows CUDA up to %d.%d, this backend needs %d.0: install a newer driver, or "
        "build the backend with CUDA %d",
        version / 1000, version % 1000 / 10, CUDART_VERSION / 1000, version / 1000);
    return;
  }
  void* const driver = dlopen(kDriver, RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    std::snprintf(
        text, size,
        "NVIDIA's driver cannot be loaded: %s; install it, or give the container its GPUs (docker run "
        "--gpus all)",
        dlerror());
    return;
  }
  link_map* place = nullptr;
  static_cast<void>(dlinfo(driver, RTLD_DI_LINKMAP, &place));
  std::snprintf(
      text, size,
      "%s is found as NVIDIA's driver and is none, or it is damaged: install the driver, or take that "
      "file off the search path",
      place != nullptr ? place->l_name : kDriver);
  dlclose(driver);
}

const char* advice(Error error) {
  switch (error) {
    case cudaErrorStubLibrary:
      return "the libcuda.so.1 of a toolkit is found, which only serves for linking: take its folder off "
             "LD_LIBRARY_PATH";
    case cudaErrorCompatNotSupportedOnDevice:
      return "the libcuda.so.1 of a package for compatibility is found, which does not suit this device: "
             "take its "
             "folder off LD_LIBRARY_PATH";
    case cudaErrorSystemDriverMismatch:
      return "libcuda.so.1 and the kernel's module are of different versions: restart the machine, or "
             "install one "
             "version of the driver";
    case cudaErrorSystemNotReady:
      return "a service of the driver does not run yet: start nvidia-fabricmanager";
    default:
      return "nvidia-smi shows whether the driver works";
  }
}

}  // namespace

void explain_none(Error error, char* text, size_t size) {
  if (error == cudaErrorInsufficientDriver) return explain_driver(text, size);
  if (error == 0) error = cudaErrorNoDevice;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (error == cudaErrorNoDevice && visible != nullptr) {
    std::snprintf(text, size, "%s (error %d); CUDA_VISIBLE_DEVICES is \"%.64s\"", error_text(error), error,
                  visible);
  } else {
    std::snprintf(text, size, "%s (error %d); %s", error_text(error), error, advice(error));
  }
}

}  // namespace kvc::gpu::runtime
