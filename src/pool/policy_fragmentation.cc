// SPDX-License-Identifier: Apache-2.0
// Fragments first. A fragment is a cached block whose position has lost the block of a full-attention group:
// no hit can use it until that block is computed again. Weight 0 is the order of LRU, weight 1 evicts all
// fragments before anything else; between them a whole position stays weight / (1 - weight) * blocks of the
// pool longer than a fragment.
#include "pool/policy.h"

namespace kvc {
namespace {

constexpr uint32_t kFragments = 0, kWhole = 1;
constexpr uint64_t kForEver = uint64_t{1} << 62;

}  // namespace

const Policy kFragmentationPolicy = {
    .name = "fragmentation",
    .counts_uses = false,
    .moves_fragments = true,
    .default_weight = 0,
    .most_weight = 1,
    .num_shelves = [](double weight) { return weight > 0 ? uint32_t{2} : uint32_t{1}; },
    .shelf = [](const CachedBlock& block) { return block.num_missing != 0 ? kFragments : kWhole; },
    .bonus =
        [](uint32_t shelf, double weight, uint64_t pool_blocks) {
          if (shelf == kFragments) return uint64_t{0};
          const double share = weight < 1 ? weight / (1 - weight) : 1e18;
          const double bonus = share * static_cast<double>(pool_blocks);
          return bonus < static_cast<double>(kForEver) ? static_cast<uint64_t>(bonus) : kForEver;
        },
};

}  // namespace kvc
