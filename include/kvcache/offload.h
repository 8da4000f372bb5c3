/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_OFFLOAD_H
#define KVCACHE_OFFLOAD_H

/** @file kvcache/offload.h
 *  @brief Offload: cached blocks go to tiers, and come back before a request that needs them is admitted.
 *
 *  An offload binds a manager, its storages and a chain of tiers (kvcache/tier.h). It copies blocks that were
 *  published to all tiers. Before you admit a request, let it look for the prompt in the tiers: pages that
 *  are there become cached blocks, and the admission hits them. The manual is docs/OFFLOAD.md.
 *
 *      kvc_offload_lookup(o, request, now);             // of a new or preempted request
 *      // in the engine's loop:
 *      kvc_offload_poll(o, now, stream);
 *      kvc_offload_query(o, request, &info);
 *      if (info.state == KVC_OFFLOAD_READY || info.state == KVC_OFFLOAD_NONE) admit(request);
 *
 *  Only kvc_offload_flush, kvc_offload_destroy and a poll without a stream after polls with one wait. Calls
 *  on one offload must not overlap. Time is yours: now_ns, in ns, never goes back.
 *
 *  A poll reads blocks. Before it, execute the copies and moves that the manager has asked for
 *  (kvc_step.copies, kvc_manager_take_pending, kvc_manager_compact, kvc_manager_resize), on the poll's stream
 *  if there is one.
 *
 *  A page that fails, is missing or does not check shortens the prefix that is loaded; the rest is computed
 *  as ever. Blocks become cached only when all their bytes are there.
 *
 *  A tier whose reads fail three times in a row is left alone for retry_ns; then one of them tries it again.
 *  Writes that fail, or find no room, three times in a row end writes alone.
 *
 *  What kvc_manager_unpublish_blocks takes back may be in the tiers already, and comes back from there:
 *  publish only what is right, or use other `weights` afterwards.
 *
 *  The manager needs events (kvc_manager_config.event_capacity), whatever the policy.
 *
 *  <kvcache.h> states the conventions of all calls. */

#include <kvcache/page.h>
#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_offload_config.policy: which blocks are stored, several together. 0 = those of
 *  kvc_offload_store_request alone. */
enum {
  KVC_OFFLOAD_WRITE_THROUGH = 1,  /**< Each block that is published. */
  KVC_OFFLOAD_SECOND_USE = 2,     /**< Blocks that a lookup finds cached. */
  KVC_OFFLOAD_BEFORE_EVICTION = 4 /**< The cached blocks that leave next, a few at each poll. */
};

/** kvc_offload_config.flags. */
enum {
  KVC_OFFLOAD_NO_PROMOTE = 1 /**< What was loaded from one tier is not stored in the others. */
};

/** kvc_offload_info.state. */
enum {
  KVC_OFFLOAD_NONE = 0,    /**< Nothing is under way: admit it. */
  KVC_OFFLOAD_LOOKING = 1, /**< The tiers are asked, or another request loads the same content. */
  KVC_OFFLOAD_LOADING = 2, /**< Pages are read. */
  KVC_OFFLOAD_READY = 3    /**< Admit it now: what was loaded is held for hold_ns. */
};

/** kvc_offload_info.reason, of READY. */
enum {
  KVC_OFFLOAD_NOTHING = 1, /**< The tiers have nothing that the manager lacks. */
  /** Computing is expected to be faster (compute_ns_per_token), or too little was found (min_load_tokens). */
  KVC_OFFLOAD_SLOWER = 2,
  KVC_OFFLOAD_NO_ROOM = 3,  /**< The pools had no blocks. */
  KVC_OFFLOAD_FAILED = 4,   /**< A page failed: less was loaded than was found. */
  KVC_OFFLOAD_LOADED = 5,   /**< All that was found is loaded. */
  KVC_OFFLOAD_CANCELLED = 6 /**< Not seen: a lookup that was cancelled is forgotten. */
};

/** What to offload where. The manager has groups of kinds FULL, SLIDING_WINDOW and CHUNKED_LOCAL alone,
 *  events, and with storages no KVC_MANAGER_ZERO_* flag. The caller's objects must outlive the offload. */
typedef struct kvc_offload_config {
  size_t struct_size;   /**< sizeof(kvc_offload_config) */
  kvc_manager* manager; /**< Whose blocks. */
  /** [num_groups] The storage of each group, all of one device; NULL = there are no bytes, sizes alone count:
   *  for simulations. */
  kvc_storage* const* storages;
  const uint64_t* page_bytes;   /**< [num_groups] Without storages: bytes of a page of each group. */
  kvc_tier* const* tiers;       /**< [num_tiers] Fastest first. Nobody else has jobs in them. */
  size_t num_tiers;             /**< 1 to 8. */
  const kvc_page_config* pages; /**< Names of model and weights. Each storage has whole pages. */
  uint32_t policy;              /**< KVC_OFFLOAD_WRITE_THROUGH, ... */
  uint32_t flags;               /**< KVC_OFFLOAD_NO_PROMOTE, ... */
  uint32_t num_pages;           /**< Staging pages in host memory; 0 = 64. Loads keep a quarter of them. */
  uint32_t max_lookups;         /**< Requests at one time; 0 = 16. */
  /** Blocks of a prompt beyond its hit that are looked up; 0 = 1024. Of one request,
   *  kvc_request_config.max_cached_tokens is a bound, too. */
  uint32_t max_lookup_blocks;
  uint32_t clean_blocks; /**< BEFORE_EVICTION: blocks of each pool at each poll; 0 = 64. */
  uint64_t timeout_ns;   /**< How long a lookup waits for a job of a tier; 0 = 10 s. */
  uint64_t hold_ns;      /**< How long loaded blocks wait for the admission; 0 = 1 s. */
  /** Time that the engine takes to compute a token of a prompt. A load that is expected to take longer is not
   *  begun. 0 = everything is loaded. */
  double compute_ns_per_token;
  const kvc_allocator* allocator; /**< NULL = aligned heap memory. */
  uint64_t min_load_tokens;       /**< A load of fewer tokens is not begun; 0 = each is. */
  uint64_t retry_ns;              /**< How long a tier that fails is left alone; 0 = 1 s. */
} kvc_offload_config;

/** How far the lookup of a request is. */
typedef struct kvc_offload_info {
  size_t struct_size;  /**< sizeof(kvc_offload_info) */
  uint32_t state;      /**< KVC_OFFLOAD_NONE, ... */
  uint32_t reason;     /**< Of READY: KVC_OFFLOAD_NOTHING, ...; else 0. */
  uint64_t num_cached; /**< Tokens that the manager had cached. */
  uint64_t num_found;  /**< Tokens beyond them that the tiers have. */
  uint64_t num_loaded; /**< Tokens that are cached now because they were loaded. */
} kvc_offload_info;

/** State of an offload, and counters since it was created. */
typedef struct kvc_offload_stats {
  size_t struct_size;        /**< sizeof(kvc_offload_stats) */
  uint64_t waiting_blocks;   /**< Gauge: to be stored. */
  uint64_t busy_pages;       /**< Gauge: staging pages in use. */
  uint64_t busy_lookups;     /**< Gauge. */
  uint64_t published_blocks; /**< Seen by WRITE_THROUGH. */
  uint64_t dropped_events;   /**< Of them lost, because the manager's events were read too late. */
  uint64_t dropped_blocks;   /**< Not stored, because too many waited. */
  uint64_t gone_blocks;      /**< Not stored, because they were evicted before. */
  uint64_t lookups;          /**< Begun. */
  uint64_t slower_loads;     /**< Not begun: computing is expected to be faster, or too little was found. */
  uint64_t refused_loads;    /**< Loads for which the pools had no room. */
  uint64_t loads;            /**< Begun. */
  uint64_t short_loads;      /**< Of them ended with less than was found. */
  uint64_t loaded_tokens;    /**< Made cached. */
  uint64_t failed_publications; /**< Loads that the manager did not take. */
} kvc_offload_stats;

/** Counters of one tier of an offload. */
typedef struct kvc_offload_tier_stats {
  size_t struct_size;                  /**< sizeof(kvc_offload_tier_stats) */
  uint64_t hits, misses;               /**< Pages asked for. */
  uint64_t loaded_pages, loaded_bytes; /**< Read. */
  uint64_t failed_loads;               /**< Pages that were found and could not be read, or did not check. */
  uint64_t stored_pages, stored_bytes; /**< Written, or there already. */
  uint64_t refused_stores;             /**< Dropped: the tier's queue was full, or it is left alone. */
  uint64_t failed_stores;              /**< The tier had no space, failed, or did not come to it in time. */
  uint64_t waits;                      /**< Loads that the queue refused at first. */
  double load_ns_per_byte;             /**< Gauge: what loads took lately; 0 = not measured. */
  uint64_t outages;   /**< Times that reads or writes were given up, after failures in a row. */
  uint64_t available; /**< Gauge: 0 = they were given up, and none has succeeded since. */
  /** Why pages that were there when the offload was made are misses: the first field that differs and both
   *  values, such as `weights is "v1" there and "v2" here`; ended by 0. Empty: the tier had pages of these
   *  fields, or none that are described. Printable ASCII. */
  char difference[256];
} kvc_offload_tier_stats;

/** Makes an offload. @param[out] offload Free it with kvc_offload_destroy, before manager, storages and
 *  tiers.
 *  @return KVC_OK; INVALID_ARGUMENT; UNSUPPORTED (kinds of groups, no events, KVC_MANAGER_ZERO_*, storages
 *  of two devices or with parts of pages, a tier sizes: with storages); BUSY (a tier has an offload, or
 *  jobs); LIMIT, OUT_OF_MEMORY, DEVICE. Since 0.3. */
KVC_API kvc_status kvc_offload_create(const kvc_offload_config* config, kvc_offload** offload);

/** Ends all work: waits for jobs that tiers have begun, and gives back all blocks. Blocks that wait to be
 *  stored are not; call kvc_offload_flush before, if they should. NULL is ignored. Since 0.3. */
KVC_API void kvc_offload_destroy(kvc_offload* o);

/** A descriptor that is readable when a tier has done something: then poll. It is the offload's.
 *  @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_offload_event_fd(kvc_offload* o, int32_t* fd);

/** Moves everything on: takes what tiers have done, stores blocks, loads pages.
 *  @param[in] stream The stream of the kernels that read and write blocks; copies to and from blocks are
 *  enqueued there. NULL = all your work on the storages has ended before this call. It waits for copies that
 *  earlier polls enqueued on a stream, and copies at once.
 *  @return KVC_OK; INVALID_ARGUMENT (a stream of another device). Since 0.3. */
KVC_API kvc_status kvc_offload_poll(kvc_offload* o, uint64_t now_ns, kvc_stream* stream);

/** Polls until all blocks that wait to be stored are in the tiers, or were dropped: the counters of the tiers
 *  tell of these. What a tier's queue refuses meanwhile is offered again. Blocks that others publish
 *  meanwhile make it longer.
 *  @param[in] timeout_ns How long it may wait, by the system's clock; 0 = one poll, UINT64_MAX = no limit.
 *  @param[in] stream As for kvc_offload_poll.
 *  @param[out] num_left Blocks that are not stored yet; 0 = nothing is left. With UINT64_MAX: those whose
 *  content is still to come, such as of a step in flight.
 *  @return KVC_OK, whatever is left; INVALID_ARGUMENT. Since 0.3. */
KVC_API kvc_status kvc_offload_flush(kvc_offload* o, uint64_t now_ns, uint64_t timeout_ns, kvc_stream* stream,
                                     uint64_t* num_left);

/** Begins to look for the tokens of a waiting request beyond its hit, and to load them. Does nothing if that
 *  is under way. Ends by itself when the request is admitted or freed.
 *  @return KVC_OK; NOT_FOUND, BUSY (it is admitted), LIMIT (max_lookups), OUT_OF_MEMORY. After an error admit
 *  the request as ever. Since 0.3. */
KVC_API kvc_status kvc_offload_lookup(kvc_offload* o, uint64_t request, uint64_t now_ns);

/** The same with a bound on what is loaded. Does nothing, whatever the bound, if a lookup of the request is
 *  under way. @param[in] max_tokens Tokens beyond the hit, in whole blocks; fewer than a block load nothing;
 *  0 = no bound but max_lookup_blocks. @return As kvc_offload_lookup. Since 0.3. */
KVC_API kvc_status kvc_offload_load(kvc_offload* o, uint64_t request, uint64_t max_tokens, uint64_t now_ns);

/** Tells how far it is. @param[out] info The caller sets struct_size. @return KVC_OK; INVALID_ARGUMENT. Since
 *  0.3. */
KVC_API kvc_status kvc_offload_query(kvc_offload* o, uint64_t request, kvc_offload_info* info);

/** Ends a lookup and gives back its blocks.
 *  @return KVC_OK, also if there is none. Since 0.3. */
KVC_API kvc_status kvc_offload_cancel(kvc_offload* o, uint64_t request);

/** Stores the published blocks of an admitted request, whatever the policy says. Call it before you preempt
 *  the request: a lookup brings them back.
 *  @param[out] num_blocks How many it has. @return KVC_OK; INVALID_ARGUMENT. Since 0.3. */
KVC_API kvc_status kvc_offload_store_request(kvc_offload* o, uint64_t request, uint64_t* num_blocks);

/** State and counters. @param[out] stats The caller sets struct_size. @return KVC_OK; INVALID_ARGUMENT. Since
 *  0.3. */
KVC_API kvc_status kvc_offload_read_stats(kvc_offload* o, kvc_offload_stats* stats);

/** Counters of one tier. @param[in] tier Its index. @param[out] stats The caller sets struct_size. @return
 *  KVC_OK; INVALID_ARGUMENT. Since 0.3. */
KVC_API kvc_status kvc_offload_read_tier_stats(kvc_offload* o, uint32_t tier, kvc_offload_tier_stats* stats);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_OFFLOAD_H */
