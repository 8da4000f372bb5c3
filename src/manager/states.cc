// SPDX-License-Identifier: Apache-2.0
// Recurrent states: which positions of a table have a block, which of them are worth keeping, and forks,
// which need a state of their own. docs/SEMANTICS.md, "State groups".
#include <algorithm>

#include "manager/requests.h"

namespace kvc {

// Takes the blocks that positions [begin, end) of a table get.
void Requests::take_blocks(Request& request, uint32_t group, size_t begin, size_t end, uint64_t step_end,
                           uint64_t transfer_end) {
  BlockId* const blocks = request.groups[group].blocks.data;
  const Shape::Taken taken = shape_.taken(group, begin, end, step_end, transfer_end);
  for (size_t j = begin; j < taken.first; ++j) blocks[j] = kNoBlock;
  if (taken.few_begin != taken.few_end) [[unlikely]]
    blocks_.take(group, request.ns, taken.few_end - taken.few_begin, blocks + taken.few_begin);
  blocks_.take(group, request.ns, end - taken.first, blocks + taken.first);
}

// Whether the state after `committed` tokens has a block in each state group.
kvc_status Requests::check_states(const Request& request, uint32_t committed) const {
  if (committed == request.committed) return KVC_OK;
  for (uint32_t states = shape_.state_groups; states != 0; states &= states - 1) {
    const auto g = static_cast<uint32_t>(__builtin_ctz(states));
    const BlockId* const blocks = request.groups[g].blocks.data;
    const size_t position = shape_.by_block.divide(committed - 1);
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

// The tokens of a state that a hit of the whole prompt needs once its tail is dropped; 0 = none.
uint64_t Requests::shortened_prompt(const Request& request) const {
  const uint64_t blocks = request.prompt_len == 0 ? 0 : (request.prompt_len - 1) / shape_.block_size;
  if (request.drop_tail_blocks == 0 || blocks <= request.drop_tail_blocks) return 0;
  return (blocks - request.drop_tail_blocks) * shape_.block_size;
}

// Whether a window's block that leaves a table may serve a later hit.
bool Requests::serves_later(const Request& request, uint32_t group, size_t position) const {
  if (shape_.serves_boundary(group, request.prompt_len, position)) return true;
  if ((shape_.state_groups >> group & 1) == 0) return false;
  const uint64_t end = (position + 1) * shape_.block_size;
  return end == request.junction || end == shortened_prompt(request);
}

// How such a block is kept. Of a window or a chunk, what only hits need that end far before the prompt's end,
// and far before the end of this request's hit, or of what one group alone could have hit, leaves first.
Keep Requests::keep_of(const Request& request, uint32_t group, size_t position) const {
  if (!serves_later(request, group, position)) return Keep::kNot;
  if ((shape_.state_groups >> group & 1) != 0 || position < shape_.groups[group].sinks)
    return Keep::kPublished;
  if (position >= first_near(group, request.prompt_len)) return Keep::kPublished;
  const uint64_t hit = own_hit(request);
  const bool near = position < hit / shape_.block_size && position >= first_near(group, hit);
  return near ? Keep::kPublished : Keep::kFirstOut;
}

Requests::NearEnds Requests::near_ends(const Request& request, uint32_t group) const {
  const uint64_t hit = own_hit(request);
  return {first_near(group, request.prompt_len), first_near(group, hit), hit / shape_.block_size};
}

uint64_t Requests::next_checkpoint(const Request& request) const {
  if (!request.admitted || request.next_full == UINT32_MAX || stale(request)) return 0;  // publishes nothing
  return checkpoint_after(request, request.committed, request.junction);
}

uint64_t Requests::checkpoint_after(const Request& request, uint64_t committed, uint64_t junction) const {
  if (shape_.state_groups == 0) return 0;
  uint64_t next = UINT64_MAX;
  const auto consider = [&](uint64_t tokens) {
    if (tokens > committed && tokens < next) next = tokens;
  };
  consider(junction);
  consider(shortened_prompt(request));
  if (request.prompt_len != 0) consider((request.prompt_len - 1) / shape_.block_size * shape_.block_size);
  for (uint32_t states = shape_.state_groups; states != 0; states &= states - 1) {
    const uint64_t retention = shape_.groups[__builtin_ctz(states)].retention;
    if (retention != 0) consider((committed / retention + 1) * retention);
  }
  return next <= shape_.max_request_tokens ? next : 0;
}

// Slots that `tokens` tokens keep: if a step that ended there would find no block, those of the committed
// ones.
uint32_t Requests::slots_left(const Request& request, uint32_t tokens) const {
  const size_t positions = shape_.positions_of(tokens);
  if (tokens == 0 || positions > request.positions) return tokens;
  for (uint32_t states = shape_.state_groups; states != 0; states &= states - 1) {
    if (!is_block(request.groups[__builtin_ctz(states)].blocks.data[positions - 1])) return request.committed;
  }
  return tokens;
}

// State groups whose block the request's next step overwrites: all, unless its tokens end with a block.
uint32_t Requests::states_inside(const Request& request) const {
  return shape_.by_block.remainder(request.committed) != 0 ? shape_.state_groups : 0;
}

// Whether a fork gets the states that it needs, and room in the list of copies.
kvc_status Requests::check_fork_states(const Request& parent) {
  const uint32_t copied = states_inside(parent);
  if (copied == 0) return KVC_OK;
  Demand demand(shape_.num_pools);
  for (uint32_t states = copied; states != 0; states &= states - 1)
    ++demand.blocks[shape_.groups[__builtin_ctz(states)].pool];
  if (const kvc_status status = blocks_.room().check_room(demand, parent.ns, 0, "the fork"); status != KVC_OK)
    return refused(parent, status, Least(shape_.num_pools), "the fork");
  if (reserve_copies(static_cast<size_t>(__builtin_popcount(copied)))) return KVC_OK;
  return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the copies of %d states", __builtin_popcount(copied));
}

void Requests::copy_state(const Request& parent, Request& child, uint32_t group) {
  const size_t position = shape_.by_block.divide(parent.committed);
  const BlockId source = parent.groups[group].blocks.data[position];
  const BlockId destination = blocks_.take_copy(group, parent.ns, true);
  blocks_.share(source);
  copies_.out[copies_.count++] = {raw(source), raw(destination)};
  ++counters_.copies;
  child.groups[group].blocks.data[position] = destination;
}

}  // namespace kvc
