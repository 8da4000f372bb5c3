// SPDX-License-Identifier: Apache-2.0
// A budget of memory and a model instead of pools and groups.
#include <algorithm>

#include "api/guard.h"
#include "api/shape.h"
#include "models/memory.h"

namespace kvc {
namespace {

kvc_status check_alone(const kvc_manager_config& config, uint32_t block_size) {
  if (config.num_blocks != 0 || config.num_pools != 0 || config.num_groups != 0) {
    return invalid(
        "memory is set beside num_blocks %llu, %zu pools and %zu groups, which the model gives; leave them 0",
        ull(config.num_blocks), config.num_pools, config.num_groups);
  }
  if (config.max_blocks != 0) {
    return invalid(
        "max_blocks is %llu beside memory, which gives the pools; leave it 0, or give num_blocks or pools "
        "instead "
        "of memory",
        ull(config.max_blocks));
  }
  if (config.groups != nullptr || config.pools != nullptr)
    return invalid("groups or pools is set beside memory, which gives both; leave them NULL");
  if (config.block_size != 0 && block_size != 0 && config.block_size != block_size) {
    return invalid("block_size is %u and that of memory %u; set one of them, or both to the same",
                   config.block_size, block_size);
  }
  return KVC_OK;
}

}  // namespace

kvc_status size_by_memory(kvc_manager_config* config, ModelGroups* out) {
  kvc_memory_query query;
  kvc_model model;
  KVC_TRY(read_memory_query(config->memory, &query, &model));
  KVC_TRY(check_alone(*config, query.block_size));
  if (query.budget_bytes == 0)
    return invalid("budget_bytes and memory_fraction of memory are both 0; set one of them");
  if (query.block_size == 0) query.block_size = config->block_size;
  kvc_memory_estimate estimate;
  KVC_TRY(estimate_memory(query, model, &estimate));
  const bool chunks = model.window_kind == KVC_GROUP_CHUNKED_LOCAL;
  const struct {
    uint32_t kind, pool;
    uint64_t block_bytes, own_blocks;  // of no group: 0
  } parts[kModelGroups] = {
      {KVC_GROUP_FULL, 0, estimate.full_block_bytes, 0},
      {chunks ? KVC_GROUP_CHUNKED_LOCAL : KVC_GROUP_SLIDING_WINDOW, estimate.window_pool,
       estimate.window_block_bytes, estimate.window_pool_blocks},
      {KVC_GROUP_STATE, estimate.state_pool, estimate.state_block_bytes, estimate.state_pool_blocks},
      {KVC_GROUP_CROSS, estimate.cross_pool, estimate.cross_block_bytes, estimate.cross_pool_blocks}};
  if (estimate.pool_blocks == 0) {
    uint64_t group_bytes = 0;
    for (const auto& part : parts) group_bytes += part.block_bytes;
    const uint64_t sequences = std::max<uint64_t>(query.num_sequences, 1);
    const uint64_t residual_bytes = sequences * estimate.residual_bytes;
    return invalid(
        "the budget is %llu bytes; a block of each group takes %llu, and residual blocks of %llu sequences "
        "%llu: raise the budget, or lower block_size",
        ull(query.budget_bytes), ull(group_bytes), ull(sequences), ull(residual_bytes));
  }
  *out = {};
  out->tokens = query.tokens != 0 ? query.tokens : model.max_context;
  config->block_size = query.block_size;
  config->pools = out->pools;
  config->groups = out->groups;
  config->num_pools = estimate.num_pools;
  out->pools[0] = {sizeof(kvc_pool_config), estimate.pool_blocks, 0};
  for (const auto& part : parts) {
    if (part.block_bytes == 0) continue;
    if (part.own_blocks != 0) out->pools[part.pool] = {sizeof(kvc_pool_config), part.own_blocks, 0};
    kvc_group_config& group = out->groups[config->num_groups++];
    group.struct_size = sizeof group;
    group.kind = part.kind;
    group.pool = part.pool;
    if (part.kind == KVC_GROUP_SLIDING_WINDOW) group.window_tokens = model.window_tokens;
    if (part.kind == KVC_GROUP_CHUNKED_LOCAL) group.chunk_tokens = model.window_tokens;
    if (group.window_tokens + group.chunk_tokens != 0)
      group.retention_tokens = window_retention(query, query.block_size == 0 ? 16 : query.block_size);
    if (part.kind == KVC_GROUP_STATE) group.retention_tokens = query.checkpoint_tokens;
  }
  return KVC_OK;
}

}  // namespace kvc
