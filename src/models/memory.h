// SPDX-License-Identifier: Apache-2.0
// The memory of a model's KV cache, and what fits into a budget. Integers only, with all products checked.
// Thread-safe.
#pragma once
#include <kvcache.h>

namespace kvc {

// Both structs have their full size. Checks all fields, and replaces 0 by defaults. Nothing is written on
// failure.
kvc_status estimate_memory(const kvc_memory_query& query, const kvc_model& model, kvc_memory_estimate* out);

}  // namespace kvc
