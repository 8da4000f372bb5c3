/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_SHORTFIN_H
#define KVCACHE_SHORTFIN_H

/** @file kvcache/shortfin.h
 *  @brief Configurations of a manager and its storage from the config of a model that was exported for
 *  shortfin.
 *
 *  <kvcache.h> states the conventions of all calls. */

#include <kvcache/manager.h>
#include <kvcache/storage.h>
#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Reads the config.json that sharktank exports for Shortfin (its paged_kv_cache), and sets fields of both
 *  configurations; the others stay as they are. One manager serves all devices: a block id means the same
 *  page in each of their storages. A storage of this configuration has Shortfin's pages, [layer][key,
 *  value][head][token][element], without gaps if alignment divides the bytes of a layer's keys.
 *  @param[in]     json        Text of the file. Not kept.
 *  @param[in]     size        Bytes of the text.
 *  @param[in]     device      Index of the storage: below *num_devices. Each device has some of the layers
 *  (paged_kv_block_size_elements_per_device), in ascending order.
 *  @param[in,out] manager     The caller sets struct_size. Sets num_blocks, block_size (block_seq_stride) and
 *  max_request_tokens (max_seq_len). NULL = not wanted.
 *  @param[in,out] storage     The caller sets struct_size. Sets num_blocks, num_layers, num_heads, head_dim,
 *  block_size, dtype, and layout (KVC_LAYOUT_BLHNC). NULL = not wanted.
 *  @param[out]    num_devices Devices of the file, at least 1. NULL = not wanted.
 *  @return KVC_OK; INVALID_ARGUMENT (not JSON, a field that is missing, out of range or of an unknown type:
 *  the text names the field, its value and the fix; no such device), OUT_OF_MEMORY. A failed call changes
 *  nothing. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_config_from_shortfin(const char* json, size_t size, uint32_t device,
                                            kvc_manager_config* manager, kvc_storage_config* storage,
                                            uint32_t* num_devices);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_SHORTFIN_H */
