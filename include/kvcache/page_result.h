/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_PAGE_RESULT_H
#define KVCACHE_PAGE_RESULT_H

/** @file kvcache/page_result.h
 *  @brief What became of a page that a tier (kvcache/tier.h) or a store (kvcache/plugin.h) was asked for.
 *
 *  <kvcache.h> includes this header. */

#include <kvcache/types.h>

KVC_EXPERIMENTAL

/** kvc_tier_item.result and kvc_store_item.result. */
enum {
  KVC_PAGE_WAITING = 0, /**< The job has not ended. */
  /** Exists: a hit. Get, put, remove: done. A put of a page that is there is done too: it replaces one of
   *  another size. */
  KVC_PAGE_OK = 1,
  KVC_PAGE_MISS = 2, /**< There is no such page, or it did not check. */
  /** The page is being written, read or removed; or it is leased, and was to be removed. */
  KVC_PAGE_PENDING = 3,
  KVC_PAGE_EXPIRED = 4, /**< Get with a generation: that page is gone, though another may have its key. */
  /** Put: all pages are leased or in use, the page is larger than page_bytes, or (dir) the disk is full. */
  KVC_PAGE_NO_SPACE = 5,
  KVC_PAGE_FAILED = 6,     /**< The system or the server failed. */
  KVC_PAGE_TIMEOUT = 7,    /**< It was not done before the deadline. */
  KVC_PAGE_CANCELLED = 8,  /**< The job was cancelled before it was begun. */
  KVC_PAGE_UNAVAILABLE = 9 /**< The server failed before, and is left alone until the next probe. */
};

#endif /* KVCACHE_PAGE_RESULT_H */
