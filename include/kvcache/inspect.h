/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_INSPECT_H
#define KVCACHE_INSPECT_H

/** @file kvcache/inspect.h
 *  @brief What is in a file of a tier: a slab, or a page of a folder.
 *
 *  <kvcache.h> states the conventions of all calls. */

#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_page_file_info.kind. */
enum {
  KVC_PAGE_FILE_SLAB = 1, /**< The file of a tier slab:. */
  KVC_PAGE_FILE_PAGE = 2  /**< A page of a tier dir:. */
};

/** What a file of a tier has. */
typedef struct kvc_page_file_info {
  size_t struct_size;      /**< sizeof(kvc_page_file_info) */
  uint32_t kind;           /**< KVC_PAGE_FILE_* */
  uint32_t version;        /**< Of the format. */
  uint8_t fingerprint[32]; /**< Of its pages; 0 = it has none, or those of several. */
  uint8_t key[32];         /**< Of the page; of a slab 0. */
  uint64_t file_bytes;     /**< Of the file. */
  uint64_t page_bytes;     /**< Of the page; of a slab of the largest that fits. */
  uint64_t num_slots;      /**< Pages that a slab has room for; else 1. */
  uint64_t num_pages;      /**< Pages with a whole header. */
  uint64_t stored_bytes;   /**< Of these pages. */
  uint64_t bad_headers;    /**< Slots with something else; they are free. */
  uint64_t bad_pages;      /**< With `validate`: pages whose checksum does not match; they are misses. */
  /** Of pages of one fingerprint: what they are of, as the offload that stored them said: lines
   *  "field: value" of printable ASCII; ended by 0; empty if nothing was said. Whoever may write to the place
   *  may have written it. */
  char description[1024];
} kvc_page_file_info;

/** Reads the headers of a file of a tier. While a tier has a slab open, what it is just writing may be
 *  counted as bad. @param[in] validate 1 = read and check all pages too. @return KVC_OK; INVALID_ARGUMENT;
 *  NOT_FOUND; UNSUPPORTED (neither a slab nor a page, or of a newer format); CORRUPT (the file's own header
 *  does not check); DEVICE, OUT_OF_MEMORY. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_page_file_read_info(const char* path, int32_t validate, kvc_page_file_info* info);

/** The same of the pages of one fingerprint of a file. @param[in] number Of the fingerprint, from 0, in
 *  ascending order of their bytes. @param[out] info bad_headers is 0: bad ones have none. @return As
 *  kvc_page_file_read_info; NOT_FOUND also if the file has fewer fingerprints. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_page_file_read_part(const char* path, uint32_t number, int32_t validate,
                                           kvc_page_file_info* info);

/** Removes the pages of a fingerprint from a slab that no tier has open. The file keeps its size. @param[in]
 *  fingerprint [32] @param[out] info fingerprint, num_pages and stored_bytes are those of what has gone.
 *  @return KVC_OK; INVALID_ARGUMENT; BUSY (a process uses the slab); NOT_FOUND (no such file); UNSUPPORTED
 *  (not a slab, or of another version); CORRUPT; DEVICE, OUT_OF_MEMORY. After a failure some of the pages may
 *  be gone. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_page_file_purge(const char* path, const uint8_t* fingerprint,
                                       kvc_page_file_info* info);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_INSPECT_H */
