// SPDX-License-Identifier: Apache-2.0
// Reports about requests, pools and blocks, and exports of tables and slots.
#include <kvcache/prefix.h>
#include <kvcache/quota.h>

#include "manager/state_reader.h"

namespace kvc {

kvc_status StateReader::request_info(uint64_t id, kvc_request_info* info) const {
  const Request* request = nullptr;
  KVC_TRY(find(id, &request));
  info->namespace_id = namespaces().id(request->ns);
  info->user_data = request->user_data;
  info->num_tokens = request->known;
  info->num_committed = request->committed;
  info->num_cached = request->num_cached;
  info->capacity = request->capacity;
  info->num_blocks = 0;
  for (size_t g = 0; g < shape.num_token_groups && request->admitted; ++g) {
    const GroupTable& table = request->groups[g];
    info->num_blocks += request->positions - table.num_dropped(shape.groups[g].sinks);
  }
  const States& states = requests.features.get<States>();
  info->num_blocks -= states.num_lacking(*request);
  info->num_blocks += uint64_t{request->cross_positions} * (shape.num_groups - shape.num_token_groups);
  info->lost_reuse_tokens = request->lost;
  info->lost_group = request->lost_group;
  info->lost_reason = request->lost_reason;
  info->min_truncate_tokens = request->known == 0 ? 0
                              : request->admitted ? requests.returns.restorable(*request, 1).higher
                                                  : 1;
  info->admitted = request->admitted;
  info->flags = request->flags;
  info->next_checkpoint = states.next_checkpoint(*request);
  info->cross_tokens = request->cross_tokens;
  info->num_cross_cached = request->cross_cached ? request->cross_tokens : 0;
  return KVC_OK;
}

namespace {

// Writes the ids that each(write) passes to `write`, or says how many there are.
template <typename Each>
kvc_status list(const char* what, const Each& each, uint64_t* ids, size_t capacity, size_t* count) {
  size_t number = 0;
  each([&](uint64_t) { ++number; });
  *count = number;
  if (number > capacity)
    return fail(KVC_ERROR_BUFFER_TOO_SMALL, "%zu %s exist, the array has room for %zu", number, what,
                capacity);
  each([&](uint64_t id) { *ids++ = id; });
  return KVC_OK;
}

}  // namespace

kvc_status StateReader::list_requests(uint64_t* ids, size_t capacity, size_t* count) const {
  const auto each = [this](auto&& write) {
    each_request([&](size_t, const Request& request) {
      if (!request.building) write(request.id);
    });
  };
  return list("requests", each, ids, capacity, count);
}

kvc_status StateReader::list_pins(uint64_t* ids, size_t capacity, size_t* count) const {
  const auto each = [this](auto&& write) { each_pin([&](size_t, const Pin& pin) { write(pin.id); }); };
  return list("pins", each, ids, capacity, count);
}

kvc_status StateReader::list_namespaces(uint64_t* ids, size_t capacity, size_t* count) const {
  const auto each = [this](auto&& write) {
    for (uint32_t i = 1; i < namespaces().size(); ++i) {
      if (namespaces()[i].opens != 0) write(namespaces().id(i));
    }
  };
  return list("namespaces", each, ids, capacity, count);
}

kvc_status StateReader::list_prompts(char* names, size_t capacity, size_t* size) const {
  size_t needed = 0;
  prompts.each([&](size_t, const RegisteredPrompt& prompt) { needed += prompt.name_size + 1; });
  *size = needed;
  if (needed > capacity) {
    return fail(KVC_ERROR_BUFFER_TOO_SMALL,
                "the names of %zu prompts take %zu bytes, the array has room for %zu", prompts.count(),
                needed, capacity);
  }
  prompts.each([&](size_t, const RegisteredPrompt& prompt) {
    std::memcpy(names, prompt.name.data, prompt.name_size);
    names += prompt.name_size;
    *names++ = 0;
  });
  return KVC_OK;
}

kvc_status StateReader::pool_info(uint32_t p, kvc_pool_info* info) const {
  const PoolCounts& counts = pool().counts(p);
  info->first_block = counts.first - shape.null_blocks(p);
  info->max_blocks = shape.pool_room[p];
  info->num_blocks = counts.size;
  info->free = counts.free + counts.stale;
  info->cached = counts.lru - counts.stale;
  info->reserved = counts.reserved;
  info->pinned = counts.pinned;
  info->live = counts.held() - counts.reserved - counts.pinned - counts.filling;
  info->filling = counts.filling;
  info->fenced = counts.fenced;
  return KVC_OK;
}

kvc_status StateReader::lost_reuse(GroupIndex group, kvc_lost_reuse* info) const {
  const LostCounters& lost = requests.admissions.lost(group);
  info->admissions = lost.admissions;
  info->block_tokens = lost.tokens[KVC_LOST_BLOCK - 1];
  info->window_tokens = lost.tokens[KVC_LOST_WINDOW - 1];
  info->state_tokens = lost.tokens[KVC_LOST_STATE - 1];
  info->agreement_tokens = lost.tokens[KVC_LOST_AGREEMENT - 1];
  info->node_tokens = requests.publications.node_tokens();
  return KVC_OK;
}

kvc_status StateReader::quota_info(uint64_t namespace_id, PoolIndex p, kvc_quota_info* info) const {
  NamespaceId ns{};
  KVC_TRY(blocks.namespace_blocks.find_share(namespace_id, &ns));
  const Quotas& quotas = blocks.quotas();
  const Quotas::Share& share = quotas.share(blocks.shares.class_of(ns), p);
  const Quotas::Tenant& tenant = quotas.tenant(blocks.shares.class_of(ns));
  info->min_blocks = share.min;
  info->max_blocks = share.max == Quotas::kNoMaximum ? 0 : share.max;
  info->held = share.held - share.fenced;
  info->cached = share.cached;
  info->fenced = share.fenced;
  info->available = blocks.room.available(ns, p);
  info->refusals = share.refusals;
  info->block_queries = tenant.block_queries;
  info->block_hits = tenant.block_hits;
  return KVC_OK;
}

kvc_status StateReader::block_info(int32_t id, kvc_block_info* info) const {
  if (!pool().exists(id)) {
    return invalid("no block %d; ids end at %llu, kvc_manager_pool_info tells which are blocks now", id,
                   ull(pool().num_ids() - 1));
  }
  const Block block = pool().read(BlockId{id});
  const bool published = is_node(block.node) && !tree().stale(tree()[block.node]);
  info->state = block.list == List::kFenced              ? KVC_BLOCK_FENCED
                : block.list == List::kLru && published  ? KVC_BLOCK_CACHED
                : block.list != List::kHeld              ? KVC_BLOCK_FREE
                : block.refs == 0 && block.external == 0 ? KVC_BLOCK_PINNED
                : block.content == Content::kWritten     ? KVC_BLOCK_LIVE
                : block.content == Content::kFilling     ? KVC_BLOCK_FILLING
                                                         : KVC_BLOCK_RESERVED;
  info->pool = block.pool;
  info->requests = block.refs;
  info->external_holds = block.external;
  info->pins = block.pins;
  info->published = published;
  info->num_copies = published ? static_cast<uint32_t>(tree().copies().count(BlockId{id})) : 0;
  info->token_offset = published ? uint64_t{tree()[block.node].depth} * shape.block_size : 0;
  info->group = block.group == UINT8_MAX ? -1 : block.group;
  return KVC_OK;
}

kvc_status StateReader::export_tables(const uint64_t* ids, size_t num_ids, GroupIndex group, int32_t fill_id,
                                      int32_t* tables, size_t row_stride) const {
  for (size_t i = 0; i < num_ids; ++i) {
    const Request* request = nullptr;
    KVC_TRY(find(ids[i], &request));
    if (const uint32_t positions = positions_in(shape, *request, group); positions > row_stride) {
      return fail(KVC_ERROR_BUFFER_TOO_SMALL, "request %zu has a table of %u blocks, rows have room for %zu",
                  i, positions, row_stride);
    }
  }
  for (size_t i = 0; i < num_ids; ++i) {
    const Request& request = *requests.table().find(ids[i]);
    const BlockId* entries = request.groups[group].blocks.data;
    int32_t* row = tables + i * row_stride;
    const size_t positions = positions_in(shape, request, group);
    for (size_t j = 0; j < positions; ++j) row[j] = is_block(entries[j]) ? raw(entries[j]) : fill_id;
    for (size_t j = positions; j < row_stride; ++j) row[j] = fill_id;
  }
  return KVC_OK;
}

kvc_status StateReader::export_slots(uint64_t id, GroupIndex group, uint64_t first_token, uint64_t num_tokens,
                                     void* slots, size_t element_size) const {
  const Request* request = nullptr;
  KVC_TRY(find(id, &request));
  if (!request->admitted && num_tokens != 0)
    return fail(KVC_ERROR_BUSY, "request %llu is waiting and has no slots; admit it first", ull(id));
  const bool cross = group >= shape.num_token_groups;
  const uint32_t end = cross ? request->cross_tokens : request->capacity;
  if (num_tokens > end || first_token > end - num_tokens) {
    return invalid(cross ? "tokens %llu + %llu are past those of the encoder, %u"
                         : "tokens %llu + %llu are past the capacity, %u; reserve or append more",
                   ull(first_token), ull(num_tokens), end);
  }
  const uint64_t largest = pool().num_ids() * shape.block_size - 1;
  if (element_size == 4 && largest > INT32_MAX) {
    return invalid("slots go up to %llu and do not fit int32; use element_size 8", ull(largest));
  }
  for (uint64_t i = 0; i < num_tokens; ++i) {
    const int64_t slot = slot_of(shape, *request, group, static_cast<uint32_t>(first_token + i));
    if (element_size == 4) {
      static_cast<int32_t*>(slots)[i] = static_cast<int32_t>(slot);
    } else {
      static_cast<int64_t*>(slots)[i] = slot;
    }
  }
  return KVC_OK;
}

}  // namespace kvc
