/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_REBUILD_H
#define KVCACHE_REBUILD_H

/** @file kvcache/rebuild.h
 *  @brief A new manager of another block size, number of blocks or policy that keeps what an old one has
 *  cached. */

#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

struct kvc_manager;
struct kvc_manager_config;

/** Copy the keys and values of `num_tokens` tokens, in all layers of a group, from `offset` on in block
 *  `source` of the old memory to `new_offset` on in block `destination` of the new memory. Frozen. */
typedef struct kvc_token_copy {
  uint32_t group;              /**< Index of the group. */
  int32_t source, destination; /**< Block ids of the old and of the new manager. */
  uint32_t offset, new_offset; /**< First token within each block. */
  uint32_t num_tokens;         /**< At least 1; ends inside both blocks. */
} kvc_token_copy;

/** A namespace by its ids in two managers. Frozen. */
typedef struct kvc_namespace_pair {
  uint64_t old_id, new_id; /**< Ids of equal identity; never 0. */
} kvc_namespace_pair;

/** What the engine needs after kvc_manager_rebuild. The caller sets the arrays and capacities. */
typedef struct kvc_rebuild {
  size_t struct_size;             /**< sizeof(kvc_rebuild) */
  kvc_token_copy* copies;         /**< Out [copy_capacity] by group, then by destination and new_offset. */
  size_t copy_capacity;           /**< Entries of copies. */
  size_t num_copies;              /**< Out: number of copies. */
  kvc_namespace_pair* namespaces; /**< Out [namespace_capacity] all open namespaces but the default one. */
  size_t namespace_capacity;      /**< Entries of namespaces. */
  size_t num_namespaces;          /**< Out: number of namespaces. */
  uint64_t num_blocks;            /**< Out: blocks that the new manager has cached. */
} kvc_rebuild;

/** Creates a manager of another configuration that has what `m` has cached: the way to change block_size, the
 *  number of blocks, the policy or other fields without losing the cache. `m` stays as it is; destroy it when
 *  the copies are done.
 *
 *  Of a prompt whose first t tokens are in cached blocks, floor(t / block_size) * block_size tokens are
 *  cached in the new manager, in the same namespace and with the same extra keys. If a prefix branches inside
 *  a new block, each branch gets a block of its own. If the new blocks do not suffice, those that the old
 *  manager would evict last are kept. A new block is as old as the old block that has its last token; of one
 *  request the last block is evicted first. The new manager evicts in this order. Hints are kept if both
 *  managers have them (KVC_MANAGER_HINTS), with the time. If both policies are KVC_POLICY_FREQUENCY,
 *  positions keep their uses, and blocks come in the order of their release. What a hit cannot use is not
 *  carried: positions behind one that was evicted, or that a group lacks; nor requests, pins, registered
 *  prompts, quotas, statistics and events, nor what the policy remembers of evicted positions. The new
 *  manager's events begin with those of the carried positions.
 *
 *  Namespaces keep their identity and the number of times that they are open, and get new ids.
 *
 *  No request may be admitted, no block held or fenced; requests may wait in `m`. All groups must have full
 *  attention, as many in both managers, with the same pools.
 *
 *  The call takes the lock of `m` for O(cached tokens + nodes).
 *  @param[in]     m       The old manager.
 *  @param[in]     config  The new one, as for kvc_manager_create. `groups` must be set as for `m`.
 *  @param[in,out] rebuild Which bytes to copy before the new manager admits a request
 *  (kvc_storage_copy_tokens), and the ids of namespaces.
 *  @param[out]    manager Free it with kvc_manager_destroy.
 *  @return KVC_OK; BUFFER_TOO_SMALL (both counts are what is needed, no manager is made; ask with capacities
 *  0); BUSY (admitted requests, pins, holds, steps in flight, pending work: the text has the count and the
 *  fix); UNSUPPORTED (a group with a window, a cross group); INVALID_ARGUMENT (other groups or pools, a field
 *  of config); LIMIT, OUT_OF_MEMORY. A failed call leaves nothing behind. Since 0.3. */
KVC_API kvc_status kvc_manager_rebuild(struct kvc_manager* m, const struct kvc_manager_config* config,
                                       kvc_rebuild* rebuild, struct kvc_manager** manager);

/** Copies tokens from one storage to another, bit by bit, scales included. The storages have equal layers,
 *  heads, dimensions, types, flags and scales; block_size, num_blocks, layout and alignment may differ. Both
 *  are in memory of the host. Not for tiled keys and channel keys, whose tokens share bytes: compute these
 *  anew, or gather and store them.
 *  @param[in] copies [num_copies] their blocks are blocks of the storages; `group` is ignored. Of several
 *  groups, each with its storage, pass the part of the array that is the group's.
 *  @return KVC_OK; INVALID_ARGUMENT (shapes that differ, a block or token out of range; nothing is copied),
 *  UNSUPPORTED (memory of a device, tiled or channel keys). Since 0.3. */
KVC_API kvc_status kvc_storage_copy_tokens(kvc_storage* source, kvc_storage* destination,
                                           const kvc_token_copy* copies, size_t num_copies);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_REBUILD_H */
