// SPDX-License-Identifier: Apache-2.0
// What concerns the library and not a manager.
#include <kvcache.h>

#include <cstdio>

#include "base/dtype.h"
#include "base/status.h"

#define KVC_TEXT_(x) #x
#define KVC_TEXT(x) KVC_TEXT_(x)

extern "C" {

uint32_t kvc_version(void) { return KVC_VERSION_MAJOR * 10000 + KVC_VERSION_MINOR * 100 + KVC_VERSION_PATCH; }

const char* kvc_build_info(void) {
  return "libkvcache " KVC_TEXT(KVC_VERSION_MAJOR) "." KVC_TEXT(KVC_VERSION_MINOR) "." KVC_TEXT(
      KVC_VERSION_PATCH)
#if defined(__clang__)
      ", clang " KVC_TEXT(__clang_major__) "." KVC_TEXT(__clang_minor__)
#else
      ", gcc " KVC_TEXT(__GNUC__) "." KVC_TEXT(__GNUC_MINOR__)
#endif
#if defined(__x86_64__)
          ", x86-64"
#else
          ", aarch64"
#endif
#if defined(__SANITIZE_ADDRESS__)
          ", address sanitizer"
#elif defined(__SANITIZE_THREAD__)
          ", thread sanitizer"
#endif
#if !defined(__OPTIMIZE__)
          ", not optimized"
#endif
      ;
}

const char* kvc_status_name(kvc_status status) { return kvc::status_name(status); }

const char* kvc_last_error(void) { return kvc::last_error(); }

kvc_status kvc_dtype_bits(int32_t dtype, uint32_t* bits) {
  if (bits == nullptr) return kvc::invalid("bits is NULL");
  const uint32_t known = kvc::dtype_bits(dtype == 0 ? int32_t{KVC_FLOAT32} : dtype);
  if (known == 0) {
    return kvc::invalid("dtype is %d; give a type from 1 (int8) to %d (int4), or 0 for float32", dtype,
                        KVC_INT4);
  }
  *bits = known;
  return KVC_OK;
}

}  // extern "C"
