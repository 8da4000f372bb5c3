/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_PAGE_H
#define KVCACHE_PAGE_H

/** @file kvcache/page.h
 *  @brief Pages: the content of a block outside the process, with a key that names it.
 *
 *  A page is the bytes of one block of one group in the order [layer][plane][head][token][content], without
 *  padding. It does not depend on the layout of a storage, its device, or the number of ranks: a rank with
 *  some of the layers and heads has a part of the page. Tiers (kvcache/tier.h) store pages.
 *
 *  The key of a page is the SHA-256 of the prefix position (its namespace, tokens and extra keys), XOR a
 *  SHA-256 of the group and a fingerprint of what computed it. Pages of equal keys have equal content.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

struct kvc_prompt;

/** What must be equal for two processes to use each other's pages, and which part of them a storage has. All
 *  texts are opaque bytes. */
typedef struct kvc_page_config {
  size_t struct_size;   /**< sizeof(kvc_page_config) */
  const void* model;    /**< Name of the model. Must be given. */
  const void* weights;  /**< Version or digest of its weights. Must be given: other weights, other values. */
  const void* numerics; /**< What else changes values, such as kernels; NULL = nothing. */
  size_t model_size, weights_size, numerics_size; /**< Bytes, each at most 65536. */
  /** Layers and KV heads of a whole page, over all ranks; 0 = those of the storage. */
  uint32_t num_layers, num_heads;
  uint32_t first_layer, first_head; /**< Where the storage's layers and heads begin in the page. */
} kvc_page_config;

/** Properties of the pages of a storage. */
typedef struct kvc_page_info {
  size_t struct_size;      /**< sizeof(kvc_page_info) */
  uint8_t fingerprint[32]; /**< For kvc_page_key and kvc_tier_config. */
  uint64_t page_bytes;     /**< Bytes of a whole page. */
  uint64_t part_bytes;     /**< Bytes of the storage's part. */
} kvc_page_info;

/** Tells fingerprint and size of the pages of a storage. The storage may be of any device.
 *  @param[out] info The caller sets struct_size.
 *  @return KVC_OK; INVALID_ARGUMENT (model or weights are missing, layers or heads past the page);
 *  UNSUPPORTED (channel keys, whose blocks have bytes outside the slab). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_storage_page_properties(kvc_storage* s, const kvc_page_config* config,
                                               kvc_page_info* info);

/** Lists the storage's part of a page as runs, ascending, adjacent ones joined: kvc_tier_item.runs.
 *  @param[out] runs [capacity] @param[out] count Number of runs.
 *  @return As kvc_storage_page_properties, and BUFFER_TOO_SMALL (count is what is needed; ask with capacity
 *  0). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_storage_page_runs(kvc_storage* s, const kvc_page_config* config, kvc_run* runs,
                                         size_t capacity, size_t* count);

/** Copies blocks of a storage in host memory to pages: of each the storage's part, run behind run, which is
 *  the page if the part is all of it.
 *  @param[in]  blocks [num_blocks] @param[out] pages Part i is at pages + i * stride.
 *  @param[in]  pages_size Bytes of `pages`. @param[in] stride Bytes from one part to the next, at least
 *  kvc_page_info.part_bytes; 0 = that.
 *  @return KVC_OK; INVALID_ARGUMENT (a block out of range, no room; nothing is copied); UNSUPPORTED (memory
 *  of a device, and as kvc_storage_page_properties). The caller orders it with other writes to the blocks.
 *  Since 0.3. */
KVC_API kvc_status kvc_storage_pack_pages(kvc_storage* s, const int32_t* blocks, size_t num_blocks,
                                          void* pages, size_t pages_size, uint64_t stride);

/** Reverses kvc_storage_pack_pages. @return The same. Since 0.3. */
KVC_API kvc_status kvc_storage_unpack_pages(kvc_storage* s, const int32_t* blocks, size_t num_blocks,
                                            const void* pages, size_t pages_size, uint64_t stride);

/** Digests of the prefix positions of a prompt: of each full block the chain over the namespace's identity
 *  and all tokens and extra keys up to its end, as in kvc_event.digest. The manager need not have events.
 *  Changes nothing.
 *  @param[out] digests [capacity][32] @param[out] count Full blocks of the prompt.
 *  @return KVC_OK; INVALID_ARGUMENT, NOT_FOUND (namespace); BUFFER_TOO_SMALL (count is what is needed; ask
 *  with capacity 0); OUT_OF_MEMORY. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_position_digests(kvc_manager* m, const struct kvc_prompt* prompt,
                                                uint8_t* digests, size_t capacity, size_t* count);

/** Key of a page. @param[in] position [32] digest of the prefix position. @param[in] group Index of the
 *  group.
 *  @param[in] fingerprint [32] from kvc_storage_page_properties. @param[out] key [32]
 *  @return KVC_OK; INVALID_ARGUMENT (NULL). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_page_key(const uint8_t* position, uint32_t group, const uint8_t* fingerprint,
                                uint8_t* key);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_PAGE_H */
