// SPDX-License-Identifier: Apache-2.0
// Rotary embedding of rows in place. Arguments are valid; rows of different tokens may be turned by different
// threads.
#pragma once
#include <kvcache.h>

namespace kvc {

void rotate_rows(const kvc_rope_rows& rows);  // complete: no field is left to its default

}  // namespace kvc
