// SPDX-License-Identifier: Apache-2.0
// What an admission gives slots for, and the blocks that it must have room for: docs/SEMANTICS.md,
// "Admission". Admissions and both probes ask here; and what it can never do without.
#pragma once
#include <algorithm>

#include "manager/matcher.h"

namespace kvc {

struct AdmittedSlots {
  size_t length = 0;          // positions of the hit
  uint64_t cached = 0;        // tokens of the hit
  uint64_t known = 0;         // tokens
  uint64_t capacity = 0;      // tokens that get slots now
  uint64_t transfer_end = 0;  // tokens; 0 = there is no transfer
  uint64_t whole = 0;         // tokens that must fit, step by step, if they are more than get slots now
  uint64_t step = 1;          // tokens of such a step

  uint64_t most() const { return std::max(capacity, whole); }
  uint64_t step_end() const { return std::min(capacity, known); }  // of the first one
};

// What an admission has found and takes.
struct AdmissionPlan {
  AdmissionPlan(size_t num_pools, size_t rows, uint64_t step)
      : max_positions(rows), step_id(step), demand(num_pools) {}
  size_t max_positions;  // of a table
  uint64_t step_id;      // the step that admits, 0 = none does
  uint64_t behind;       // the step behind which the request runs
  Matcher::Match hit;    // positions
  Matcher::Head head;    // with which the hit goes on
  AdmittedSlots slots;
  uint64_t epoch;
  bool cross_cached = false;  // its encoder
  bool whole_blocks = false;  // no head is looked for
  Demand demand;
};

// Adds what the token groups need. In each pool that is what they hold at once at most: now, or while they
// grow to the whole. add_hit(group, position) adds the block of a hit.
template <class AddHit>
void add_demand(const Shape& shape, const AdmittedSlots& slots, AddHit add_hit, Demand* demand) {
  const size_t length = slots.length, end = shape.positions_of(slots.capacity);
  const size_t whole_end = slots.whole > slots.capacity ? shape.positions_of(slots.whole) : 0;
  for (uint32_t g = 0; g < shape.num_token_groups; ++g) {
    const GroupShape& group = shape.groups[g];
    uint64_t& blocks = demand->blocks[group.pool];
    const uint64_t others = blocks;
    const size_t first = shape.first_held(g, slots.cached, slots.transfer_end);
    for (size_t j = 0; j < length; ++j) {
      if (j >= first || j < group.sinks) add_hit(g, j);
    }
    const uint64_t hits = blocks - others;
    blocks += shape.taken(g, length, end, slots.step_end(), slots.transfer_end).count();
    if (whole_end == 0) continue;
    const uint64_t most =
        shape.most_held(g, hits, length, whole_end, slots.known, slots.transfer_end, slots.step);
    blocks = std::max(blocks, others + most);
  }
}

// A state that is hit takes a block beside the new one. Whether a pool of states never has that many, though
// nobody holds any: then only an admission without the hit fits.
template <class MostRoom>
bool outgrows_state_pools(const Shape& shape, const Demand& demand, MostRoom most_room) {
  for (const uint32_t g : bits_of(shape.state_groups)) {
    const size_t pool = shape.groups[g].pool;
    if (demand.blocks[pool] > most_room(pool)) return true;
  }
  return false;
}

// The fewest blocks of each pool without which the token groups cannot have slots for so many tokens, however
// small the steps and whatever is cached: see Shape::fewest_held(). `first`: another hit moves these tokens,
// to so many without one; 0 = none does.
inline Least least_held(const Shape& shape, uint64_t tokens, uint64_t transfer_end, uint64_t first = 0,
                        uint64_t last = 0) {
  Least least(shape.num_pools);
  for (uint32_t g = 0; g < shape.num_token_groups; ++g) {
    const bool moves = first != 0 && shape.groups[g].slides();
    least.blocks[shape.groups[g].pool] += moves ? shape.fewest_held_within(g, first, last, transfer_end != 0)
                                                : shape.fewest_held(g, tokens, transfer_end == tokens);
  }
  return least;
}

}  // namespace kvc
