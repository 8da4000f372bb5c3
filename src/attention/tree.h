// SPDX-License-Identifier: Apache-2.0
// Trees of draft tokens as bit masks. Pure; any thread may call.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvc {

// Bits [first_bit, first_bit + num_nodes^2) of mask, row by row: node i sees itself and its ancestors.
// parents[i] is -1 or below i. depths [num_nodes] or nullptr.
void make_tree_mask(const int32_t* parents, size_t num_nodes, uint8_t* mask, uint64_t first_bit,
                    int32_t* depths);

}  // namespace kvc
