// SPDX-License-Identifier: Apache-2.0
#include "manager/block_state.h"

namespace kvc {

bool BlockState::create(Memory& memory, const Env& env, IdTag tag, uint64_t secret) {
  return pool.create(memory, shape.pool_blocks, shape.num_pools, (shape.flags & KVC_MANAGER_NULL_BLOCK) != 0,
                     *shape.policy, shape.policy_weight,
                     {shape.num_classes, shape.num_levels, shape.has_fills()}, shape.pool_room) &&
         namespaces.create(memory, arena, events, shape.num_pools, tag.tag, tag.generation) &&
         tree.create(memory, shape.max_nodes, shape.block_size, shape.num_groups, env.table_hash_mask, secret,
                     shape.policy_history, shape.has_hints(), shape.reuses_heads()) &&
         zeroing.create(memory, shape.flags, pool.num_ids()) &&
         quotas.create(memory, shape.num_classes - 1, pool);
}

}  // namespace kvc
