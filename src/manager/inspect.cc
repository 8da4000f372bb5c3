// SPDX-License-Identifier: Apache-2.0
// Reports about requests, pools and blocks.
#include "manager/guard.h"

namespace kvc {

kvc_status Manager::request_info(uint64_t id, kvc_request_info* info) {
  const std::lock_guard lock(mutex_);
  Request* request = nullptr;
  KVC_TRY(find_request(id, false, &request));
  info->namespace_id = namespaces_.id(request->ns);
  info->user_data = request->user_data;
  info->num_tokens = request->known;
  info->num_committed = request->committed;
  info->num_cached = request->num_cached;
  info->capacity = request->capacity;
  info->num_blocks = 0;
  for (size_t g = 0; g < shape_.num_groups; ++g) {
    for (size_t j = 0; j < request->positions; ++j)
      info->num_blocks += is_block(request->groups[g].blocks.data[j]);
  }
  info->lost_reuse_tokens = request->lost;
  info->min_truncate_tokens = request->known == 0 ? 0
                              : request->admitted ? restorable(*request, 1).higher
                                                  : 1;
  info->admitted = request->admitted;
  info->flags = request->flags;
  return KVC_OK;
}

kvc_status Manager::list_requests(uint64_t* ids, size_t capacity, size_t* count) {
  const std::lock_guard lock(mutex_);
  size_t live = 0;
  for (size_t i = 0; i < requests_.size(); ++i) live += requests_.at(i).id != 0;
  *count = live;
  if (live > capacity) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "%zu requests exist, the array has room for %zu", live, capacity);
  }
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_.at(i).id != 0) *ids++ = requests_.at(i).id;
  }
  return KVC_OK;
}

kvc_status Manager::pool_info(uint32_t pool, kvc_pool_info* info) {
  const std::lock_guard lock(mutex_);
  const PoolCounts& counts = pool_.counts(pool);
  const bool null_block = pool == 0 && (shape_.flags & KVC_MANAGER_NULL_BLOCK) != 0;
  info->first_block = counts.first - null_block;
  info->num_blocks = counts.size;
  info->free = counts.free + counts.stale;
  info->cached = counts.lru - counts.stale;
  info->reserved = counts.reserved;
  info->pinned = counts.pinned;
  info->live = counts.held() - counts.reserved - counts.pinned;
  info->filling = 0;
  info->fenced = counts.fenced;
  return KVC_OK;
}

kvc_status Manager::block_info(int32_t id, kvc_block_info* info) {
  const std::lock_guard lock(mutex_);
  if (!pool_.exists(id)) {
    return fail(KVC_ERROR_INVALID_ARGUMENT, "no block %d; ids end at %llu", id,
                static_cast<unsigned long long>(pool_.num_ids() - 1));
  }
  const Block& block = pool_[BlockId{id}];
  const bool published = is_node(block.node) && !tree_.stale(tree_[block.node]);
  switch (block.list) {
    case List::kFree:
      info->state = KVC_BLOCK_FREE;
      break;
    case List::kLru:
      info->state = published ? KVC_BLOCK_CACHED : KVC_BLOCK_FREE;
      break;
    case List::kFenced:
      info->state = KVC_BLOCK_FENCED;
      break;
    case List::kHeld:
      info->state = block.refs == 0 && block.external == 0 ? KVC_BLOCK_PINNED
                    : block.written != 0                   ? KVC_BLOCK_LIVE
                                                           : KVC_BLOCK_RESERVED;
  }
  info->pool = block.pool;
  info->requests = block.refs;
  info->external_holds = block.external;
  info->pins = block.pins;
  info->published = published;
  info->num_copies = published ? static_cast<uint32_t>(tree_.num_copies(BlockId{id})) : 0;
  info->token_offset = published ? uint64_t{tree_[block.node].depth} * shape_.block_size : 0;
  info->group = block.group == UINT8_MAX ? -1 : block.group;
  return KVC_OK;
}

}  // namespace kvc
