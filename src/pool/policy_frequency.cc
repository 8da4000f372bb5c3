// SPDX-License-Identifier: Apache-2.0
// Ghost frequency: last use + A * log2(uses), with A = weight * blocks of the pool. The tree remembers the
// uses of positions after their eviction, so that what comes back again and again stays. A position's uses
// are at most those of the position before it, and it is released first: so parents outlive their children,
// as under LRU.
#include "pool/policy.h"

namespace kvc {
namespace {

constexpr uint32_t kFrequencyShelves = 8;  // 128 uses and more are equal

}  // namespace

const Policy kFrequencyPolicy = {
    .name = "frequency",
    .counts_uses = true,
    .moves_fragments = false,
    .default_weight = 1,
    .most_weight = 1000,
    .num_shelves = [](double) { return kFrequencyShelves; },
    .shelf =
        [](const CachedBlock& block) {
          const auto level = static_cast<uint32_t>(31 - __builtin_clz(block.uses | 1));
          return level < kFrequencyShelves ? level : kFrequencyShelves - 1;
        },
    .bonus =
        [](uint32_t shelf, double weight, uint64_t pool_blocks) {
          return shelf * static_cast<uint64_t>(weight * static_cast<double>(pool_blocks));
        },
};

}  // namespace kvc
