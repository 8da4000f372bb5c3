// SPDX-License-Identifier: Apache-2.0
// Checks of what arguments say about rows of a caller: where they lie, and how they turn.
#pragma once
#include "api/guard.h"
#include "storage/rotary.h"

namespace kvc {

// The rows of `name`: that no product of strides overflows, in elements or in bytes.
kvc_status check_strides(const char* name, int64_t layer, size_t num_layers, int64_t token, size_t num_tokens,
                         int64_t head, size_t num_heads);

// Rotary embedding of tokens' rows of `elements`, with defaults filled in. `unseen`: table_row is not read.
kvc_status check_rotary(const Rotary& rotary, size_t table_rows, uint32_t elements, size_t num_tokens,
                        bool unseen);

}  // namespace kvc
