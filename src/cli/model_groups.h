// SPDX-License-Identifier: Apache-2.0
// The groups and pools of a model's manager, as kvc_manager_config.memory makes them.
#pragma once
#include <kvcache/model.h>

#include <optional>
#include <vector>

#include "cli/replay.h"
#include "cli/trace.h"

namespace kvcli {

struct ModelGroups {
  std::vector<kvc_group_config> groups;
  std::vector<kvc_pool_config> pools;
  std::vector<uint64_t> pool_block_bytes, group_block_bytes;
};

/// Full attention first, then the layers with a window or chunks, states, and cross-attention.
ModelGroups groups_of(const kvc_model& model, const kvc_memory_query& query,
                      const kvc_memory_estimate& estimate);

kvc_pool_config pool_of(uint64_t blocks);

/// Tokens between the checkpoints of a model with states, else 0.
uint64_t checkpoint_tokens(const kvc_model& model, uint32_t block_size);

/// kvc_memory_query.retention_tokens of --retention, if it is given. Throws InputError.
uint64_t retention_tokens(const std::optional<uint64_t>& option, uint32_t block_size);

/// Sets groups, pools and chunk for options.model: with the memory of num_blocks blocks of all its keys and
/// values (without these: of states), divided for the trace's longest request.
void use_model(const Trace& trace, ReplayOptions& options);

}  // namespace kvcli
