// SPDX-License-Identifier: Apache-2.0
// What programs in C count as failures, with the library's last error beside each.
#include <kvcache/types.h>
#include <stdio.h>

static int failures;

#define EXPECT(condition)                                                                       \
  do {                                                                                          \
    if (!(condition))                                                                           \
      ++failures, fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, kvc_last_error()); \
  } while (0)
