// SPDX-License-Identifier: Apache-2.0
// Checks of what arguments say about a caller's rows: their strides and their rotary embedding.
#pragma once
#include "api/guard.h"
#include "backend/operations.h"

namespace kvc {

// No product of the strides of `name` overflows, in elements or in bytes.
kvc_status check_strides(const char* name, int64_t layer, size_t num_layers, int64_t token, size_t num_tokens,
                         int64_t head, size_t num_heads);

// Rotary embedding of rows of `elements`, with defaults filled in. `on_device`: table_row cannot be read.
kvc_status check_rotary(const kvc_backend_rotary& rotary, uint32_t elements, size_t num_tokens,
                        bool on_device);

}  // namespace kvc
