// SPDX-License-Identifier: Apache-2.0
#include "cli/model_groups.h"

#include <algorithm>
#include <utility>

#include "cli/errors.h"
#include "cli/estimate.h"
#include "cli/library.h"

namespace kvcli {
namespace {

constexpr uint64_t kCheckpointTokens = 2048;
constexpr uint64_t kMostRetention = uint64_t{1} << 32;  // The library takes more as none.

}  // namespace

uint64_t checkpoint_tokens(const kvc_model& model, uint32_t block_size) {
  const bool stateful = model.conv_elements != 0 || model.recurrent_elements != 0;
  return stateful ? (kCheckpointTokens + block_size - 1) / block_size * block_size : 0;
}

uint64_t retention_tokens(const std::optional<uint64_t>& option, uint32_t block_size) {
  if (!option) return 0;
  if (*option % block_size != 0 || *option > kMostRetention) {
    throw InputError("--retention is " + std::to_string(*option) + "; give a multiple of the block size, " +
                     std::to_string(block_size) + ", up to 2^32, or 0 for none");
  }
  return *option == 0 ? KVC_NO_RETENTION : *option;
}

kvc_pool_config pool_of(uint64_t blocks) {
  auto pool = make<kvc_pool_config>();
  pool.num_blocks = blocks;
  return pool;
}

ModelGroups groups_of(const kvc_model& model, const kvc_memory_query& query,
                      const kvc_memory_estimate& estimate) {
  const bool chunks = model.window_kind == KVC_GROUP_CHUNKED_LOCAL;
  const struct {
    uint32_t kind, pool;
    uint64_t block_bytes, own_blocks;  // of no group: 0
  } parts[] = {
      {KVC_GROUP_FULL, 0, estimate.full_block_bytes, 0},
      {chunks ? KVC_GROUP_CHUNKED_LOCAL : KVC_GROUP_SLIDING_WINDOW, estimate.window_pool,
       estimate.window_block_bytes, estimate.window_pool_blocks},
      {KVC_GROUP_STATE, estimate.state_pool, estimate.state_block_bytes, estimate.state_pool_blocks},
      {KVC_GROUP_CROSS, estimate.cross_pool, estimate.cross_block_bytes, estimate.cross_pool_blocks}};
  ModelGroups out;
  for (const auto& part : parts) {
    if (part.block_bytes == 0) continue;
    if (part.pool == out.pools.size()) {
      out.pools.push_back(pool_of(part.pool == 0 ? estimate.pool_blocks : part.own_blocks));
      out.pool_block_bytes.push_back(part.block_bytes);
    }
    auto& group = out.groups.emplace_back(make<kvc_group_config>());
    out.group_block_bytes.push_back(part.block_bytes);
    group.kind = part.kind;
    group.pool = part.pool;
    if (part.kind == KVC_GROUP_SLIDING_WINDOW) group.window_tokens = model.window_tokens;
    if (part.kind == KVC_GROUP_CHUNKED_LOCAL) group.chunk_tokens = model.window_tokens;
    if (group.window_tokens + group.chunk_tokens != 0 && query.retention_tokens <= kMostRetention)
      group.retention_tokens = query.retention_tokens != 0 ? query.retention_tokens : query.block_size;
    if (part.kind == KVC_GROUP_STATE) group.retention_tokens = query.checkpoint_tokens;
  }
  return out;
}

void use_model(const Trace& trace, ReplayOptions& options) {
  constexpr uint32_t kChunk = 512;
  if (options.verify || options.maintain_tables || options.commit_late)
    throw InputError(
        "--model is given with --verify, --data, --tables or --commit-late; leave one of them out");
  const kvc_model model = find_model(options.model);
  auto query = make<kvc_memory_query>();
  query.model = &model;
  query.dtype = KVC_BFLOAT16;
  query.block_size = options.block_size;
  query.chunk_tokens = options.chunk = kChunk;
  query.checkpoint_tokens = checkpoint_tokens(model, options.block_size);
  query.retention_tokens = retention_tokens(options.retention, options.block_size);
  query.tokens = 1;
  for (const TraceRequest& request : trace.requests)
    query.tokens = std::max<uint64_t>(query.tokens, uint64_t{request.input_length} + request.num_outputs());
  const kvc_memory_estimate of_blocks = estimate_of(query);
  const uint64_t of_tokens = of_blocks.full_block_bytes + of_blocks.window_block_bytes;
  query.budget_bytes = options.num_blocks * (of_tokens != 0 ? of_tokens : of_blocks.state_block_bytes);
  ModelGroups found = groups_of(model, query, estimate_of(query));
  options.cross_tokens = model.num_cross_layers != 0 ? model.cross_tokens : 0;
  for (const kvc_group_config& group : found.groups) {
    if (options.tiers.urls.empty() || (group.kind != KVC_GROUP_STATE && group.kind != KVC_GROUP_CROSS))
      continue;
    throw InputError("--tiers: " + options.model + " has " +
                     (group.kind == KVC_GROUP_STATE ? "recurrent states" : "cross-attention") +
                     ", whose blocks do not go to tiers; leave out --tiers or --model");
  }
  options.tiers.group_bytes = std::move(found.group_block_bytes);
  options.groups = std::move(found.groups);
  options.pools = std::move(found.pools);
}

}  // namespace kvcli
