// SPDX-License-Identifier: Apache-2.0
// A driver of CUDA that has no device, as libcuda.so.1: the version and the errors that the environment
// names. The runtime asks it for all that it knows by name and goes on to tables that are written down
// nowhere, so that no device can be pretended.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kOk = 0, kNotFound = 500 };

static int number(const char* name, int otherwise) {
  const char* value = getenv(name);
  return value != NULL ? atoi(value) : otherwise;
}

int cuInit(unsigned flags) {
  (void)flags;
  return number("FAKE_CUDA_INIT", kOk);
}
int cuDriverGetVersion(int* version) {
  *version = number("FAKE_CUDA_VERSION", 13000);
  return number("FAKE_CUDA_VERSION_ERROR", kOk);
}
int cuGetExportTable(const void** table, const void* id) {
  (void)table, (void)id;
  return kNotFound;
}
static int other(void) { return kNotFound; }

int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, int* result);
int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, int* result) {
  (void)version, (void)flags;
  *function = strcmp(name, "cuInit") == 0               ? (void*)cuInit
              : strcmp(name, "cuDriverGetVersion") == 0 ? (void*)cuDriverGetVersion
              : strcmp(name, "cuGetExportTable") == 0   ? (void*)cuGetExportTable
              : strcmp(name, "cuGetProcAddress") == 0   ? (void*)cuGetProcAddress_v2
                                                        : (void*)other;
  if (result != NULL) *result = 0;
  return kOk;
}
