/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_QUOTA_H
#define KVCACHE_QUOTA_H

/** @file kvcache/quota.h
 *  @brief Quotas: how many blocks a namespace (a tenant) is sure of, and how many it may have at most.
 *
 *  kvc_manager_config.max_quotas says how many namespaces may have one. A namespace with a quota has a share
 *  of each pool: the blocks that its requests, pins and external holds hold, that steps in flight keep for
 *  it, and that are cached for it. All other namespaces together have one common share; a block that an
 *  external holder took (kvc_manager_acquire_blocks) belongs to it until it is published in a namespace.
 *
 *  - Minimum: the namespace can always hold so many blocks, and what it has cached is not evicted for others
 *    while it has no more blocks than that.
 *  - Maximum: it never has more blocks. If it has so many, it evicts its own cached blocks.
 *
 *  If the minimum of each namespace is its maximum, and they sum to the pool, no call of one tenant changes
 *  an answer that another one gets, block ids and shared limits excepted: docs/SEMANTICS.md, "Quotas".
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The share of a namespace in one pool. */
typedef struct kvc_quota_info {
  size_t struct_size;  /**< sizeof(kvc_quota_info) */
  uint64_t min_blocks; /**< As set. */
  uint64_t max_blocks; /**< As set; 0 = no maximum. */
  uint64_t held;       /**< Gauge: blocks that its requests, pins and external holds hold. */
  uint64_t cached;     /**< Gauge: its cached blocks. */
  uint64_t fenced;     /**< Gauge: its released blocks that steps in flight may still write to. */
  /** Gauge: blocks that an admission or an extension of the namespace may take, hits on cached blocks and
   *  the watermark included. */
  uint64_t available;
  /** Admissions and extensions that its maximum in this pool refused (KVC_ERROR_OVER_QUOTA), since it has the
   *  quota. */
  uint64_t refusals;
  /** As in kvc_stats, of this namespace, since it has the quota; the same in all pools. */
  uint64_t block_queries, block_hits;
} kvc_quota_info;

/** Sets the quota of a namespace in one pool. Blocks that it has already count. If it has more than
 *  max_blocks, cached ones are evicted; what it holds stays, and it gets no more until it holds less. A
 *  minimum of 0 and no maximum in every pool end the quota: its blocks come to the common share, the cached
 *  ones as the most recently used. The last close of the namespace ends its quota, too. The first quota of a
 *  namespace and its end hold the lock for O(blocks); a change does for O(evicted blocks).
 *  @param[in] namespace_id A namespace; 0 = the default one.
 *  @param[in] pool         Index of a pool.
 *  @param[in] min_blocks Blocks that it is sure of; 0 = none. The minimums of all namespaces sum to at most
 *  the blocks of the pool, the null block not counted.
 *  @param[in] max_blocks   Blocks that it may have, at least min_blocks and at most those of the pool; 0 = no
 *  maximum.
 *  @return KVC_OK; INVALID_ARGUMENT (no such pool, a minimum above the maximum, a maximum or a sum of
 *  minimums above the pool), NOT_FOUND (namespace), LIMIT (max_quotas namespaces have one), NO_SPACE (others
 *  hold blocks of the minimum now), UNSUPPORTED (max_quotas is 0). A failed call changes nothing. Since 0.3.
 */
KVC_API kvc_status kvc_manager_set_quota(kvc_manager* m, uint64_t namespace_id, uint32_t pool,
                                         uint64_t min_blocks, uint64_t max_blocks);

/** The share of a namespace in one pool; of a namespace without a quota the common share of all such
 *  namespaces, whose minimum and maximum are 0.
 *  @param[in]     namespace_id A namespace; 0 = the default one.
 *  @param[in]     pool         Index of a pool.
 *  @param[in,out] info         The caller sets struct_size.
 *  @return KVC_OK; INVALID_ARGUMENT (no such pool), NOT_FOUND (namespace), UNSUPPORTED (max_quotas is 0).
 *  Since 0.3. */
KVC_API kvc_status kvc_manager_quota_info(kvc_manager* m, uint64_t namespace_id, uint32_t pool,
                                          kvc_quota_info* info);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_QUOTA_H */
