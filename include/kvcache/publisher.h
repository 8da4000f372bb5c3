/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_PUBLISHER_H
#define KVCACHE_PUBLISHER_H

/** @file kvcache/publisher.h
 *  @brief Publishers: a manager's events on the wire, for routers that know those of vLLM and SGLang.
 *
 *  A publisher reads the events of a manager (kvcache/events.h), drops pairs that cancel out, encodes batches
 *  in vLLM's schema (MessagePack; docs/EVENTS.md), numbers them from 0, keeps the last ones for replay, and
 *  hands them to a transport: a plug-in such as zmq (kvcache/plugin.h). It never holds the manager's lock
 *  longer than kvc_manager_poll_events does.
 *
 *  Its first batch says that everything is cleared, then lists what is cached. It does so again whenever
 *  events were lost. Applied in order, its batches give what can be found in the manager, exactly.
 *
 *  <kvcache.h> includes this header and states the conventions of all calls. */

#include <kvcache/events.h>
#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** A publisher. Opaque; created by kvc_publisher_create. */
typedef struct kvc_publisher kvc_publisher;

/** kvc_publisher_config.hash: what blocks are called. */
enum {
  KVC_PUBLISHER_DIGEST = 0, /**< kvc_event.digest. */
  /** As vLLM with --prefix-caching-hash-algo sha256_cbor. Extra keys: a digest where vLLM has a name. */
  KVC_PUBLISHER_VLLM = 1,
  KVC_PUBLISHER_SGLANG = 2 /**< As SGLang. */
};

/** kvc_publisher_config.flags. */
enum {
  KVC_PUBLISHER_THREAD = 1, /**< A thread of its own publishes. Otherwise kvc_publisher_poll does. */
  KVC_PUBLISHER_ARRAYS = 2, /**< Events are arrays, as before vLLM 0.26, instead of maps. */
  /** Hashes are 32 bytes. Otherwise integers: of SGLang the first 8 bytes, signed, big-endian; of others the
   *  last 8, unsigned. */
  KVC_PUBLISHER_BYTES = 4,
  KVC_PUBLISHER_NO_RANK = 8,    /**< The data parallel rank of a batch is nil. */
  KVC_PUBLISHER_NO_GROUPS = 16, /**< Events name no group. Not with several groups that are published. */
  KVC_PUBLISHER_ALL_FLAGS = 31  /**< All of these. */
};

/** Settings of a publisher. */
typedef struct kvc_publisher_config {
  size_t struct_size;   /**< sizeof(kvc_publisher_config) */
  kvc_manager* manager; /**< With event_capacity. It must outlive the publisher. */
  /** Transport, such as "zmq:tcp://0.0.0.0:5557?replay=tcp://0.0.0.0:5558": a plug-in and what it reads. NULL
   *  = none: kvc_publisher_read gives the batches. */
  const char* url;
  const char* topic;     /**< First frame of each batch, at most 255 bytes. NULL = "". */
  const char* medium;    /**< Where the blocks are, at most 63 bytes: "GPU", "CPU". NULL = "GPU". */
  const char* hash_seed; /**< KVC_PUBLISHER_VLLM: its PYTHONHASHSEED. NULL = vLLM's own default. */
  uint64_t groups;       /**< Groups to publish, bit g is group g. 0 = all. */
  uint64_t interval_ns;  /**< KVC_PUBLISHER_THREAD: time between looks, at most 1 s. 0 = 10 ms. */
  /** Memory for batches that are kept for replay. Untouched memory costs nothing. 0 = 64 MiB. */
  uint64_t replay_bytes;
  /** A subscriber that asks for a batch that is not kept any more starts a resync, but none before this time
   *  since the last one. 0 = 10 s; UINT64_MAX = never. */
  uint64_t resync_interval_ns;
  uint32_t replay_batches; /**< Batches to keep, at most 2^20. 0 = 10,000. */
  uint32_t max_blocks;     /**< Blocks in a batch, at most 65,536. 0 = 1024. */
  uint32_t rank;           /**< Data parallel rank, below 2^31. */
  uint32_t hash;           /**< KVC_PUBLISHER_DIGEST, ... */
  uint32_t flags;          /**< KVC_PUBLISHER_THREAD, ... */
  uint32_t reserved;       /**< 0 */
} kvc_publisher_config;

/** What subscribers know of a namespace. */
typedef struct kvc_publisher_namespace {
  size_t struct_size;    /**< sizeof(kvc_publisher_namespace) */
  uint64_t namespace_id; /**< 0 = the default one. */
  /** Name of the LoRA adapter, at most 255 bytes. NULL = none. */
  const char* lora_name;
  const char* lora_path; /**< For KVC_PUBLISHER_VLLM: where it was loaded from. NULL = "". */
  /** For the hashes of VLLM and SGLANG: cache_salt of the requests. NULL = none; without lora_name too, the
   *  digest of a namespace other than the default one, so that namespaces never share a hash. */
  const char* cache_salt;
} kvc_publisher_namespace;

/** Counters of a publisher, from its creation on. */
typedef struct kvc_publisher_stats {
  size_t struct_size;         /**< sizeof(kvc_publisher_stats) */
  uint64_t next_sequence;     /**< Batches published, also the number of the next one. */
  uint64_t stored_blocks;     /**< Told in BlockStored. */
  uint64_t removed_blocks;    /**< Told in BlockRemoved. */
  uint64_t cancelled_events;  /**< Not told: stored and removed, or removed and stored, in one batch. */
  uint64_t bytes;             /**< Of all payloads. */
  uint64_t resyncs;           /**< AllBlocksCleared with all that is cached behind it; the first one too. */
  uint64_t lost_events;       /**< Left the manager's ring before they were read. A resync followed. */
  uint64_t unresolved_blocks; /**< Not told: VLLM, SGLANG, and the parent is in none of the `groups`. */
  uint64_t slow_batches;      /**< Did not reach a subscriber whose queue is full. It must ask for replay. */
  uint64_t failed_batches;    /**< Not taken by the transport. Subscribers must ask for replay. */
  uint64_t replay_requests;   /**< Answered. */
  uint64_t replayed_batches;  /**< Sent in answers. */
  uint64_t replay_misses;     /**< Requests for a batch that is not kept any more. */
  uint64_t bad_requests;      /**< That are no requests. */
  uint64_t kept_batches;      /**< For replay, now. */
  uint64_t kept_bytes;        /**< Of their payloads. */
} kvc_publisher_stats;

/** Creates a publisher. With KVC_PUBLISHER_THREAD it begins at once.
 *  @return KVC_OK; INVALID_ARGUMENT; UNSUPPORTED (the manager keeps no events; the plug-in is no transport);
 *  NOT_FOUND (the plug-in); what the transport says of its url; OUT_OF_MEMORY. Since 0.3. */
KVC_API kvc_status kvc_publisher_create(const kvc_publisher_config* config, kvc_publisher** publisher);

/** Publishes what has happened until now, and ends a publisher. NULL is allowed. Excludes all other calls
 *  with it. Since 0.3. */
KVC_API void kvc_publisher_destroy(kvc_publisher* publisher);

/** Publishes the events that the manager has now, and answers requests for replay. Without
 *  KVC_PUBLISHER_THREAD call it after each step, or from a thread of yours.
 *  @param[out] num_batches Batches published by this call.
 *  @return KVC_OK, also if the transport failed (kvc_publisher_stats.failed_batches); OUT_OF_MEMORY.
 *  Any thread may call. Since 0.3. */
KVC_API kvc_status kvc_publisher_poll(kvc_publisher* publisher, uint64_t* num_batches);

/** Makes the next look publish AllBlocksCleared and all that is cached, for subscribers that join late.
 *  @return KVC_OK. Any thread may call. Since 0.3. */
KVC_API kvc_status kvc_publisher_resync(kvc_publisher* publisher);

/** Reads a batch that is kept: the first one whose number is not below `sequence`. For transports of your
 *  own, and for tests.
 *  @param[in]  sequence Number to begin with.
 *  @param[out] found    Number of the batch.
 *  @param[out] payload  [capacity] The batch in MessagePack.
 *  @param[in]  capacity Bytes of payload.
 *  @param[out] size     Bytes of the batch.
 *  @return KVC_OK; NOT_FOUND (no batch has such a number yet); BUFFER_TOO_SMALL (size has what is needed).
 *  Any thread may call. Since 0.3. */
KVC_API kvc_status kvc_publisher_read(kvc_publisher* publisher, uint64_t sequence, uint64_t* found,
                                      char* payload, size_t capacity, size_t* size);

/** Says what subscribers know of a namespace. Call it before the namespace has blocks. Texts are copied.
 *  @return KVC_OK; INVALID_ARGUMENT (a text that is too long); OUT_OF_MEMORY. Any thread may call. Since
 *  0.3. */
KVC_API kvc_status kvc_publisher_name_namespace(kvc_publisher* publisher,
                                                const kvc_publisher_namespace* name);

/** Reads the counters. @return KVC_OK; INVALID_ARGUMENT. Any thread may call. Since 0.3. */
KVC_API kvc_status kvc_publisher_read_stats(kvc_publisher* publisher, kvc_publisher_stats* stats);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_PUBLISHER_H */
