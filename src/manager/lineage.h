// SPDX-License-Identifier: Apache-2.0
// What the content of a manager comes from: of which manager, and after how many resets and unpublications.
// A restored one has that of the checkpoint; the next reset gives it another, which nobody has had. Zeroes:
// of a new manager.
#pragma once
#include <cstdint>

namespace kvc {

struct Lineage {
  uint64_t origin = 0, num_ended = 0;
  bool operator==(const Lineage&) const = default;
};

}  // namespace kvc
