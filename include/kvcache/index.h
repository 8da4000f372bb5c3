/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_INDEX_H
#define KVCACHE_INDEX_H

/** @file kvcache/index.h
 *  @brief The index of a router: which worker has how much of a prompt cached.
 *
 *  A worker is one engine with one manager. The router gives the index the events of all workers, and asks it
 *  where the longest prefix of a prompt is. docs/INDEX.md is the manual.
 *
 *      kvc_index_config config = {.struct_size = sizeof config, .max_blocks = 1000000};
 *      kvc_index_create(&config, &index);
 *      kvc_index_add_worker(index, 7, "engine-7", now_ns);
 *      kvc_index_apply(index, 7, 0, events, sizeof *events, num_events, now_ns, NULL);
 *      kvc_index_match(index, digests, num_digests, workers, matched, capacity, &count);
 *
 *  MEDIA. A worker may keep blocks in several media, such as 0 = device, 1 = host, 2 = disk. Their numbers
 *  are the caller's. The events of each medium of a worker are a stream of their own.
 *
 *  STREAMS. Each stream is in one of two states. It is complete: the index has applied every event from the
 *  first one, or from a resync, up to next_sequence. Or it is stale: events are missing. The index goes on
 *  applying the events of a stale stream, and matches go on using it: they may count too much or too little
 *  of it until it is complete again. KVC_INDEX_HIDE_STALE leaves workers with a stale stream out. There are
 *  two ways back: the missing events arrive (replay), or the worker lists what it has
 *  (kvc_index_begin_resync).
 *
 *  RESTARTS. A stream that begins again has old sequences with new times (kvc_event.time_ns); the index then
 *  forgets what it said before. It notices this by an event before next_sequence whose time is later than all
 *  before, or by event 0 or event next_sequence - 1 with another time. So replay from next_sequence - 1. If
 *  you know that a worker restarted, remove it and add it again.
 *
 *  POSITIONS WITHOUT A BLOCK (events with block -1) only advance the stream.
 *
 *  WHAT A MATCH GUARANTEES. The index compares the first 128 bits of kvc_event.digest, a SHA-256 chain over
 *  namespace, tokens and extra keys. Two prefixes that agree in them would be taken for one. If all streams
 *  of a worker are complete and nothing was evicted, its counts are exactly what the worker has.
 *
 *  THREADING. Any thread may call any function at any time, except during the destroy call. kvc_index_match
 *  and kvc_index_match_tokens take no lock and never wait; all other calls exclude each other. Nothing reads
 *  a clock: now_ns is the caller's.
 *
 *  <kvcache.h> states the conventions of all calls. */

#include <kvcache/events.h>
#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

struct kvc_namespace_config;
typedef struct kvc_index kvc_index; /**< Which worker has which prefix. */

#define KVC_INDEX_MAX_MEDIA 8      /**< Most media. */
#define KVC_INDEX_MAX_WORKERS 1024 /**< Most workers at a time. */
/** A medium argument that stands for all media of a worker. */
#define KVC_INDEX_ALL_MEDIA UINT32_MAX

/** kvc_index_config.flags. */
enum {
  KVC_INDEX_HIDE_STALE = 1 /**< A match leaves out workers with a stale stream. */
};

/** An index (kvc_index_create). */
typedef struct kvc_index_config {
  size_t struct_size; /**< sizeof(kvc_index_config) */
  /** Most blocks at a time, 1 .. 2^30; a block counts once, however many workers have it. 0 = 1,048,576. At
   *  this limit a block leaves that nobody has matched, or another worker stored, for the longest time
   *  (CLOCK, which approximates that order). */
  uint64_t max_blocks;
  /** A worker that is silent for longer is removed by kvc_index_expire. 0 = never. */
  uint64_t ttl_ns;
  uint32_t max_workers; /**< 1 .. KVC_INDEX_MAX_WORKERS. 0 = 256. */
  uint32_t num_media;   /**< 1 .. KVC_INDEX_MAX_MEDIA. 0 = 4. */
  /** Most namespaces with blocks, of all workers together: each worker counts its own. Up to 2^20, at least
   *  max_workers. 0 = 16 * max_workers. */
  uint32_t max_namespaces;
  uint32_t group;    /**< Group whose events count. Events of other groups only advance the stream. */
  uint32_t flags;    /**< KVC_INDEX_HIDE_STALE. */
  uint32_t reserved; /**< 0. */
  const kvc_allocator* allocator; /**< For its memory. NULL = malloc. Copied. */
} kvc_index_config;

/** What kvc_index_apply has done. */
typedef struct kvc_index_applied {
  size_t struct_size;     /**< sizeof(kvc_index_applied) */
  uint64_t applied;       /**< Events applied. */
  uint64_t ignored;       /**< Events that had been applied before. */
  uint64_t next_sequence; /**< The first event that is missing; replay from the one before. */
  uint32_t is_stale;      /**< 1 = events are missing before the newest one. */
  uint32_t restarts;      /**< Restarts of the worker that the events showed. */
} kvc_index_applied;

/** A worker (kvc_index_worker_info). */
typedef struct kvc_index_worker {
  size_t struct_size;                          /**< sizeof(kvc_index_worker) */
  char name[64];                               /**< As given, ended by 0. */
  uint64_t last_heard_ns;                      /**< Latest now_ns of its calls. */
  uint64_t num_blocks[KVC_INDEX_MAX_MEDIA];    /**< Blocks per medium. */
  uint64_t next_sequence[KVC_INDEX_MAX_MEDIA]; /**< First event missing, per medium. */
  uint32_t is_stale[KVC_INDEX_MAX_MEDIA];      /**< 1 = the stream of that medium is stale. */
} kvc_index_worker;

/** Counters of an index (kvc_index_read_stats). */
typedef struct kvc_index_stats {
  size_t struct_size;       /**< sizeof(kvc_index_stats) */
  uint64_t num_workers;     /**< Now. */
  uint64_t num_blocks;      /**< Now. */
  uint64_t num_holdings;    /**< (block, worker, medium) now. */
  uint64_t num_sets;        /**< Different sets of holders now. */
  uint64_t bytes_allocated; /**< Its memory. Large arrays take pages of the system when they are used. */
  uint64_t bytes_used;      /**< Of them used at some time. */
  uint64_t applied_events;  /**< Since it was created. */
  uint64_t ignored_events;  /**< Had been applied before. */
  uint64_t gaps;            /**< Times that a stream without missing events skipped some. */
  /** Had no room: too many namespaces, or words of holders. Their stream is stale. */
  uint64_t dropped_events;
  uint64_t evicted_blocks;  /**< By max_blocks. */
  uint64_t restarts;        /**< Restarts of streams. */
  uint64_t expired_workers; /**< By ttl_ns. */
} kvc_index_stats;

/** Makes an index and takes its memory. Destroy it with kvc_index_destroy.
 *  @return KVC_OK; INVALID_ARGUMENT (out of range); UNSUPPORTED (flags, reserved); OUT_OF_MEMORY. Since 0.3.
 */
KVC_API kvc_status kvc_index_create(const kvc_index_config* config, kvc_index** index);

/** Frees an index. NULL does nothing. Since 0.3. */
KVC_API void kvc_index_destroy(kvc_index* index);

/** Adds a worker, whose streams begin at sequence 0.
 *  @param[in] worker Any number. @param[in] name At most 63 bytes; NULL = none.
 *  @return KVC_OK; BUSY (the index has it); INVALID_ARGUMENT (name); LIMIT (max_workers). Since 0.3. */
KVC_API kvc_status kvc_index_add_worker(kvc_index* index, uint64_t worker, const char* name, uint64_t now_ns);

/** Removes a worker and forgets what it has, in O(max_blocks). @return KVC_OK; NOT_FOUND. Since 0.3. */
KVC_API kvc_status kvc_index_remove_worker(kvc_index* index, uint64_t worker);

/** Says that a worker lives, for ttl_ns. kvc_index_apply says it too. @return KVC_OK; NOT_FOUND. Since 0.3.
 */
KVC_API kvc_status kvc_index_touch_worker(kvc_index* index, uint64_t worker, uint64_t now_ns);

/** Removes the workers that were silent for more than ttl_ns before now_ns. @param[out] num_removed May be
 *  NULL. @return KVC_OK. Since 0.3. */
KVC_API kvc_status kvc_index_expire(kvc_index* index, uint64_t now_ns, uint64_t* num_removed);

/** Applies events of one medium of a worker, as kvc_manager_poll_events gives them. Per event O(1), but
 *  one that clears O(max_blocks). An event that was applied before is ignored. An event after a gap is
 *  applied, and the stream is stale until the missing ones have been applied too, from next_sequence on and
 *  in order. Between kvc_index_begin_resync and kvc_index_end_resync the sequences of events are not looked
 *  at.
 *  @param[in]  medium  0 .. num_media - 1.
 *  @param[in]  events  [num_events] @param[in] event_size sizeof(kvc_event)
 *  @param[out] applied May be NULL.
 *  @return KVC_OK; NOT_FOUND (worker); INVALID_ARGUMENT (medium, event_size, an event of unknown kind: no
 *  event is applied). Since 0.3. */
KVC_API kvc_status kvc_index_apply(kvc_index* index, uint64_t worker, uint32_t medium,
                                   const kvc_event* events, size_t event_size, size_t num_events,
                                   uint64_t now_ns, kvc_index_applied* applied);

/** Begins a resync: forgets what a worker has in a medium, in O(max_blocks). Then apply all events of
 *  kvc_manager_list_prefixes, and end it.
 *  @param[in] medium A medium, or KVC_INDEX_ALL_MEDIA.
 *  @return KVC_OK; NOT_FOUND (worker); INVALID_ARGUMENT (medium). Since 0.3. */
KVC_API kvc_status kvc_index_begin_resync(kvc_index* index, uint64_t worker, uint32_t medium);

/** Ends a resync: the stream is complete up to next_sequence.
 *  @param[in] next_sequence The event_cursor of kvc_manager_list_prefixes.
 *  @return KVC_OK; NOT_FOUND (worker); INVALID_ARGUMENT (medium); BUSY (no resync has begun). Since 0.3. */
KVC_API kvc_status kvc_index_end_resync(kvc_index* index, uint64_t worker, uint32_t medium,
                                        uint64_t next_sequence);

/** Identity of a namespace, for kvc_index_match_tokens and kvc_index_digests: parent_digest of its first
 *  positions in every manager. Needs no index.
 *  @param[in]  config As for kvc_manager_open_namespace; NULL = the default namespace.
 *  @param[out] root   [32]
 *  @return KVC_OK; INVALID_ARGUMENT. Since 0.3. */
KVC_API kvc_status kvc_index_root(const struct kvc_namespace_config* config, uint8_t* root);

/** Finds how many blocks of a prompt each worker has, from the first block on without a gap. Takes no lock.
 *  It needs 48 KB of stack.
 *  @param[in]  digests [num_blocks][32] from kvc_manager_position_digests or kvc_index_digests.
 *  @param[out] workers [capacity] The workers that have the first block, in no particular order.
 *  @param[out] matched [capacity][1 + num_media] Blocks of that worker: in any medium, then in each medium
 *  alone.
 *  @param[out] count   Number of these workers.
 *  @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed; max_workers always suffices). Since 0.3. */
KVC_API kvc_status kvc_index_match(kvc_index* index, const uint8_t* digests, size_t num_blocks,
                                   uint64_t* workers, uint32_t* matched, size_t capacity, size_t* count);

/** The same for the tokens of a prompt without extra keys. Full blocks count. It stops to hash where no
 *  worker has more.
 *  @param[in] root [32] from kvc_index_root; NULL = the default namespace. @param[in] tokens [num_tokens]
 *  @param[in] block_size Of the workers, 1 .. 1024.
 *  @return As kvc_index_match; INVALID_ARGUMENT (block_size); LIMIT (2^24 tokens). Since 0.3. */
KVC_API kvc_status kvc_index_match_tokens(kvc_index* index, const uint8_t* root, const int32_t* tokens,
                                          size_t num_tokens, uint32_t block_size, uint64_t* workers,
                                          uint32_t* matched, size_t capacity, size_t* count);

/** Digests of the full blocks of a prompt without extra keys, where there is no manager: what
 *  kvc_manager_position_digests gives. Needs no index.
 *  @param[in]  root    As in kvc_index_match_tokens. @param[out] digests [capacity][32]
 *  @param[out] count   Full blocks of the prompt.
 *  @return KVC_OK; INVALID_ARGUMENT (block_size); LIMIT (2^24 tokens); BUFFER_TOO_SMALL (count: needed).
 *  Since 0.3. */
KVC_API kvc_status kvc_index_digests(const uint8_t* root, const int32_t* tokens, size_t num_tokens,
                                     uint32_t block_size, uint8_t* digests, size_t capacity, size_t* count);

/** Lists the workers, in no particular order. @param[out] workers [capacity] @param[out] count Their number.
 *  @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed). Since 0.3. */
KVC_API kvc_status kvc_index_list_workers(kvc_index* index, uint64_t* workers, size_t capacity,
                                          size_t* count);

/** Describes a worker. @return KVC_OK; NOT_FOUND. Since 0.3. */
KVC_API kvc_status kvc_index_worker_info(kvc_index* index, uint64_t worker, kvc_index_worker* info);

/** Reads the counters. @return KVC_OK. Since 0.3. */
KVC_API kvc_status kvc_index_read_stats(kvc_index* index, kvc_index_stats* stats);

/** Writes the workers, their streams and all blocks into memory, for kvc_index_load of this version or a
 *  later one. Equal calls give equal bytes.
 *  @param[out] data [capacity] @param[out] size Bytes of the dump.
 *  @return KVC_OK; BUFFER_TOO_SMALL (size is what is needed; ask with capacity 0). Since 0.3. */
KVC_API kvc_status kvc_index_dump(kvc_index* index, void* data, size_t capacity, size_t* size);

/** Loads a dump into an index that has no workers. The streams go on where they were: events that have
 *  happened since show as a gap, or are read from next_sequence. Media, group and at least as much room as
 *  the dump uses are needed.
 *  @return KVC_OK; BUSY (the index has workers); INVALID_ARGUMENT (no dump, truncated, damaged, other media
 *  or group); UNSUPPORTED (version); LIMIT (max_blocks, max_workers, max_namespaces). On failure nothing is
 *  loaded. Since 0.3. */
KVC_API kvc_status kvc_index_load(kvc_index* index, const void* data, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_INDEX_H */
