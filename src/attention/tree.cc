// SPDX-License-Identifier: Apache-2.0
#include "attention/tree.h"

namespace kvc {

void make_tree_mask(const int32_t* parents, size_t num_nodes, uint8_t* mask, uint64_t first_bit,
                    int32_t* depths) {
  const auto set = [&](uint64_t bit, bool value) {
    const auto one = static_cast<uint8_t>(1u << bit % 8);
    mask[bit / 8] = static_cast<uint8_t>(value ? mask[bit / 8] | one : mask[bit / 8] & ~one);
  };
  for (size_t i = 0; i < num_nodes; ++i) {
    const uint64_t row = first_bit + uint64_t{i} * num_nodes;
    for (size_t j = 0; j < num_nodes; ++j) set(row + j, false);
    int32_t depth = -1;
    for (auto node = static_cast<int32_t>(i); node >= 0; node = parents[node], ++depth) {
      set(row + static_cast<uint64_t>(node), true);
    }
    if (depths != nullptr) depths[i] = depth;
  }
}

}  // namespace kvc
