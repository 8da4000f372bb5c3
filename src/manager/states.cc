// SPDX-License-Identifier: Apache-2.0
#include "manager/states.h"

#include <kvcache/prefix.h>

#include "manager/admissions.h"

namespace kvc {

uint64_t States::num_lacking(const Request& request) const {
  uint64_t count = 0;
  for (const uint32_t g : bits_of(shape_.state_groups)) {
    const GroupTable& table = request.groups[g];
    for (size_t j = table.dropped; j < request.positions; ++j) count += !is_block(table.blocks.data[j]);
  }
  return count;
}

uint64_t States::checkpoint_after(const Request& request, uint64_t committed, uint64_t junction) const {
  if (!on()) return 0;
  uint64_t next = UINT64_MAX;
  const auto consider = [&](uint64_t tokens) {
    if (tokens > committed && tokens < next) next = tokens;
  };
  consider(junction);
  consider(shortened_prompt(request));
  if (request.prompt_len != 0) consider((request.prompt_len - 1) / shape_.block_size * shape_.block_size);
  for (const uint32_t g : groups()) {
    const uint64_t retention = shape_.groups[g].retention;
    if (retention != 0) consider((committed / retention + 1) * retention);
  }
  return next <= shape_.max_request_tokens ? next : 0;
}

// If the pools can never have what a hit of states takes, only an admission without one fits.
kvc_status States::refine(const Request& request, Admissions& admissions, AdmissionPlan* plan) const {
  if (plan->hit.length == 0 || !outgrows_state_pools(shape_, plan->demand, [&](size_t p) {
        return blocks_.room.most_room(request.ns, p);
      }))
    return KVC_OK;
  KVC_TRY(admissions.find(request, 0, plan));
  admissions.plan_blocks(request, plan);
  return KVC_OK;
}

void States::tell(const Request& request, const AdmissionPlan& plan, kvc_probe_info* info) const {
  if (!publishes(request)) return;
  info->next_checkpoint = checkpoint_after(request, plan.slots.cached, plan.hit.junction * shape_.block_size);
}

// Whether the state after `committed` tokens has a block in each state group.
kvc_status States::check_commit(const Request& request, uint32_t committed) const {
  if (committed == request.committed) return KVC_OK;
  const size_t position = shape_.by_block.divide(committed - 1);
  for (const uint32_t g : groups()) {
    const BlockId* const blocks = request.groups[g].blocks.data;
    if (is_block(blocks[position])) continue;
    size_t next = position;  // the last position has a block
    while (!is_block(blocks[next])) ++next;
    const uint64_t first = next * shape_.block_size + 1;
    return invalid(
        "cannot commit %u tokens: state group %u has no block for the state after them; slots were given for "
        "a step that ends at %llu tokens or behind: commit there, or give slots for shorter steps",
        committed, g, ull(first));
  }
  return KVC_OK;
}

// Not if no commit can end there.
bool States::opens_lane(const Request& request) const {
  for (const uint32_t g : groups()) {
    const GroupTable& table = request.groups[g];
    if (!is_block(table.blocks.data[table.dropped])) return false;
  }
  return true;
}

// If a step that ended at the last token kept would find no block, those of the committed ones.
void States::keep_slots(const Request& request, uint32_t tokens, uint32_t* slots) const {
  const size_t positions = shape_.positions_of(tokens);
  if (tokens == 0 || positions > request.positions) return;
  for (const uint32_t g : groups()) {
    if (!is_block(request.groups[g].blocks.data[positions - 1])) *slots = request.committed;
  }
}

// A fork gets states of its own, which are copied.
kvc_status States::reserve_fork(const Request& parent, Request&) {
  if (!goes_on_inside(parent)) return KVC_OK;
  Demand demand(shape_.num_pools);
  int copies = 0;
  for (const uint32_t g : groups()) ++demand.blocks[shape_.groups[g].pool], ++copies;
  if (const kvc_status status = blocks_.room.check_room(demand, parent.ns, 0, "the fork"); status != KVC_OK)
    return blocks_.room.refused(status, Least(shape_.num_pools), parent.ns, "the fork");
  if (copies_.reserve(static_cast<size_t>(copies))) return KVC_OK;
  return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the copies of %d states", copies);
}

// The child's hold of the parent's state goes over to the copy.
void States::forked(const Request& parent, Request& child) {
  if (!goes_on_inside(parent)) return;
  for (const uint32_t g : groups()) {
    BlockId& state = child.groups[g].blocks.data[shape_.by_block.divide(parent.committed)];
    const BlockId destination = blocks_.take_copy(g, parent.ns, true);
    copies_.list().add(state, destination);
    ++counters_.copies;
    state = destination;
  }
}

}  // namespace kvc
