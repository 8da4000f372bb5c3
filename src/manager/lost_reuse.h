// SPDX-License-Identifier: Apache-2.0
// Why reuse was lost: how far each group alone would have reached, against how far all reach together.
#pragma once
#include "manager/shape.h"

namespace kvc {

// What a match has lost, in positions. All but `positions` means something only if that is not 0.
struct LostReuse {
  uint32_t positions;  // most - the hit
  uint32_t most;       // the longest of `alone`
  uint32_t alone[kMaxGroups];
};

// Tokens of what is lost that a head of so many tokens behind a hit of `length` positions gives back: none if
// an extra key has cut the hit short of what the groups have in common.
inline uint32_t regained_tokens(const LostReuse& lost, size_t length, uint32_t head) {
  return lost.positions != 0 && length == lost.most - lost.positions ? head : 0;
}

// The group that reaches least, the first of equal ones, and the larger part of what is lost: what it lacks,
// or that the groups do not agree on an end. Of a match that has lost something. `head`: the tokens
// of it that partial reuse gives back.
struct LostCause {
  uint8_t group, reason;  // KVC_LOST_*
};
LostCause cause_of(const Shape& shape, const LostReuse& lost, uint32_t head);

inline constexpr uint32_t kNumLostReasons = 4;  // KVC_LOST_* of a match

// What first admissions have lost by a group.
struct LostCounters {
  uint64_t admissions;
  uint64_t tokens[kNumLostReasons];  // by KVC_LOST_* - 1

  uint64_t total() const {
    uint64_t sum = 0;
    for (const uint64_t count : tokens) sum += count;
    return sum;
  }
};
// Adds such a match.
void count_lost(const Shape& shape, const LostReuse& lost, uint32_t head, LostCounters* groups);

}  // namespace kvc
