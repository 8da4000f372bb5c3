/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_EXTERNAL_H
#define KVCACHE_EXTERNAL_H

/** @file kvcache/external.h
 *  @brief External holds: blocks, references and publishing for engines with their own block tables.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/request.h>
#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Takes blocks of a group's pool, all or nothing. Each gets one external hold. @param[out] blocks
 *  [num_blocks]
 *  @return KVC_OK; NO_SPACE, AGAIN, NEVER_FITS, INVALID_ARGUMENT. Since 0.1. */
KVC_API kvc_status kvc_manager_acquire_blocks(kvc_manager* m, uint32_t group, int32_t* blocks,
                                              size_t num_blocks);

/** Takes an external hold on each cached block of a prefix in one group. All n tokens may match, not only n -
 *  1.
 *  @param[out] blocks [capacity], one per position; -1 where a sliding window does not need the block.
 *  @param[out] count Positions matched.
 *  @return KVC_OK (count may be 0); BUFFER_TOO_SMALL (count is what is needed, nothing is held);
 *  INVALID_ARGUMENT, NOT_FOUND, LIMIT (also 65,535 holds of a block), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_acquire_prefix(kvc_manager* m, const kvc_prompt* prompt, uint32_t group,
                                              int32_t* blocks, size_t capacity, size_t* count);

/** Publishes externally held blocks as the KV of the first num_blocks * block_size tokens, which must be
 *  written. Publishing a block again under the same identity changes nothing. -1 skips a position. Blocks
 *  leave the list of those to clear (kvc_manager_take_pending).
 *  @return KVC_OK; INVALID_ARGUMENT (too few tokens, a block twice or of another pool), NOT_HELD (no
 *  external hold), BUSY (published under another identity, or also held by requests), LIMIT (all nodes in
 *  use), NOT_FOUND, OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_publish_blocks(kvc_manager* m, const kvc_prompt* prompt, uint32_t group,
                                              const int32_t* blocks, size_t num_blocks);

/** Releases one external hold per entry, last entry first, so that the start of a prefix is evicted last.
 *  -1 skips an entry. All or nothing.
 *  @return KVC_OK; NOT_HELD (more releases than holds), INVALID_ARGUMENT (no such block). Since 0.1. */
KVC_API kvc_status kvc_manager_release_blocks(kvc_manager* m, const int32_t* blocks, size_t num_blocks);

/** Makes blocks unfindable because their bytes are wrong, for example after a failed load. CACHED blocks
 *  become FREE. Held blocks become FREE on release, FENCED ones when their step is retired. Other copies
 *  of the same position and later positions stay published, and requests go on publishing after what they
 *  lost. Pages that an offload has stored of them stay in its tiers. -1 and blocks that are not published are
 *  skipped.
 *  @param[in]  blocks [num_blocks] @param[out] num_unpublished How many were published.
 *  @return KVC_OK; INVALID_ARGUMENT (no such block; nothing is changed). Since 0.2. */
KVC_API kvc_status kvc_manager_unpublish_blocks(kvc_manager* m, const int32_t* blocks, size_t num_blocks,
                                                uint64_t* num_unpublished);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_EXTERNAL_H */
