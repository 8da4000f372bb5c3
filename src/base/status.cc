// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace kvc {
namespace {
thread_local char error_text[1024];
}

kvc_status fail(kvc_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error_text, sizeof error_text, format, arguments);
  va_end(arguments);
  return status;
}

kvc_status invalid(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error_text, sizeof error_text, format, arguments);
  va_end(arguments);
  return KVC_ERROR_INVALID_ARGUMENT;
}

void FirstError::note(const char* array, size_t index) {
  static_assert(sizeof text_ == sizeof error_text);
  if (noted_) return;
  noted_ = true;
  std::snprintf(text_, sizeof text_, "%s[%zu]: %.900s", array, index, error_text);
}

FirstError::~FirstError() {
  if (noted_) std::memcpy(error_text, text_, sizeof text_);
}

const char* last_error() { return error_text; }

const char* status_name(kvc_status status) {
  switch (status) {
    case KVC_OK:
      return "KVC_OK";
    case KVC_ERROR_INVALID_ARGUMENT:
      return "KVC_ERROR_INVALID_ARGUMENT";
    case KVC_ERROR_OUT_OF_MEMORY:
      return "KVC_ERROR_OUT_OF_MEMORY";
    case KVC_ERROR_NO_SPACE:
      return "KVC_ERROR_NO_SPACE";
    case KVC_ERROR_NOT_FOUND:
      return "KVC_ERROR_NOT_FOUND";
    case KVC_ERROR_BUSY:
      return "KVC_ERROR_BUSY";
    case KVC_ERROR_LIMIT:
      return "KVC_ERROR_LIMIT";
    case KVC_ERROR_BUFFER_TOO_SMALL:
      return "KVC_ERROR_BUFFER_TOO_SMALL";
    case KVC_ERROR_UNSUPPORTED:
      return "KVC_ERROR_UNSUPPORTED";
    case KVC_ERROR_NOT_HELD:
      return "KVC_ERROR_NOT_HELD";
    case KVC_ERROR_CORRUPT:
      return "KVC_ERROR_CORRUPT";
    case KVC_ERROR_INTERNAL:
      return "KVC_ERROR_INTERNAL";
    case KVC_ERROR_AGAIN:
      return "KVC_ERROR_AGAIN";
    case KVC_ERROR_SKIPPED:
      return "KVC_ERROR_SKIPPED";
    case KVC_ERROR_DEVICE:
      return "KVC_ERROR_DEVICE";
    case KVC_ERROR_OVER_QUOTA:
      return "KVC_ERROR_OVER_QUOTA";
    case KVC_ERROR_FILLING:
      return "KVC_ERROR_FILLING";
    case KVC_ERROR_NEVER_FITS:
      return "KVC_ERROR_NEVER_FITS";
    default:
      return "unknown status";
  }
}

}  // namespace kvc
