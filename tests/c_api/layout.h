/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of every struct and the value of every constant of kvcache.h, in numbers, are part of the ABI
 * and checked by the layout_*_test.c while compiling. When a struct grows at its end its SIZE grows and AT
 * lines are added; a new constant gets a VALUE line; no other line ever changes. */
#ifndef KVC_TESTS_C_API_LAYOUT_H
#define KVC_TESTS_C_API_LAYOUT_H

#include <kvcache/types.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type " has another size")
#define AT(type, field, offset) \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " is at another place")
#define VALUE(name, value) _Static_assert((name) == (value), #name " has another value")

SIZE(kvc_status, 4);
SIZE(void*, 8);
SIZE(size_t, 8);

#endif
