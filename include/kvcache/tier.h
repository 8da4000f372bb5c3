/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_TIER_H
#define KVCACHE_TIER_H

/** @file kvcache/tier.h
 *  @brief Tiers: stores of pages by key, in memory, on a disk or on a server, behind a queue of jobs.
 *
 *  A tier is named by a URL:
 *
 *      memory:?bytes=64GiB
 *      slab:/path/of/file?bytes=1TiB&direct=1
 *      dir:/path/of/folder?bytes=1TiB
 *      sizes:?bytes=1TiB  a model for simulations: keys and sizes, no bytes; a get writes nothing
 *      NAME:...  a plug-in, libkvcache_NAME.so (kvcache/plugin.h), such as redis://host:6379/0?prefix=kv
 *
 *  Parameters of all: threads (that do the work, 0 to 256), jobs (kvc_tier_stats.max_jobs). Of all that are
 *  built in: bytes (must be given); policy=lru or frequency: which page gives way, the one that was not used
 *  for longest, or the one of the least last use + pages of the tier * log2(uses) (memory and slab; others:
 *  lru alone); ttl, such as 90 (seconds), 30m, 12h or 7d: pages that nobody used for so long are misses and
 *  are removed (memory and slab: by now_ns of the jobs, a slab's since it was opened; dir: by the times of
 *  files and the clock of this machine). Of slab: direct=1 (past the page cache), io=auto, uring or threads;
 *  on_mismatch=refuse or replace: what becomes of a slab of another size or version. Of slab and dir: sync=1
 *  (a put waits for the disk), keep_free (bytes of the disk that stay free). Of plug-ins: probe
 *  (milliseconds between tries to reach a server that failed, 1000), and their own.
 *
 *  A job is a batch of items of one kind. All calls return at once; threads of the tier do the work. Each
 *  item has a result of its own. A job ends as a completion, which makes an eventfd readable.
 *
 *  A get never gives wrong bytes: a page is checked by its key, fingerprint and checksum after it was copied.
 *  What does not check is a miss, and is counted.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/page_result.h>
#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_tier_job.kind. */
enum {
  KVC_TIER_EXISTS = 0, /**< Which pages are there? May lease them. */
  KVC_TIER_GET = 1,    /**< Read pages. */
  KVC_TIER_PUT = 2,    /**< Write pages. */
  KVC_TIER_REMOVE = 3  /**< Forget pages. */
};

/** kvc_tier_job.priority: what threads take first. Stores never take the last of several
 *  threads. */
enum {
  KVC_TIER_LOAD = 0,     /**< A request waits for it. */
  KVC_TIER_PREFETCH = 1, /**< A request will want it. Refused if three quarters of max_jobs are taken. */
  KVC_TIER_STORE = 2     /**< Nobody waits for it. Refused if half of max_jobs are taken. */
};

/** One page of a job. Frozen. */
typedef struct kvc_tier_item {
  uint8_t key[32]; /**< kvc_page_key, or any 32 bytes that name the content. */
  void* data;      /**< Get: where the bytes go, undefined unless the result is OK. Put: the page. */
  uint64_t bytes;  /**< Of the whole page. */
  /** [num_runs] Get: only these bytes of the page, one behind the other, ascending. NULL = all. */
  const kvc_run* runs;
  uint64_t num_runs;       /**< Entries of runs. */
  uint64_t generation;     /**< Get: of the lease, 0 = any. Out of exists, get and put. */
  uint64_t lease_until_ns; /**< Out of exists: the page stays until then; 0 = nothing is promised. */
  int32_t result;          /**< Out: KVC_PAGE_* */
  uint32_t reserved;       /**< 0; must be. */
} kvc_tier_item;

/** Which tier to open. `url`, `fingerprint` and `page_bytes` have no default. */
typedef struct kvc_tier_config {
  size_t struct_size;       /**< sizeof(kvc_tier_config) */
  const char* url;          /**< See above. */
  uint8_t fingerprint[32];  /**< Of all pages: kvc_page_info.fingerprint. Pages of another one in the same
                               slab or folder are misses, and give way as all do. Not 0, except for sizes:. */
  uint64_t page_bytes;      /**< Of the largest page, at most 2^40. */
  uint64_t max_store_bytes; /**< Bytes of puts that wait; 0 = 1 GiB. Puts beyond are refused. */
  const kvc_allocator* allocator; /**< NULL = aligned heap memory. */
} kvc_tier_config;

/** A batch of items. */
typedef struct kvc_tier_job {
  size_t struct_size;   /**< sizeof(kvc_tier_job) */
  kvc_tier_item* items; /**< [num_items] They and their buffers are the tier's until the job has ended. */
  size_t num_items;     /**< 1 or more. */
  uint32_t kind;        /**< KVC_TIER_EXISTS, ... */
  uint32_t priority;    /**< KVC_TIER_LOAD, ... */
  uint64_t now_ns;      /**< Time of the caller, for leases and ttl. */
  uint64_t lease_ns;    /**< Exists: hits stay at least until now_ns + lease_ns. 0 = no lease. */
  /** Items that are not begun within it end with TIMEOUT; those of plug-ins also if they are not done. 0 = no
   *  limit. */
  uint64_t timeout_ns;
  uint64_t user_data; /**< Returned in the completion. */
} kvc_tier_job;

/** The end of a job. Frozen. */
typedef struct kvc_tier_completion {
  uint64_t job;       /**< Id of the job. */
  uint64_t user_data; /**< As given. */
  uint64_t num_ok;    /**< Items with KVC_PAGE_OK. */
} kvc_tier_completion;

/** What the jobs of one kind came to. */
typedef struct kvc_tier_counts {
  size_t struct_size; /**< sizeof(kvc_tier_counts) */
  uint64_t jobs;      /**< Accepted. */
  uint64_t items;     /**< Of ended jobs. */
  uint64_t bytes;     /**< Got or put, of items with KVC_PAGE_OK. */
  uint64_t ok, misses, pending, expired, no_space, failed, timeouts, cancelled, unavailable; /**< Items by
                                                                                              result. */
} kvc_tier_counts;

/** State of a tier, and counters since it was created. */
typedef struct kvc_tier_stats {
  size_t struct_size;                             /**< sizeof(kvc_tier_stats) */
  uint64_t pages, capacity_pages;                 /**< Gauges; 0 = unknown. */
  uint64_t bytes, capacity_bytes;                 /**< The same in bytes. */
  uint64_t max_jobs;                              /**< Jobs at one time, those not polled included. */
  uint64_t waiting_jobs, running_jobs, done_jobs; /**< Gauges. */
  uint64_t waiting_store_bytes;                   /**< Gauge: bytes of puts that wait. */
  uint64_t refused_loads, refused_prefetches, refused_stores; /**< Jobs refused because of max_jobs. */
  uint64_t refused_bytes;                                     /**< Jobs refused because of max_store_bytes. */
  uint64_t evictions;    /**< Pages that gave way to others, because of the bound of the tier. */
  uint64_t recovered;    /**< Pages found when the tier was opened. */
  uint64_t bad_headers;  /**< Misses, because the header was not one of this page. */
  uint64_t bad_payloads; /**< Misses, because the checksum did not match. */
  uint64_t failures;     /**< Of the system or server. */
  int64_t last_errno;    /**< Of the last failure; 0 = none, or not known. */
  uint64_t fallbacks;    /**< I/O past the page cache or by io_uring that the system refused: done without. */
  uint64_t outages;    /**< Times that reads or writes of a server were given up, after failures in a row. */
  uint32_t available;  /**< 1 = in use; 0 = given up (outages), and nothing has succeeded since. */
  uint32_t uses_uring; /**< 1 = io_uring does the I/O. */
  uint64_t disk_evictions; /**< Pages that gave way because the disk was full, or for keep_free. */
  uint64_t expired;        /**< Pages removed because nobody used them for ttl. */
  uint64_t removed;        /**< Pages removed by jobs. */
  uint64_t mismatches;     /**< Pages whose key came again with another size, which replaced them. */
} kvc_tier_stats;

/** Opens a tier. @param[out] tier Free it with kvc_tier_destroy.
 *  @return KVC_OK; INVALID_ARGUMENT (the URL: the text names the part; a fingerprint of zeroes; a file of
 *  another size, or for smaller pages; a file or folder that its group or others may write to); NOT_FOUND (a
 *  plug-in; a folder); UNSUPPORTED (a policy that the kind has not; a plug-in of another version; a file of
 *  another version); BUSY (another process has the file); LIMIT (the disk is full, descriptors);
 *  OUT_OF_MEMORY; DEVICE (the system refuses something else, such as a lock, or a write to a read-only
 *  folder); and what the plug-in says. Since 0.3. */
KVC_API kvc_status kvc_tier_create(const kvc_tier_config* config, kvc_tier** tier);

/** Cancels what waits, waits for what runs, and frees the tier. Results of all items are written. NULL is
 *  ignored. No other call on it may run. Since 0.3. */
KVC_API void kvc_tier_destroy(kvc_tier* t);

/** Enqueues a job. Nothing is done if it is refused.
 *  @param[out] id Id of the job.
 *  @return KVC_OK; INVALID_ARGUMENT; BUSY (it is an offload's); LIMIT (the queue has no room: the reason is
 *  counted). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_tier_submit(kvc_tier* t, const kvc_tier_job* job, uint64_t* id);

/** Cancels items that are not begun. The job still ends as a completion. @return KVC_OK; NOT_FOUND (no such
 *  job, or nothing of it waits). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_tier_cancel(kvc_tier* t, uint64_t id);

/** Takes completions, oldest first, and ends items whose time is over.
 *  @param[out] completions [capacity] @param[out] count How many.
 *  @return KVC_OK; INVALID_ARGUMENT; BUSY (it is an offload's). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_tier_poll(kvc_tier* t, kvc_tier_completion* completions, size_t capacity,
                                 size_t* count);

/** The eventfd that is readable as long as there are completions to poll. It is the tier's: do not read or
 *  close it. Who waits for it polls at deadlines too. @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since
 *  0.3. */
KVC_API kvc_status kvc_tier_event_fd(kvc_tier* t, int32_t* fd);

/** With threads=0: does the next item, or batch of items, in the calling thread. @param[out] done 0 = nothing
 *  waits. @return KVC_OK; UNSUPPORTED (the tier has threads). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_tier_run_one(kvc_tier* t, int32_t* done);

/** Waits until nothing waits or runs; with threads=0 it does the work. Jobs that others submit meanwhile make
 *  it longer. @return KVC_OK; INVALID_ARGUMENT.
 *  Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_tier_drain(kvc_tier* t);

/** State and counters. @param[out] stats The caller sets struct_size. @return KVC_OK; INVALID_ARGUMENT.
 *  Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_tier_read_stats(kvc_tier* t, kvc_tier_stats* stats);

/** Counters of one kind of job. @param[in] kind KVC_TIER_EXISTS, ... @param[out] counts The caller sets
 *  struct_size. @return KVC_OK; INVALID_ARGUMENT (no such kind). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_tier_read_counts(kvc_tier* t, uint32_t kind, kvc_tier_counts* counts);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_TIER_H */
