// SPDX-License-Identifier: Apache-2.0
// External blocks, for engines that keep their own tables: acquire, look up, publish, release. External holds
// are counted apart from requests' references. While a block is held its fence field is free: it serves here
// to count a block's entries in one call.
#include "manager/guard.h"

namespace kvc {

kvc_status Manager::acquire_blocks(uint32_t group, int32_t* blocks, size_t num_blocks) {
  const Guard lock(*this);
  Demand demand(shape_.num_pools);
  demand.blocks[shape_.groups[group].pool] = num_blocks;
  KVC_TRY(shortage(demand, 0, "acquire_blocks"));
  constexpr size_t kPiece = 64;
  for (size_t done = 0; done < num_blocks; done += kPiece) {
    BlockId taken[kPiece];
    const size_t count = num_blocks - done < kPiece ? num_blocks - done : kPiece;
    take_blocks(group, kNoNamespace, count, taken);
    for (size_t i = 0; i < count; ++i) {
      Block& block = pool_[taken[i]];
      block.refs = 0;
      block.external = 1;
      blocks[done + i] = raw(taken[i]);
    }
  }
  return KVC_OK;
}

kvc_status Manager::acquire_prefix(uint64_t namespace_id, uint32_t group, const TokenSpan& tokens,
                                   int32_t* blocks, size_t capacity, size_t* count) {
  LookupScratch scratch(*this, namespace_id, tokens);
  KVC_TRY(scratch.status());
  const Guard lock(*this);
  Prompt prompt;
  KVC_TRY(scratch.look(&prompt));
  const size_t limit = shape_.caches() ? scratch.num_blocks() : 0;
  const size_t length = match(prompt, limit, 1u << group, 0, scratch.path(), scratch.residents(), nullptr);
  if (length > capacity) {
    *count = length;
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "the prefix has %zu blocks, the array room for %zu", length,
                capacity);
  }
  for (size_t j = 0; j < length; ++j) {
    if (needs_position(group, j, length) &&
        pool_[tree_.block_of(scratch.path()[j], group)].external == UINT16_MAX) {
      return fail(KVC_ERROR_LIMIT, "position %zu of this prefix has %d external holds; release some", j,
                  UINT16_MAX);
    }
  }
  for (size_t j = 0; j < length; ++j) {
    blocks[j] = -1;
    if (!needs_position(group, j, length)) continue;
    const BlockId block = tree_.block_of(scratch.path()[j], group);
    hit(block);
    pool_.add_external(pool_[block]);
    blocks[j] = raw(block);
  }
  *count = length;
  return KVC_OK;
}

kvc_status Manager::check_external_blocks(const int32_t* blocks, size_t num_blocks) {
  for (size_t i = 0; i < num_blocks; ++i) {
    if (blocks[i] == -1) continue;
    if (!pool_.exists(blocks[i])) {
      return fail(KVC_ERROR_INVALID_ARGUMENT, "entry %zu: no block %d; ids end at %llu", i, blocks[i],
                  static_cast<unsigned long long>(pool_.num_ids() - 1));
    }
    Block& block = pool_[BlockId{blocks[i]}];
    if (block.external == 0)
      return fail(KVC_ERROR_NOT_HELD, "entry %zu: block %d has no external hold", i, blocks[i]);
    block.fence = 0;
  }
  return KVC_OK;
}

kvc_status Manager::publish_blocks(uint64_t namespace_id, uint32_t group, const TokenSpan& tokens,
                                   const int32_t* blocks, size_t num_blocks) {
  if (num_blocks > tokens.num_tokens / shape_.block_size) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "%zu blocks need %zu tokens, only %zu are given", num_blocks,
                num_blocks * shape_.block_size, tokens.num_tokens);
  }
  LookupScratch scratch(*this, namespace_id, tokens);
  KVC_TRY(scratch.status());
  while (num_blocks != 0 && blocks[num_blocks - 1] == -1) --num_blocks;  // they publish nothing
  const Guard lock(*this);
  Prompt prompt;
  KVC_TRY(scratch.look(&prompt));
  KVC_TRY(check_external_blocks(blocks, num_blocks));
  const size_t known = tree_.walk(prompt, num_blocks, 0, scratch.path());
  for (size_t j = 0; j < num_blocks; ++j) {
    if (blocks[j] == -1) continue;
    Block& block = pool_[BlockId{blocks[j]}];
    if (block.pool != shape_.groups[group].pool) {
      return fail(KVC_ERROR_INVALID_ARGUMENT,
                  "entry %zu: block %d is of pool %d, group %u takes from pool %u", j, blocks[j], block.pool,
                  group, shape_.groups[group].pool);
    }
    if (++block.fence > 1)
      return fail(KVC_ERROR_INVALID_ARGUMENT, "entry %zu: block %d stands twice", j, blocks[j]);
    if (!is_node(block.node) || tree_.stale(tree_[block.node])) {
      if (block.refs == 0) continue;
      return fail(KVC_ERROR_BUSY, "entry %zu: block %d is held by %u requests as well", j, blocks[j],
                  block.refs);
    }
    const bool same = j < known && block.node == scratch.path()[j] && block.group == group;
    if (!same)
      return fail(KVC_ERROR_BUSY, "entry %zu: block %d is published under another identity", j, blocks[j]);
  }
  if (!shape_.caches()) return KVC_OK;
  size_t room = tree_.free_nodes();
  if (num_blocks - known > room) {  // some may be dead, but not reclaimed yet
    const NodeId kept = known == 0 ? kNoNode : scratch.path()[known - 1];  // though it be dead
    tree_.hold(kept);
    room += tree_.count_dead(num_blocks - known - room);
    tree_.release(kept);
  }
  if (num_blocks - known > room) {
    return fail(KVC_ERROR_LIMIT, "%zu new prefix positions, %zu nodes left; raise max_nodes",
                num_blocks - known, room);
  }
  ExtraRecords extras(arena_, tokens.keys, tokens.num_keys, 0, num_blocks, shape_.block_size);
  if (!extras.ok())
    return fail(KVC_ERROR_OUT_OF_MEMORY, "no memory for the extra keys of %zu blocks", num_blocks);

  NodeId parent = root_of(prompt.ns);
  for (size_t j = 0; j < num_blocks; ++j) {
    const NodeId node = tree_.publish_position(
        parent, prompt.hashes[j], prompt.tokens + j * shape_.block_size, extras, j, prompt.ns, prompt.epoch);
    if (!is_node(node)) break;  // nodes were counted above
    tree_.hold(node);           // a position without a block would die with the next orphan's burial
    tree_.release(parent);
    parent = node;
    if (blocks[j] == -1) continue;
    const BlockId id{blocks[j]};
    Block& block = pool_[id];
    if (block.node == node) continue;
    if (is_node(block.node)) tree_.detach(id);  // of an epoch that is over
    if (zeroing_.on()) zeroing_.set_owner(id, namespaces_.id(prompt.ns));
    block.group = static_cast<uint8_t>(group);
    pool_.mark_written(block);
    tree_.attach(node, group, id);
  }
  tree_.release(parent);
  return KVC_OK;
}

kvc_status Manager::release_blocks(const int32_t* blocks, size_t num_blocks) {
  const Guard lock(*this);
  KVC_TRY(check_external_blocks(blocks, num_blocks));
  for (size_t i = 0; i < num_blocks; ++i) {
    if (blocks[i] == -1) continue;
    Block& block = pool_[BlockId{blocks[i]}];
    if (++block.fence > block.external) {
      return fail(KVC_ERROR_NOT_HELD, "entry %zu: block %d has %d external holds, this would release more", i,
                  blocks[i], block.external);
    }
  }
  for (size_t i = num_blocks; i-- > 0;) {
    if (blocks[i] == -1) continue;
    const BlockId id{blocks[i]};
    Block& block = pool_[id];
    // A block that is not published now may hold anything that its holder wrote, even if it was published
    // before.
    if (zeroing_.on() && (!is_node(block.node) || tree_.stale(tree_[block.node])))
      zeroing_.set_owner(id, Zeroing::kExternal);
    if (pool_.drop_external(block)) place(id);
  }
  return KVC_OK;
}

}  // namespace kvc
