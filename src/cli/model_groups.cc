// SPDX-License-Identifier: Apache-2.0
#include "cli/model_groups.h"

#include <algorithm>

#include "cli/errors.h"
#include "cli/estimate.h"
#include "cli/library.h"

namespace kvcli {

kvc_pool_config pool_of(uint64_t blocks) {
  auto pool = make<kvc_pool_config>();
  pool.num_blocks = blocks;
  return pool;
}

std::vector<kvc_group_config> groups_of(const kvc_model& model, const kvc_memory_estimate& estimate) {
  std::vector<kvc_group_config> groups;
  for (const bool window : {false, true}) {
    if ((window ? estimate.num_window_layers : estimate.num_full_layers) == 0) continue;
    auto& group = groups.emplace_back(make<kvc_group_config>());
    if (!window) continue;
    const bool chunks = model.window_kind == KVC_GROUP_CHUNKED_LOCAL;
    group.kind = chunks ? KVC_GROUP_CHUNKED_LOCAL : KVC_GROUP_SLIDING_WINDOW;
    (chunks ? group.chunk_tokens : group.window_tokens) = model.window_tokens;
  }
  return groups;
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
  query.tokens = 1;
  for (const TraceRequest& request : trace.requests)
    query.tokens = std::max<uint64_t>(query.tokens, uint64_t{request.input_length} + request.num_outputs());
  const kvc_memory_estimate of_blocks = estimate_of(query);
  query.budget_bytes = options.num_blocks * (of_blocks.full_block_bytes + of_blocks.window_block_bytes);
  const kvc_memory_estimate estimate = estimate_of(query);
  options.groups = groups_of(model, estimate);
  options.pools = {pool_of(estimate.pool_blocks)};
  if (estimate.window_pool_blocks == 0) return;
  options.pools.push_back(pool_of(estimate.window_pool_blocks));
  options.groups.back().pool = 1;
}

}  // namespace kvcli
