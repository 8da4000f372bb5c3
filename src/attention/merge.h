// SPDX-License-Identifier: Apache-2.0
// Merges partial results over disjoint sets of keys into the result over all keys. Pure; any thread may call.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvc {

// outs [num_partials][num_rows][dim] of a float type, lses [num_partials][num_rows]. out and lse (or nullptr)
// may be the first partial.
void merge_partials(const char* outs, const float* lses, size_t num_partials, size_t num_rows, uint32_t dim,
                    int32_t dtype, char* out, float* lse);

}  // namespace kvc
