// SPDX-License-Identifier: Apache-2.0
// The memory of a model's KV cache, and what fits into a budget. Integers only, with all products checked.
// Thread-safe.
#pragma once
#include <kvcache/model.h>

namespace kvc {

// Checks what the memory depends on, of a model of full size.
kvc_status check_model(const kvc_model& model);

// kvc_group_config.retention_tokens of the layers with a window or chunks: 0 = none.
uint64_t window_retention(const kvc_memory_query& query, uint32_t block_size);

// Both structs have their full size. Checks all fields, and replaces 0 by defaults. Nothing is written on
// failure.
kvc_status estimate_memory(const kvc_memory_query& query, const kvc_model& model, kvc_memory_estimate* out);

}  // namespace kvc
