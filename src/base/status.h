// SPDX-License-Identifier: Apache-2.0
// Errors inside the library: a kvc_status, with its text in a fixed buffer of the calling thread. Texts name
// the value, the limit and the fix. Nothing here allocates or throws.
#pragma once
#include <kvcache/types.h>

namespace kvc {

// Formats the calling thread's error text and returns `status`.
[[gnu::cold]] kvc_status fail(kvc_status status, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
// The same for KVC_ERROR_INVALID_ARGUMENT, the usual one.
[[gnu::cold]] kvc_status invalid(const char* format, ...) __attribute__((format(printf, 1, 2)));

using ull = unsigned long long;  // what %llu prints

// Of several failures, the text of the first, which the thread has again at the end: "array[index]: text".
class FirstError {
 public:
  FirstError() = default;
  ~FirstError();
  FirstError(const FirstError&) = delete;
  FirstError& operator=(const FirstError&) = delete;
  // An item of an array has just failed, or several have.
  [[gnu::cold]] void note(const char* array, size_t index);

 private:
  bool noted_ = false;
  char text_[1024];
};

const char* last_error();
const char* status_name(kvc_status status);

}  // namespace kvc

// Makes the calling function return the status of `call`, unless that is KVC_OK.
#define KVC_TRY(call)                          \
  do {                                         \
    const kvc_status kvc_try_status = (call);  \
    if (kvc_try_status != KVC_OK) [[unlikely]] \
      return kvc_try_status;                   \
  } while (false)

// Makes a check of the state fail with this text.
#define KVC_CHECK(condition, ...)                         \
  do {                                                    \
    if (!(condition)) [[unlikely]]                        \
      return ::kvc::fail(KVC_ERROR_CORRUPT, __VA_ARGS__); \
  } while (false)
