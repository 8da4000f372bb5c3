// SPDX-License-Identifier: Apache-2.0
// C functions of pools that change their size, and of the room that admissions reserve.
#include "api/guard.h"

using namespace kvc;

extern "C" {

kvc_status kvc_manager_resize(kvc_manager* m, uint32_t pool, uint64_t num_blocks, kvc_block_copy* moves,
                              size_t capacity, size_t* count) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    KVC_REQUIRE_ARRAY(moves, capacity);
    KVC_REQUIRE_POINTER(count);
    KVC_TRY(check_pool(manager.shape(), pool));
    const uint64_t null_blocks = manager.shape().null_blocks(pool);
    if (num_blocks <= null_blocks) {
      return invalid("num_blocks is %llu; pool %u must have at least %llu", ull(num_blocks), pool,
                     ull(null_blocks + 1));
    }
    return manager.resize(pool, num_blocks - null_blocks, moves, capacity, count);
  });
}

kvc_status kvc_manager_expected_tokens(kvc_manager* m, uint32_t reserve, uint64_t generated,
                                       uint64_t* tokens) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    KVC_REQUIRE_POINTER(tokens);
    if (!manager.shape().has_reserves())
      return fail(KVC_ERROR_UNSUPPORTED,
                  "the manager remembers no lengths; create it with KVC_MANAGER_RESERVE");
    KVC_TRY(check_reserve(manager.shape(), reserve));
    *tokens = manager.expected_tokens(reserve, generated);
    return KVC_OK;
  });
}

}  // extern "C"
