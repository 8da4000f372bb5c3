// SPDX-License-Identifier: Apache-2.0
#include "backend/error.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace kvc::gpu {
namespace {

std::atomic<void (*)(const char*)> set_error{nullptr};

}  // namespace

void set_host(const kvc_backend_host* host) { set_error = host->set_error; }

kvc_status refuse(kvc_status status, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (const auto set = set_error.load(); set != nullptr) set(text);
  return status;
}

kvc_status report(runtime::Error error, const char* doing) {
  const bool no_memory = runtime::is_out_of_memory(error);
  return refuse(no_memory ? KVC_ERROR_OUT_OF_MEMORY : KVC_ERROR_DEVICE, "%s: %s failed: %s (error %d)",
                runtime::kName, doing, runtime::error_text(error), error);
}

}  // namespace kvc::gpu
