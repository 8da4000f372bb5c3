// SPDX-License-Identifier: Apache-2.0
// Which cached block leaves first. A policy sorts the cached blocks of a pool onto shelves: lists, oldest
// first. Each shelf has a bonus, in blocks that came to the lists. The victim is the first block of the shelf
// where (time at which it came + bonus) is least; of equal ones that of the lowest shelf. So every choice
// costs as many comparisons as there are shelves, and a policy is two functions in a file of its own.
//
// Immutable. A policy keeps nothing; the pool keeps the shelves, the tree the uses.
#pragma once
#include <cstddef>
#include <cstdint>

namespace kvc {

// What a policy may know of a block that comes to the cached ones.
struct CachedBlock {
  uint32_t uses;         // of its position: 1 .. 255; 0 if the policy does not ask for them
  uint32_t num_missing;  // full-attention groups without a block at its position
};

struct Policy {
  static constexpr uint32_t kMaxShelves = 16;

  const char* name;
  bool counts_uses;                    // whether the tree counts uses, and remembers them
  bool moves_fragments;                // whether a block changes its shelf when num_missing becomes 1
  double default_weight, most_weight;  // of kvc_manager_config.policy_weight, which is at least 0
  // 1: nothing but the order of release counts.
  uint32_t (*num_shelves)(double weight);
  uint32_t (*shelf)(const CachedBlock& block);  // with several shelves
  uint64_t (*bonus)(uint32_t shelf, double weight, uint64_t pool_blocks);
};

extern const Policy kLruPolicy, kFrequencyPolicy, kFragmentationPolicy;

// By KVC_POLICY_*; null if there is none.
const Policy* find_policy(uint32_t number);
uint32_t num_policies();

}  // namespace kvc
