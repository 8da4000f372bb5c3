// SPDX-License-Identifier: Apache-2.0
#include "manager/external.h"

namespace kvc {

kvc_status ExternalBlocks::acquire(GroupIndex group, int32_t* blocks, size_t num_blocks) {
  Demand demand(shape_.num_pools);
  Least least(shape_.num_pools);
  demand.blocks[shape_.groups[group].pool] = least.blocks[shape_.groups[group].pool] = num_blocks;
  constexpr const char* kWho = "acquire_blocks";
  if (const kvc_status status = blocks_.room.check_room(demand, kNoNamespace, 0, kWho); status != KVC_OK)
    return blocks_.room.refusal(status, least, kNoNamespace, kWho);
  constexpr size_t kPiece = 64;
  for (size_t done = 0; done < num_blocks; done += kPiece) {
    BlockId taken[kPiece];
    const size_t count = num_blocks - done < kPiece ? num_blocks - done : kPiece;
    blocks_.take_external(group, count, taken);
    for (size_t i = 0; i < count; ++i) blocks[done + i] = raw(taken[i]);
  }
  return KVC_OK;
}

kvc_status ExternalBlocks::acquire_prefix(LookupScratch& scratch, GroupIndex group, int32_t* blocks,
                                          size_t capacity, size_t* count) {
  KVC_TRY(check_token_group(group));
  Prompt prompt;
  size_t length;
  KVC_TRY(scratch.match(blocks_.caches() ? SIZE_MAX : 0, 1u << group, &prompt, &length));
  if (length > capacity) {
    *count = length;
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the prefix has %zu blocks, the array room for %zu", length,
                capacity);
  }
  Demand demand(shape_.num_pools);
  for (size_t j = 0; j < length; ++j) {
    if (!matcher_.needs_position(group, j, length)) continue;
    const Block& block = blocks_.pool()[blocks_.tree().block_of(scratch.path()[j], group)];
    if (block.external == UINT16_MAX) {
      return fail(KVC_ERROR_LIMIT, "position %zu of this prefix has %d external holds; release some", j,
                  UINT16_MAX);
    }
    demand.add_hit(block);
  }
  KVC_TRY(blocks_.room.check_hold(demand, prompt.ns, "acquire_prefix"));
  for (size_t j = 0; j < length; ++j) {
    blocks[j] = -1;
    if (!matcher_.needs_position(group, j, length)) continue;
    const BlockId block = blocks_.tree().block_of(scratch.path()[j], group);
    blocks_.hold_external(block);
    blocks[j] = raw(block);
  }
  blocks_.cached.use(scratch.path(), length);
  *count = length;
  return KVC_OK;
}

// All blocks must be held; their entries can be counted then.
kvc_status ExternalBlocks::begin_entries(const int32_t* blocks, size_t num_blocks) {
  for (size_t i = 0; i < num_blocks; ++i) {
    KVC_TRY(check_exists(blocks, i));
    if (blocks[i] == -1) continue;
    const BlockId id{blocks[i]};
    if (blocks_.pool()[id].external == 0)
      return fail(KVC_ERROR_NOT_HELD, "entry %zu: block %d has no external hold", i, blocks[i]);
    blocks_.positions.begin_entries(id);
  }
  return KVC_OK;
}

kvc_status ExternalBlocks::check_publication(GroupIndex group, const int32_t* blocks, size_t num_blocks,
                                             const NodeId* path, size_t known) {
  const PoolIndex pool = shape_.groups[group].pool;
  for (size_t j = 0; j < num_blocks; ++j) {
    if (blocks[j] == -1) continue;
    const BlockId id{blocks[j]};
    const Block& block = blocks_.pool()[id];
    if (block.pool != pool) {
      return invalid("entry %zu: block %d is of pool %d, group %u takes from pool %u", j, blocks[j],
                     block.pool, raw(group), raw(pool));
    }
    if (blocks_.positions.count_entry(id) > 1)
      return invalid("entry %zu: block %d is in the list twice", j, blocks[j]);
    if (!is_node(block.node) || blocks_.tree().stale(blocks_.tree()[block.node])) {
      if (block.refs == 0) continue;
      return fail(KVC_ERROR_BUSY, "entry %zu: block %d is held by %u requests as well", j, blocks[j],
                  block.refs);
    }
    if (j >= known || block.node != path[j] || block.group != group)
      return fail(KVC_ERROR_BUSY, "entry %zu: block %d is published under another identity", j, blocks[j]);
  }
  return KVC_OK;
}

kvc_status ExternalBlocks::publish(LookupScratch& scratch, GroupIndex group, const int32_t* blocks,
                                   size_t num_blocks) {
  KVC_TRY(check_token_group(group));
  while (num_blocks != 0 && blocks[num_blocks - 1] == -1) --num_blocks;  // they publish nothing
  Prompt prompt;
  KVC_TRY(scratch.look(&prompt));
  KVC_TRY(begin_entries(blocks, num_blocks));
  const NodeId* path = scratch.path();
  const size_t known = blocks_.tree().walk(prompt, num_blocks, 0, scratch.path());
  KVC_TRY(check_publication(group, blocks, num_blocks, path, known));
  if (!blocks_.caches()) return KVC_OK;
  KVC_TRY(blocks_.shares.check_publication(prompt.ns, blocks, num_blocks));
  const size_t wanted = num_blocks - known;
  const size_t room = blocks_.positions.room_for_positions(wanted, known == 0 ? kNoNode : path[known - 1]);
  if (room < wanted) {
    return fail(KVC_ERROR_LIMIT, "%zu new prefix positions, %zu nodes left; raise max_nodes", wanted, room);
  }
  ExtraRecords extras(arena_, prompt.keys, 0, num_blocks, shape_.block_size);
  if (!extras.ok())
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the extra keys of %zu blocks", num_blocks);
  blocks_.positions.publish_external(prompt, group, blocks, num_blocks, extras);
  return KVC_OK;
}

kvc_status ExternalBlocks::release(const int32_t* blocks, size_t num_blocks) {
  KVC_TRY(begin_entries(blocks, num_blocks));
  for (size_t i = 0; i < num_blocks; ++i) {
    if (blocks[i] == -1) continue;
    const BlockId id{blocks[i]};
    const uint32_t holds = blocks_.pool()[id].external;
    if (blocks_.positions.count_entry(id) > holds) {
      return fail(KVC_ERROR_NOT_HELD, "entry %zu: block %d has %u external holds, this would release more", i,
                  blocks[i], holds);
    }
  }
  for (size_t i = num_blocks; i-- > 0;) {
    if (blocks[i] != -1) blocks_.release_external(BlockId{blocks[i]});
  }
  return KVC_OK;
}

kvc_status ExternalBlocks::unpublish(const int32_t* blocks, size_t num_blocks, uint64_t* num_unpublished) {
  for (size_t i = 0; i < num_blocks; ++i) KVC_TRY(check_exists(blocks, i));
  *num_unpublished = 0;
  for (size_t i = 0; i < num_blocks; ++i)
    *num_unpublished += blocks[i] != -1 && blocks_.positions.unpublish(BlockId{blocks[i]});
  if (*num_unpublished != 0) blocks_.lineages().end();
  return KVC_OK;
}

}  // namespace kvc
