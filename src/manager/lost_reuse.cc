// SPDX-License-Identifier: Apache-2.0
#include "manager/lost_reuse.h"

namespace kvc {
namespace {

// What a hit of lost.most positions lacks in a group that reaches less. All sinks below `alone` are there, so
// one is missing exactly if `alone` is among them.
uint8_t reason_of(const Shape& shape, const LostReuse& lost, uint32_t group) {
  const uint32_t alone = lost.alone[group];
  if ((shape.state_groups >> group & 1) != 0) return KVC_LOST_STATE;
  const GroupShape& of = shape.groups[group];
  return !of.windowed() || alone < of.sinks ? KVC_LOST_BLOCK : KVC_LOST_WINDOW;
}

uint32_t least_group(const Shape& shape, const LostReuse& lost) {
  uint32_t least = 0;
  for (uint32_t g = 1; g < shape.num_groups; ++g) {
    if (lost.alone[g] < lost.alone[least]) least = g;
  }
  return least;
}

}  // namespace

LostCause cause_of(const Shape& shape, const LostReuse& lost) {
  const uint32_t group = least_group(shape, lost), alone = lost.alone[group];
  const bool agrees = lost.most - alone >= alone - lost.hit();
  return {static_cast<uint8_t>(group), agrees ? reason_of(shape, lost, group) : uint8_t{KVC_LOST_AGREEMENT}};
}

void count_lost(const Shape& shape, const LostReuse& lost, LostCounters* groups) {
  const uint32_t least = least_group(shape, lost);
  for (uint32_t g = 0; g < shape.num_groups; ++g) {
    const uint64_t missing = lost.most - lost.alone[g];
    const uint64_t disagreed = g == least ? lost.alone[g] - lost.hit() : 0;
    if (missing != 0) groups[g].tokens[reason_of(shape, lost, g) - 1] += missing * shape.block_size;
    groups[g].tokens[KVC_LOST_AGREEMENT - 1] += disagreed * shape.block_size;
    groups[g].admissions += missing + disagreed != 0;
  }
}

}  // namespace kvc
