// SPDX-License-Identifier: Apache-2.0
// C functions of pools that change their size, of the headroom of admissions, and of memory that unused
// blocks of a storage give back.
#include <kvcache/device.h>
#include <kvcache/resize.h>

#include "api/recording.h"
#include "api/storage_handle.h"
#include "base/pages.h"
#include "layout/parts.h"

using namespace kvc;

extern "C" {

kvc_status kvc_manager_resize(kvc_manager* m, uint32_t pool, uint64_t num_blocks, kvc_block_copy* moves,
                              size_t capacity, size_t* count) {
  KVC_RECORD(kvc_manager_resize, m, pool, num_blocks, moves, capacity, count);
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    KVC_REQUIRE_ARRAY(moves, capacity);
    KVC_REQUIRE_POINTER(count);
    KVC_TRY(check_pool(manager.shape(), pool));
    const uint64_t null_blocks = manager.shape().null_blocks(pool);
    if (num_blocks <= null_blocks) {
      return invalid("num_blocks is %llu; pool %u must have at least %llu", ull(num_blocks), pool,
                     ull(null_blocks) + 1);
    }
    return manager.resize(pool, num_blocks - null_blocks, moves, capacity, count);
  });
}

kvc_status kvc_manager_expected_tokens(kvc_manager* m, uint32_t headroom, uint64_t generated,
                                       uint64_t* num_expected) {
  return on_manager(m, [&](Manager& manager) -> kvc_status {
    KVC_REQUIRE_POINTER(num_expected);
    if (!manager.shape().has_headroom())
      return fail(KVC_ERROR_UNSUPPORTED,
                  "the manager remembers no lengths; create it with KVC_MANAGER_HEADROOM");
    KVC_TRY(check_headroom(manager.shape(), headroom));
    *num_expected = manager.read([&](const StateReader& state) {
      return state.requests.features.get<Headroom>().expected_tokens(headroom, generated);
    });
    return KVC_OK;
  });
}

kvc_status kvc_storage_discard_blocks(kvc_storage* s, uint64_t first_block, uint64_t num_blocks,
                                      uint64_t* freed_bytes) {
  return on_storage(s, [&](kvc_storage& storage) -> kvc_status {
    const Layout& layout = storage.layout;
    if (first_block > layout.num_blocks || num_blocks > layout.num_blocks - first_block) {
      return invalid("%llu blocks from %llu on; the storage has %llu", ull(num_blocks), ull(first_block),
                     ull(layout.num_blocks));
    }
    const bool on_host = std::strcmp(storage.backend->name, "cpu") == 0;
    if (!on_host || storage.info.memory_kind == KVC_MEMORY_EXTERNAL ||
        storage.account.inner().allocate != default_env().allocate) {
      return fail(KVC_ERROR_UNSUPPORTED,
                  "the storage's memory is %s; only memory that it took from the system "
                  "itself goes back in parts",
                  !on_host ? "a device's" : "the caller's");
    }
    storage.backend->storage_wait(storage.impl);
    for (uint64_t i = 0; layout.channel_tokens != 0 && i < num_blocks; ++i) {
      if (storage.backend->is_residual(storage.impl, static_cast<int32_t>(first_block + i)) != 0) {
        return fail(KVC_ERROR_BUSY,
                    "block %llu is residual; quantize it (kvc_storage_quantize_blocks) or clear "
                    "it (kvc_storage_zero_blocks) first",
                    ull(first_block) + i);
      }
    }
    const BlockParts parts = block_parts(layout);
    uint64_t discarded = 0;
    for (uint64_t i = 0; i < parts.count; ++i) {
      char* const part = storage.slab() + i * parts.part + first_block * parts.block;
      discarded += discard_pages(part, num_blocks * parts.block);
    }
    if (freed_bytes != nullptr) *freed_bytes = discarded;
    return KVC_OK;
  });
}

}  // extern "C"
