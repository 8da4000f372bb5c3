// SPDX-License-Identifier: Apache-2.0
#include "manager/lost_reuse.h"

#include <kvcache/prefix.h>

#include <algorithm>

namespace kvc {

static_assert(kNumLostReasons == KVC_LOST_AGREEMENT);

namespace {

// What a hit of lost.most positions lacks in a group that reaches less. All sinks below `alone` are there, so
// one is missing exactly if `alone` is among them.
uint8_t reason_of(const Shape& shape, const LostReuse& lost, GroupIndex group) {
  const uint32_t alone = lost.alone[group];
  const GroupShape& of = shape.groups[group];
  if (of.kind == KVC_GROUP_STATE) return KVC_LOST_STATE;
  return !of.windowed() || alone < of.sinks ? KVC_LOST_BLOCK : KVC_LOST_WINDOW;
}

uint32_t least_group(const Shape& shape, const LostReuse& lost) {
  uint32_t least = 0;
  for (uint32_t g = 1; g < shape.num_token_groups; ++g) {
    if (lost.alone[g] < lost.alone[least]) least = g;
  }
  return least;
}

// The two parts of what a group has lost, in tokens.
struct Parts {
  uint64_t missing, disagreed;
};
Parts parts_of(const Shape& shape, const LostReuse& lost, uint32_t head, GroupIndex group) {
  const uint64_t hit = uint64_t{lost.most - lost.positions} * shape.block_size + head;
  const uint64_t alone = std::max<uint64_t>(uint64_t{lost.alone[group]} * shape.block_size, hit);
  return {uint64_t{lost.most} * shape.block_size - alone, alone - hit};
}

}  // namespace

LostCause cause_of(const Shape& shape, const LostReuse& lost, uint32_t head) {
  const GroupIndex group = least_group(shape, lost);
  const Parts parts = parts_of(shape, lost, head, group);
  const bool agrees = parts.missing >= parts.disagreed;
  return {static_cast<uint8_t>(group), agrees ? reason_of(shape, lost, group) : uint8_t{KVC_LOST_AGREEMENT}};
}

void count_lost(const Shape& shape, const LostReuse& lost, uint32_t head, LostCounters* groups) {
  const uint32_t least = least_group(shape, lost);
  for (uint32_t g = 0; g < shape.num_token_groups; ++g) {
    Parts parts = parts_of(shape, lost, head, g);
    if (g != least) parts.disagreed = 0;
    if (parts.missing != 0) groups[g].tokens[reason_of(shape, lost, g) - 1] += parts.missing;
    groups[g].tokens[KVC_LOST_AGREEMENT - 1] += parts.disagreed;
    groups[g].admissions += parts.missing + parts.disagreed != 0;
  }
}

}  // namespace kvc
