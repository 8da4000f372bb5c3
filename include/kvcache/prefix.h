/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_PREFIX_H
#define KVCACHE_PREFIX_H

/** @file kvcache/prefix.h
 *  @brief Prefixes: what an admission would find, pins, and what is dropped or evicted.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/request.h>
#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Answer of kvc_manager_probe and kvc_manager_probe_request. */
typedef struct kvc_probe_info {
  size_t struct_size;  /**< sizeof(kvc_probe_info) */
  uint64_t num_cached; /**< Tokens that would hit. */
  /** Blocks taken from the tightest pool (the least left over), hits that nobody holds included, the
   *  watermark not. Use `fits` to decide. */
  uint64_t blocks_needed;
  /** Free and evictable blocks of that pool; with quotas those that it may take. */
  uint64_t blocks_available;
  uint64_t lost_reuse_tokens; /**< As in kvc_request_info. */
  /** 1 = the admission has space in every pool, watermark included; 0 = it is NO_SPACE, AGAIN, OVER_QUOTA or
   *  NEVER_FITS. It is about space alone: with wait_until_ns the admission may be FILLING all the same, or,
   *  if no time was told, INVALID_ARGUMENT. */
  uint32_t fits;
  /** 1 = an admission with the request's own slots is NEVER_FITS: end the request, unless a step can admit it
   *  with fewer (kvc_step.admit_slots), which no probe knows. 0 = it fits now, or may fit later. Since 0.3.
   */
  uint32_t never_fits;
  /** kvc_manager_probe_request: the request to wait for, which computes the block after num_cached. 0 = none
   *  does; a step in flight may still write it, which is FILLING too. kvc_manager_probe: 0. Since 0.3. */
  uint64_t filling_request;
  /** kvc_manager_probe_request, with state groups: what kvc_request_info.next_checkpoint will be right after
   *  this admission. Its first step can end there: give it next_checkpoint - num_cached slots, less the
   *  external_tokens, if that is positive; else the transfer passes it. 0 = none. kvc_manager_probe: 0.
   *  Since 0.3. */
  uint64_t next_checkpoint;
} kvc_probe_info;

/** Asks whether a prompt would fit in an admission without options, and how much of it is cached. Changes
 *  nothing, not even the LRU order, and holds the lock only briefly. A prompt has no encoder: for a request
 *  with kvc_request_config.cross_tokens create it, and use kvc_manager_probe_request. The answer is a
 *  snapshot. @return KVC_OK; INVALID_ARGUMENT, NOT_FOUND (namespace), LIMIT, OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_probe(kvc_manager* m, const kvc_prompt* prompt, kvc_probe_info* info);

/** The same for a waiting request, with its options: what kvc_manager_admit_request would do. Holds the
 *  lock for O(blocks of the prompt).
 *  @return KVC_OK; NOT_FOUND, BUSY (admitted already), INVALID_ARGUMENT, OUT_OF_MEMORY. Since 0.3. */
KVC_API kvc_status kvc_manager_probe_request(kvc_manager* m, uint64_t request, kvc_probe_info* info);

/** Why a group could not reuse what another one had cached. */
enum {
  KVC_LOST_BLOCK = 1,     /**< A block of full attention, or of the sink tokens, is not cached. */
  KVC_LOST_WINDOW = 2,    /**< A block of the window or the chunk before the end is not cached. */
  KVC_LOST_STATE = 3,     /**< No checkpoint of a recurrent state is at the end. */
  KVC_LOST_AGREEMENT = 4, /**< Every group had more alone, but they do not end at the same place. */
  /** All prefix positions were in use, so a request stopped publishing. Only in kvc_lost_reuse: no prompt can
   *  tell what it would have found. Raise kvc_manager_config.max_nodes. */
  KVC_LOST_NODES = 5
};

/** The lost reuse of a group: sums over the admissions that kvc_stats.admissions counts. Each had a prefix
 *  that one group alone could have reused the most of (kvc_stats.lost_reuse_tokens is that less the hit). */
typedef struct kvc_lost_reuse {
  size_t struct_size;  /**< sizeof(kvc_lost_reuse) */
  uint64_t admissions; /**< Admissions that add to the numbers below. */
  /** Tokens that this group could not reuse because a block was missing: KVC_LOST_BLOCK. */
  uint64_t block_tokens;
  uint64_t window_tokens; /**< The same, a block of its window or chunk: KVC_LOST_WINDOW. */
  uint64_t state_tokens;  /**< The same, a checkpoint: KVC_LOST_STATE. */
  /** KVC_LOST_AGREEMENT: that every group alone could reuse and all together could not. Counted in the group
   *  that could reuse least, the first of equal ones. */
  uint64_t agreement_tokens;
  /** KVC_LOST_NODES: in full blocks that requests knew and did not publish when all positions were in use,
   *  the same in each group. Not counted in admissions and kvc_stats.lost_reuse_tokens. */
  uint64_t node_tokens;
} kvc_lost_reuse;

/** Tells which group loses reuse, and why: which pool to enlarge, or what to retain.
 *  @return KVC_OK, INVALID_ARGUMENT (no such group). Since 0.3. */
KVC_API kvc_status kvc_manager_lost_reuse(kvc_manager* m, uint32_t group, kvc_lost_reuse* info);

/** Protects the cached part of a prefix from eviction. All n tokens may match, not only n - 1. Holds one
 *  block at least: where chunks begin and a hit needs none, the last block before; without it nothing is
 *  pinned.
 *  @param[out] pin Id for kvc_manager_unpin_prefix. @param[out] num_pinned Tokens pinned.
 *  @return KVC_OK; NOT_FOUND (no block is cached, and no pin is made; or no such namespace);
 *  INVALID_ARGUMENT; LIMIT; OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_pin_prefix(kvc_manager* m, const kvc_prompt* prompt, uint64_t* pin,
                                          uint64_t* num_pinned);

/** Ends a pin. Its blocks become the most recently used. A block is FENCED only if a request, a copy or an
 *  external hold released it while a step was in flight. @return KVC_OK, NOT_FOUND. Since 0.1. */
KVC_API kvc_status kvc_manager_unpin_prefix(kvc_manager* m, uint64_t pin);

/** Lists all pins, in no particular order. @param[out] pins [capacity] @param[out] count Number of pins.
 *  @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed; ask with capacity 0). Since 0.3. */
KVC_API kvc_status kvc_manager_list_pins(kvc_manager* m, uint64_t* pins, size_t capacity, size_t* count);

/** Drops the cached blocks on the path of a prompt that nobody holds, in all groups. Longer prefixes stay;
 *  they hit again once the path is computed again. @param[out] num_dropped Blocks dropped. @return KVC_OK;
 *  INVALID_ARGUMENT, NOT_FOUND (namespace), LIMIT, OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_drop_prefix(kvc_manager* m, const kvc_prompt* prompt, uint64_t* num_dropped);

/** Evicts up to max_blocks cached blocks in the order of the policy. @param[in] pool Index of a pool; -1 =
 *  all, pool by pool. @param[out] num_evicted May be less than max_blocks.
 *  @return KVC_OK, INVALID_ARGUMENT (no such pool). Since 0.1. */
KVC_API kvc_status kvc_manager_evict_blocks(kvc_manager* m, int32_t pool, uint64_t max_blocks,
                                            uint64_t* num_evicted);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_PREFIX_H */
