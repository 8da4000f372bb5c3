/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_RESIZE_H
#define KVCACHE_RESIZE_H

/** @file kvcache/resize.h
 *  @brief Pools that grow and shrink while requests run, and headroom of admissions.
 *
 *  kvc_pool_config.max_blocks (of one pool kvc_manager_config.max_blocks) is the room of a pool: its range of
 *  ids, in which it may have any number of blocks. Ids of other pools never move. Room costs addresses, not
 *  memory: its records are written when they are first needed, but for those in the memory that
 *  kvc_manager_create touches. The table of positions, 8 to 16 bytes for each of max_nodes, is written in
 *  full at creation. kvc_stats.metadata_bytes counts all of it.
 *
 *  A storage has as many blocks as the pools may have (kvc_properties.max_blocks). On the CPU its memory is
 *  taken when it is first written, and kvc_storage_discard_blocks gives that of unused blocks back.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Changes the number of blocks of a pool.
 *
 *  A pool that grows has more free blocks at once: those with the next ids, which are taken last. It may grow
 *  at any time. With policies that measure age in blocks of the pool, age counts by the new number.
 *
 *  A pool that shrinks loses its highest ids. First, if fewer blocks remain than are held or cached, cached
 *  ones are evicted: those that the policy would evict next, whatever their ids, and of namespaces with a
 *  quota only what they have above their minimum. Then the contents of the blocks that leave are moved to
 *  free blocks below. Before any block is read or written, the engine must execute the moves
 *  (kvc_storage_copy_blocks) and take the new tables, as after kvc_manager_compact: kvc_manager_export_tables
 *  has them at once; the next step of a request updates its row of the step tables and lists the changes. No
 *  step may be in flight, and no work pending. Afterwards the lowest free block is taken first.
 *
 *  A maximum of a quota may be above the new number. Holds the lock for O(1) if the pool grows, else for
 *  O(blocks + entries of tables).
 *  @param[in]  pool       Index of the pool.
 *  @param[in]  num_blocks Blocks that it shall have, null block included, as in kvc_pool_config.
 *  @param[out] moves      [capacity] No block occurs twice. As many as blocks leave are always enough.
 *  @param[out] count      Number of moves; with BUFFER_TOO_SMALL a capacity that is enough now. No call
 *                         moves more than the blocks that are held or cached above the new end.
 *  @return KVC_OK; INVALID_ARGUMENT (no such pool; 0 blocks, more than max_blocks, not more than
 *  watermark_blocks, or fewer than the minimums of quotas), NO_SPACE (more blocks are held, or promised to
 *  quotas), BUSY (an external hold on a block that would leave, which the text names: engines keep such ids
 *  themselves; another thread in kvc_manager_step; pending work), AGAIN (a step is in flight: retire it),
 *  BUFFER_TOO_SMALL. A failed call changes nothing. Since 0.3. */
KVC_API kvc_status kvc_manager_resize(kvc_manager* m, uint32_t pool, uint64_t num_blocks,
                                      kvc_block_copy* moves, size_t capacity, size_t* count);

/** Tokens that a request with `generated` tokens after its prompt will probably still get. Of ended requests
 *  that got at least `generated` tokens, 50, 75 or 95 % (`headroom`) got at most this many more. A request
 *  counts when it is freed, if it was ever admitted, with the tokens beyond those that it was created with (a
 *  fork: beyond those of its fork). Counts from 16 on are rounded up, by less than 1/8. Old requests fade:
 *  whenever 65,536 have been counted, all counts are halved. With nothing to go by it is 0.
 *  @param[in]  headroom  KVC_HEADROOM_*
 *  @param[in]  generated Tokens after its prompt; 0 for a new request.
 *  @param[out] num_expected Expected tokens; with KVC_HEADROOM_NONE 0.
 *  @return KVC_OK; INVALID_ARGUMENT (no such number), UNSUPPORTED (without KVC_MANAGER_HEADROOM). Since 0.3.
 */
KVC_API kvc_status kvc_manager_expected_tokens(kvc_manager* m, uint32_t headroom, uint64_t generated,
                                               uint64_t* num_expected);

/** Gives the memory of blocks that nobody uses back to the system, such as those that left a pool. What they
 *  hold is undefined afterwards. The next write to them takes fresh memory. Only whole pages of the system
 *  (4 KiB, or more) go back: with a layout by layers, of each layer's part. A storage that was created with
 *  KVC_STORAGE_NOT_ZEROED takes no memory for blocks that were never written. Waits for the work that streams
 *  have on the storage; no other call may use these blocks.
 *  @param[in]  first_block First block.
 *  @param[in]  num_blocks  Blocks; 0 = none.
 *  @param[out] freed_bytes Memory that went back. May be NULL.
 *  @return KVC_OK; INVALID_ARGUMENT (blocks past the storage), BUSY (a block is residual: quantize or clear
 *  it first), UNSUPPORTED (memory of a device, of an allocator, or the caller's: free it yourself). Since
 *  0.3.
 */
KVC_API kvc_status kvc_storage_discard_blocks(kvc_storage* s, uint64_t first_block, uint64_t num_blocks,
                                              uint64_t* freed_bytes);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_RESIZE_H */
