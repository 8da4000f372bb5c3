// SPDX-License-Identifier: Apache-2.0
// Least recently released first.
#include "pool/policy.h"

namespace kvc {

const Policy kLruPolicy = {
    .name = "lru",
    .counts_uses = false,
    .moves_fragments = false,
    .default_weight = 0,
    .most_weight = 0,
    .num_shelves = [](double) { return uint32_t{1}; },
    .shelf = [](const CachedBlock&) { return uint32_t{0}; },
    .bonus = [](uint32_t, double, uint64_t) { return uint64_t{0}; },
};

}  // namespace kvc
