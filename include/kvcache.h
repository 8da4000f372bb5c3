/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_H
#define KVCACHE_H

/** @file kvcache.h
 *  @brief libkvcache: the KV cache of an LLM inference engine as a C library. This header is the manual of
 *  the block manager.
 *
 *  OVERVIEW. The keys and values of past tokens fill the memory of an inference engine. A manager
 *  (kvc_manager) divides that memory into fixed blocks. It decides which block holds which tokens, shares
 *  equal prefixes between requests, evicts the least recently used blocks, and says where each step writes
 *  new tokens. A block id is an index into memory: the engine's own memory, or a kvc_storage
 *  (kvcache/storage.h), which stores keys and values and computes attention (kvcache/attention.h).
 *
 *      kvc_manager_config config = {.struct_size = sizeof config, .num_blocks = 4096};
 *      kvc_prompt prompt = {.struct_size = sizeof prompt, .tokens = tokens, .num_tokens = n};
 *      kvc_manager *m;
 *      uint64_t r, cached;
 *      if (kvc_manager_create(&config, &m) != KVC_OK) puts(kvc_last_error());
 *      // the KV of `cached` of the n tokens exists already
 *      kvc_manager_allocate_request(m, &prompt, NULL, &r, &cached);
 *      // the block table for the attention kernel
 *      kvc_manager_export_tables(m, &r, 1, 0, -1, table, width);
 *      ... run the model on tokens [cached, n) ...
 *      // their KV is written: other requests may reuse it
 *      kvc_manager_commit_tokens(m, r, n);
 *      // one decode step, and so on
 *      kvc_manager_append_tokens(m, r, &next, 1);
 *      // its blocks stay cached until they are evicted
 *      kvc_manager_free_request(m, r);
 *
 *  PROMISES. (1) A hit is never wrong: a hash only finds a candidate; the namespace, the parent and every
 *  token are compared. (2) A failed call changes nothing, except counters of refusals and the thread's
 *  error text; KVC_ERROR_DEVICE is the exception. (3) The same calls give the same state: no result
 *  depends on time, pointers, hash seeds or thread timing.
 *
 *  TERMS.
 *  - Block: room for block_size tokens of all layers of one group. A block id (int32_t) names a place; its
 *    content changes.
 *  - Group: layers with one kind of attention and one block table per request. Pool: a range of block ids
 *    of one size in bytes. Groups whose blocks have equal sizes share a pool.
 *  - Request: a sequence of tokens. Known tokens: told to the library. Capacity: tokens that have a slot
 *    in a block. Committed tokens: their KV is written. committed <= min(known, capacity). Known tokens
 *    and capacity are independent.
 *  - Slot: block id * block_size + offset in the block: the place of one token's KV.
 *  - Published: a full committed block that other requests can find. Nothing is written to a block while
 *    it is published.
 *  - Namespace: requests of different namespaces never share blocks.
 *  - External hold: a reference to a block by an engine that keeps its own tables
 *    (kvc_manager_acquire_blocks).
 *  - The state of a block is the first that applies: FENCED (released, but a step in flight may still
 *    write to it), FILLING (a step in flight will write all of it: kvcache/fills.h), LIVE (held by a request
 * or an external hold, with a committed token), RESERVED (held, nothing committed), PINNED (held only by
 * pins), CACHED (not held, can be found), FREE. Every block is in exactly one state.
 *  - Prefix position (node): all tokens up to the end of a block. Hit: the cached prefix that a request
 *    gets.
 *  - Waiting: a request without blocks. Step in flight: issued and not retired.
 *
 *  CONVENTIONS.
 *  - Fallible calls return kvc_status; 0 is KVC_OK. Results are written only to out-parameters, which stay
 *    unchanged on failure. KVC_ERROR_BUFFER_TOO_SMALL writes the required count, if there is one to write.
 *    kvc_last_error() returns the text.
 *  - Structs that may grow begin with `size_t struct_size`, which the caller sets to sizeof. Zero is the
 *    default of every field, so `{.struct_size = sizeof x}` is complete. As input, a size below that of
 *    version 0.3 or above 4096 is KVC_ERROR_INVALID_ARGUMENT, and a non-zero field or flag that this
 *    library does not know is KVC_ERROR_UNSUPPORTED. As output, the library writes the fields that it
 *    knows and clears the rest. In an array of such structs the struct_size of the first element is the
 *    element size; all must be equal.
 *  - The library keeps no pointer after a call, except callbacks, memory that a comment names, and what a
 *    stream still reads. What you must free has a function named in its comment.
 *  - A pointer may be NULL where its count is 0. Any other NULL is KVC_ERROR_INVALID_ARGUMENT unless a
 *    default is documented.
 *  - Ids of requests and pins are never 0. Namespace 0 is the default one. A process never gets the same
 *    id twice, not even from another manager: an id that was freed or is of another manager is
 *    KVC_ERROR_NOT_FOUND.
 *
 *  THREADING. Any thread may call any function at any time; a manager locks internally. One thread at a
 *  time drives a request or a kvc_step. No other call may run during kvc_manager_destroy. Managers are
 *  independent of each other. After fork() the child may only exec or exit. No function is
 *  async-signal-safe. No function prints, exits or throws.
 *
 *  Supported: Linux on x86-64 and aarch64 (64-bit, little-endian). */

#include <kvcache/storage.h>
#include <kvcache/types.h>

/** Version of this header; kvc_version() returns that of the library. */
#define KVC_VERSION_MAJOR 0
#define KVC_VERSION_MINOR 3 /**< Before 1.0 a new minor version may break the API. */
#define KVC_VERSION_PATCH 0 /**< Bug fixes only. */

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- library */

/** Questions for kvc_supports. */
enum {
  KVC_FEATURE_LRU = 1,
  KVC_FEATURE_SLIDING_WINDOW = 2,
  KVC_FEATURE_SEVERAL_POOLS = 3,
  KVC_FEATURE_EVENTS = 4,
  KVC_FEATURE_FREQUENCY = 5,      /**< KVC_POLICY_FREQUENCY. Since 0.3. */
  KVC_FEATURE_FRAGMENTATION = 6,  /**< KVC_POLICY_FRAGMENTATION. Since 0.3. */
  KVC_FEATURE_HINTS = 7,          /**< KVC_MANAGER_HINTS. Since 0.3. */
  KVC_FEATURE_QUOTAS = 8,         /**< kvc_manager_config.max_quotas. Since 0.3. */
  KVC_FEATURE_FILLS = 9,          /**< KVC_MANAGER_FILLS. Since 0.3. */
  KVC_FEATURE_PARTIAL_REUSE = 10, /**< KVC_MANAGER_PARTIAL_REUSE. Since 0.3. */
  KVC_FEATURE_STATE_GROUPS = 11,  /**< KVC_GROUP_STATE. Since 0.3. */
  KVC_FEATURE_CROSS_GROUPS = 12   /**< KVC_GROUP_CROSS. Since 0.3. */
};

/** Version of the library: major * 10000 + minor * 100 + patch. Since 0.1. */
KVC_API uint32_t kvc_version(void);

/** One line: version, compiler, architecture. Static text. Since 0.1. */
KVC_API const char* kvc_build_info(void);

/** Asks whether this build has a feature. @param[in] feature KVC_FEATURE_*.
 *  @return KVC_OK or KVC_ERROR_UNSUPPORTED, also for unknown features. Since 0.1. */
KVC_API kvc_status kvc_supports(uint32_t feature);

/* ---------------------------------------------------------------- manager */

/** kvc_group_config.kind. */
enum {
  KVC_GROUP_FULL = 0, /**< Full attention: a query reads every earlier token. */
  /** A query at position p reads p - window_tokens + 1 .. p, and the first num_sink_tokens. */
  KVC_GROUP_SLIDING_WINDOW = 1,
  /** Chunked local attention: a query reads the earlier tokens of its own chunk of chunk_tokens tokens, and
   *  itself. Since 0.3. */
  KVC_GROUP_CHUNKED_LOCAL = 2,
  /** Recurrent state (Mamba, linear attention): a block holds the state of the group's layers after some
   *  number of tokens. After c tokens it is in the block at position (c - 1) / block_size. A step from c to e
   *  tokens reads it there and writes the new one at (e - 1) / block_size: if that is another block, the
   *  kernel does not write to the first one. Only steps' ends have blocks: when slots are given, the
   *  positions before that of token min(known, capacity) get none, and commits that end there are refused. A
   *  commit that ends at a multiple of block_size publishes the state there; a hit must end at such a
   *  checkpoint. Commit exactly where a kernel ended: after rejected drafts, first copy the state after the
   *  accepted tokens to the block of the last of them (kvc_verdict_states); the library cannot see what a
   *  block holds. To cut a prefill where checkpoints are worth keeping, see kvc_request_info.next_checkpoint.
   * Slots mean nothing in this group. (A kernel that writes the states of all block ends needs
   * KVC_GROUP_SLIDING_WINDOW with window_tokens 2.) Not with KVC_MANAGER_FILLS, KVC_MANAGER_RESERVE and
   * KVC_MANAGER_PARTIAL_REUSE. Its pool has at least 2 blocks. Since 0.3. */
  KVC_GROUP_STATE = 3,
  /** Cross-attention: a query of the decoder reads all tokens of the request's encoder
   *  (kvc_request_config.cross_tokens). Such groups are the last ones, behind at least one of another kind.
   *  Since 0.3. */
  KVC_GROUP_CROSS = 4
};

/** kvc_manager_config.policy. */
enum {
  /** Evicts the least recently released block first; of one request the last block first. */
  KVC_POLICY_LRU = 0,
  /** Evicts the block with the least t + A * log2(uses) first. t is when it was released, counted in blocks
   *  of its pool that became cached; A is policy_weight * blocks of the pool. Uses are the requests that held
   *  the block's prefix position by a hit or by publishing it, remembered for policy_history evicted
   *  positions; 128 and more are equal. For prompts that come back after others. Since 0.3. */
  KVC_POLICY_FREQUENCY = 1,
  /** Evicts fragments first: cached blocks that no hit can use, because another full-attention group has no
   *  block at their position. Only a manager with several groups has them. Since 0.3. */
  KVC_POLICY_FRAGMENTATION = 2
};

/** kvc_manager_config.flags. */
enum {
  /** The engine owns block id 0 (padding). num_blocks includes it; stats do not. */
  KVC_MANAGER_NULL_BLOCK = 1,
  /** Publish nothing: nothing is found again, and blocks become FREE at once. */
  KVC_MANAGER_NO_PREFIX_CACHE = 8,
  /** Clear blocks that move from one namespace to another: see kvc_manager_take_pending. External holds
   *  count as a namespace. A block that such a hold releases belongs to a namespace only if it is
   *  published there. */
  KVC_MANAGER_ZERO_CROSS_NAMESPACE = 16,
  KVC_MANAGER_ZERO_ALWAYS = 32, /**< Clear every block that is handed out. */
  /** Write all memory for blocks and nodes once at creation. By default pages of memory are taken when they
   *  are first used, so that a large pool costs little until then. The first use of a page makes its
   *  call wait for the system (a 2 MiB page: about 0.1 ms). */
  KVC_MANAGER_TOUCH_MEMORY = 64,
  /** Evict by the engine's hints (kvcache/retention.h) before the policy. Takes 17 bytes for each prefix
   *  position and 208 for each request. Since 0.3. */
  KVC_MANAGER_HINTS = 128,
  /** Follow which request computes which tokens (kvcache/fills.h). Takes 4 bytes for each block and about
   *  50 for each request. Since 0.3. */
  KVC_MANAGER_FILLS = 256,
  /** Remember how many tokens ended requests got after their prompts, so that admissions can reserve room for
   *  as many (kvc_request_config.reserve). Takes 1 KiB. Since 0.3. */
  KVC_MANAGER_RESERVE = 512,
  /** Hits may end inside a block: an admission whose next block shares only its first tokens with a cached
   *  one copies that (kvc_manager_admit_request). Not for storages with channel keys. Since 0.3. */
  KVC_MANAGER_PARTIAL_REUSE = 1024
};

/** The block manager. Opaque; created by kvc_manager_create. */
typedef struct kvc_manager kvc_manager;

/** A pool of blocks of one size in bytes. Block ids continue through all pools: pool p starts where pool p
 *  - 1 ends. */
typedef struct kvc_pool_config {
  size_t struct_size;  /**< sizeof(kvc_pool_config) */
  uint64_t num_blocks; /**< Blocks of this pool, at least 1. */
  /** Blocks to which kvc_manager_resize may enlarge it: its range of ids; 0 = num_blocks. The sum over all
   *  pools has the limit of kvc_manager_config.num_blocks. Since 0.3. */
  uint64_t max_blocks;
} kvc_pool_config;

/** A group of layers with one block table per request. */
typedef struct kvc_group_config {
  size_t struct_size; /**< sizeof(kvc_group_config) */
  uint32_t kind;      /**< KVC_GROUP_*; other kinds are KVC_ERROR_UNSUPPORTED. */
  /** Sliding window: first tokens that stay readable; their blocks are never returned. */
  uint32_t num_sink_tokens;
  /** Sliding window: tokens that a query reads, itself included; at least 1. Others: 0. A window of 1 acts
   *  as 2. */
  uint64_t window_tokens;
  /** Sliding window, chunked local, state: also keep what a hit needs that ends at a multiple of this many
   *  tokens. A multiple of block_size; 0 = only before the ends of the prompt and the request. Values above
   *  2^32 act as 0. */
  uint64_t retention_tokens;
  uint32_t pool;     /**< Index of the pool of this group's blocks. */
  uint32_t reserved; /**< 0 */
  /** Chunked local: tokens of a chunk, at least 1; others: 0. A hit that ends where a chunk begins needs no
   *  block of the group, else those of the chunk in which it ends. A multiple of block_size is best. Since
   *  0.3. */
  uint64_t chunk_tokens;
  /** State: cached states at most; when another one becomes cached, the pool's next victim is evicted,
   * whatever the quota of its namespace. The group needs a pool of its own. 0 = as many as the pool has room
   * for; others: 0. Since 0.3. */
  uint64_t max_checkpoints;
} kvc_group_config;

/** Shape and limits of a manager. Only the number of blocks has no default: set exactly one of num_blocks,
 *  pools and memory. */
typedef struct kvc_manager_config {
  size_t struct_size; /**< sizeof(kvc_manager_config) */
  /** Blocks of the only pool, 1 (with the null block 2) .. 2^31 - 66; 0 with `pools` or `memory`. */
  uint64_t num_blocks;
  /** Prefix positions to remember. 0 = blocks + blocks/32 + 64 with full-attention groups only, else 2 *
   *  blocks, of max_blocks. If all are in use, requests stop publishing (kvc_stats.unpublished_blocks); with
   *  KVC_MANAGER_HINTS cached blocks are evicted first. */
  uint64_t max_nodes;
  /** Requests at one time, waiting ones included; 0 = 1024, at most 262,143. Also the limit of pins. */
  uint64_t max_requests;
  uint64_t max_request_tokens; /**< Tokens of one request; 0 = 2^24, at most 2^30. */
  /** Events kept for kvc_manager_poll_events, at most 2^24; 0 = no events and no digests. */
  uint64_t event_capacity;
  uint64_t seed; /**< Secret of the table hash; 0 = random. It never changes a result. */
  /** Blocks of each pool that an admission leaves available. It does not apply while no request is
   *  admitted. Below the blocks of each pool, the null block not counted; keep it well below. */
  uint64_t watermark_blocks;
  uint32_t block_size;            /**< Tokens per block, 1 .. 1024; 0 = 16. */
  uint32_t vocab_size;            /**< Token ids must be below this; 0 = only non-negative. */
  uint32_t policy;                /**< KVC_POLICY_*; other numbers are KVC_ERROR_UNSUPPORTED. */
  uint32_t flags;                 /**< KVC_MANAGER_* */
  const kvc_group_config* groups; /**< [num_groups]; NULL = one full-attention group. */
  size_t num_groups;              /**< 0 .. 32 */
  /** [num_pools]; NULL = one pool of num_blocks. Each pool must have a group. */
  const kvc_pool_config* pools;
  size_t num_pools;               /**< 0 .. 32 */
  const kvc_allocator* allocator; /**< NULL = aligned heap memory. */
  /** Receives warnings as text after the lock is released. Must not call this manager. level is 1
   *  (warning). NULL = none. */
  void (*log)(void* user_data, int32_t level, const char* text);
  void* log_user_data; /**< Passed to log. */
  /** As many blocks as a model's KV cache has within budget_bytes or memory_fraction, and the groups of that
   *  model. Group 0 has full attention; layers with a window form the next group, or the only one. They have
   *  one pool each, or one together if their blocks have equal sizes: see kvc_memory_estimate.pool_blocks,
   *  which kvc_estimate_memory tells before. `groups` and `pools` must be NULL; to set sinks or retention,
   *  take the blocks from the estimate instead. block_size is that of the query or of this struct; if both
   *  are set they must be equal. kvc_manager_properties and kvc_manager_pool_info tell the blocks for
   *  kvc_storage_config.num_blocks. Blocks of a storage may be larger by padding: kvc_storage_size tells it.
   *  NULL = num_blocks or pools. */
  const struct kvc_memory_query* memory;
  /** FREQUENCY: what a doubling of the uses is worth, in pools: 0 .. 1000; 0 = 1. FRAGMENTATION: how much
   *  longer whole positions stay: 0 = the order of LRU .. 1 = all fragments leave first. LRU: 0. Since 0.3.
   */
  double policy_weight;
  /** FREQUENCY: positions whose uses are remembered after their last block was evicted, at most 2^31 - 2; 0 =
   *  4 * blocks, of max_blocks. Each takes 24 to 32 bytes. Other policies: 0. Since 0.3. */
  uint64_t policy_history;
  /** Namespaces that may have a quota (kvcache/quota.h), at most 63; 0 = no quotas. Each block takes 9 bytes
   *  more, and cached blocks are listed per namespace with a quota. Since 0.3. */
  uint32_t max_quotas;
  uint32_t reserved; /**< 0 */
  /** Blocks to which kvc_manager_resize may enlarge the only pool (kvcache/resize.h); 0 = num_blocks. With
   *  `pools` each pool has its own; with `memory` it must be 0. Since 0.3. */
  uint64_t max_blocks;
  /** Bytes for a log of the manager's calls (kvcache/record.h), at least KVC_MIN_RECORD_BYTES; 0 = no log. A
   * call costs nothing more then. Since 0.3. */
  uint64_t record_bytes;
} kvc_manager_config;

/** Configuration of a manager, with defaults filled in. */
typedef struct kvc_properties {
  size_t struct_size;  /**< sizeof(kvc_properties) */
  uint64_t num_blocks; /**< Blocks that all pools have now, null block included. */
  /** As in kvc_manager_config. */
  uint64_t max_nodes, max_requests, max_request_tokens, event_capacity, watermark_blocks;
  uint32_t block_size, vocab_size, policy, flags, num_groups, num_pools; /**< As in kvc_manager_config. */
  double policy_weight;      /**< As in kvc_manager_config. Since 0.3. */
  uint64_t policy_history;   /**< As in kvc_manager_config. Since 0.3. */
  uint32_t max_quotas;       /**< As in kvc_manager_config. Since 0.3. */
  uint32_t num_cross_groups; /**< Groups of cross-attention, the last ones. Since 0.3. */
  /** Blocks that all pools may have, null block included: ids are below. As many a storage of all ids needs.
   *  Since 0.3. */
  uint64_t max_blocks;
  uint64_t record_bytes; /**< As in kvc_manager_config. Since 0.3. */
} kvc_properties;

/** Identity of a namespace: all that makes the KV of equal tokens different. Each part is opaque bytes.
 *  NULL = absent, which differs from present and empty (not NULL, size 0). Do not forget the sizes: two
 *  tenants without a size are the same one. */
typedef struct kvc_namespace_config {
  size_t struct_size;  /**< sizeof(kvc_namespace_config) */
  const void* model;   /**< Fingerprint of the model: version of the weights, KV dtype, layout. */
  const void* adapter; /**< Adapter (LoRA), with its version. */
  const void* tenant;  /**< Salt of the tenant. */
  size_t model_size, adapter_size, tenant_size; /**< Bytes, each at most 65536. */
} kvc_namespace_config;

/** Counters since creation, and gauges of the present state. */
typedef struct kvc_stats {
  size_t struct_size; /**< sizeof(kvc_stats) */
  uint64_t epoch;     /**< Resets so far. */
  /** Gauges over all pools. The states sum to blocks_total. */
  uint64_t blocks_total, blocks_free, blocks_cached, blocks_live, blocks_reserved, blocks_filling,
      blocks_fenced, blocks_pinned;
  uint64_t live_requests;    /**< Gauge: admitted requests. */
  uint64_t waiting_requests; /**< Gauge: created or preempted requests. */
  /** First admissions. The next five counters, partial_hits and partial_tokens are of these only. */
  uint64_t admissions;
  uint64_t prompt_tokens;     /**< Known tokens. */
  uint64_t cached_tokens;     /**< Tokens of the hits. */
  uint64_t block_queries;     /**< Sum of floor((tokens - 1) / block_size). */
  uint64_t block_hits;        /**< Blocks of the hits. */
  uint64_t lost_reuse_tokens; /**< Sum of kvc_request_info.lost_reuse_tokens. */
  uint64_t readmissions;      /**< Admissions after a preemption or with KVC_REQUEST_RESUMED. */
  uint64_t refusals;          /**< Admissions and extensions with the result NO_SPACE, AGAIN or OVER_QUOTA. */
  uint64_t preemptions;       /**< kvc_manager_preempt_request and kvc_step.preempts. */
  uint64_t evictions;  /**< Cached blocks that were dropped to make room, or by kvc_manager_evict_blocks. */
  uint64_t copies;     /**< Pairs: copy-on-write, and of admissions with partial reuse. */
  uint64_t duplicates; /**< Committed blocks whose content another block had published. */
  uint64_t published_blocks;    /**< Blocks published so far, also those that were evicted since. */
  uint64_t unpublished_blocks;  /**< Blocks not published because all nodes were in use. */
  uint64_t rejected_candidates; /**< Entries with an equal hash that the comparison rejected. */
  uint64_t nodes_used;          /**< Gauge: prefix positions in use. */
  uint64_t metadata_bytes;      /**< Gauge: memory from the manager's allocator, touched or not. */
  uint64_t events_dropped;      /**< Events that were overwritten before any reader had read them. */
  uint64_t filling_hits;        /**< Blocks of hits that a step in flight was writing. Since 0.3. */
  uint64_t filling_waits;       /**< Admissions with the result FILLING. Since 0.3. */
  uint64_t partial_hits;        /**< Hits that ended inside a block. Since 0.3. */
  uint64_t partial_tokens;      /**< Tokens of these hits in their last blocks. Since 0.3. */
} kvc_stats;

/** Blocks of one pool by state. The states sum to num_blocks. */
typedef struct kvc_pool_info {
  size_t struct_size;   /**< sizeof(kvc_pool_info) */
  uint64_t first_block; /**< Lowest block id, null block included. */
  uint64_t num_blocks;  /**< Usable blocks that it has now. */
  uint64_t free, cached, live, reserved, filling, fenced, pinned; /**< Blocks by state. */
  uint64_t max_blocks; /**< As configured: its ids are below first_block + max_blocks. Since 0.3. */
} kvc_pool_info;

/** kvc_block_info.state. */
enum {
  KVC_BLOCK_FREE = 0,
  KVC_BLOCK_CACHED = 1,
  KVC_BLOCK_PINNED = 2,
  KVC_BLOCK_RESERVED = 3,
  KVC_BLOCK_LIVE = 4,
  KVC_BLOCK_FILLING = 5, /**< Held, and a step in flight will write all of it. */
  KVC_BLOCK_FENCED = 6
};

/** State of one block. */
typedef struct kvc_block_info {
  size_t struct_size;      /**< sizeof(kvc_block_info) */
  uint64_t token_offset;   /**< If published: position of its first token. */
  uint32_t state;          /**< KVC_BLOCK_* */
  uint32_t pool;           /**< Index of its pool. */
  uint32_t requests;       /**< References of requests. */
  uint32_t external_holds; /**< Holds of kvc_manager_acquire_blocks and kvc_manager_acquire_prefix. */
  uint32_t pins;           /**< Holds of kvc_manager_pin_prefix. */
  uint32_t published;      /**< 1 = attached to a prefix position. */
  /** Published blocks with the same identity and group, itself included; 0 if not published. */
  uint32_t num_copies;
  int32_t group; /**< Group of its present content; -1 if never used. */
} kvc_block_info;

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

/** Creates a manager. Allocates all memory for blocks and nodes. The hash table of prefixes, about 11 bytes a
 *  block, is touched; other arrays of 1 MiB and more are not, unless KVC_MANAGER_TOUCH_MEMORY is set or
 *  `allocator` gives the memory.
 *  @param[in]  config  Shape and limits. Only the callbacks are kept.
 *  @param[out] manager Free it with kvc_manager_destroy.
 *  @return KVC_OK; INVALID_ARGUMENT (a field out of range), UNSUPPORTED (an option of a later version),
 *  LIMIT (the process has 4,095 managers), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_create(const kvc_manager_config* config, kvc_manager** manager);

/** Frees a manager with all its requests. NULL is ignored. No other call on it may run. Since 0.1. */
KVC_API void kvc_manager_destroy(kvc_manager* m);

/** Configuration of the manager. @param[out] properties The caller sets struct_size. @return KVC_OK,
 *  INVALID_ARGUMENT. Since 0.1. */
KVC_API kvc_status kvc_manager_properties(kvc_manager* m, kvc_properties* properties);

/** Opens the namespace with this identity. Opening an identity again returns the same id; close it as
 *  often. An identity without any part is the default namespace, id 0, which needs no closing.
 *  @param[in]  config       Identity. The bytes are copied.
 *  @param[out] namespace_id For kvc_prompt.namespace_id.
 *  @return KVC_OK, INVALID_ARGUMENT, LIMIT (65,535 namespaces besides the default one), OUT_OF_MEMORY.
 *  Since 0.1. */
KVC_API kvc_status kvc_manager_open_namespace(kvc_manager* m, const kvc_namespace_config* config,
                                              uint64_t* namespace_id);

/** Closes a namespace once. The last close drops its cached blocks and invalidates its id.
 *  @return KVC_OK; NOT_FOUND; BUSY (the last close while requests, pins or registered prompts of it exist);
 *  INVALID_ARGUMENT for id 0. Since 0.1. */
KVC_API kvc_status kvc_manager_close_namespace(kvc_manager* m, uint64_t namespace_id);

/** Lists the open namespaces besides the default one, in no particular order. @param[out] namespaces
 *  [capacity] @param[out] count Number of namespaces.
 *  @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed; ask with capacity 0). Since 0.3. */
KVC_API kvc_status kvc_manager_list_namespaces(kvc_manager* m, uint64_t* namespaces, size_t capacity,
                                               size_t* count);

/** For kvc_manager_reset and in its events: the default namespace alone. */
#define KVC_DEFAULT_NAMESPACE UINT64_MAX

/** Forgets all cached content of a namespace, for example after new weights, in constant time, but for the
 *  pins of its registered prompts, which end, and the samples of a curve of all namespaces. Requests keep
 * their blocks and finish, but publish nothing more. Old content is never hit. @param[in] namespace_id A
 * namespace; KVC_DEFAULT_NAMESPACE = the default one; 0 = all.
 *  @return KVC_OK, NOT_FOUND, LIMIT (after 2^47 resets). Since 0.1. */
KVC_API kvc_status kvc_manager_reset(kvc_manager* m, uint64_t namespace_id);

/** Counters and gauges as of the last finished call: a consistent snapshot that does not wait for the
 *  lock.
 *  @param[in,out] stats The caller sets struct_size. @return KVC_OK, INVALID_ARGUMENT. Since 0.1. */
KVC_API kvc_status kvc_manager_stats(kvc_manager* m, kvc_stats* stats);

/** Counts of one pool. @return KVC_OK, INVALID_ARGUMENT (no such pool). Since 0.1. */
KVC_API kvc_status kvc_manager_pool_info(kvc_manager* m, uint32_t pool, kvc_pool_info* info);

/** State of one block. @return KVC_OK, INVALID_ARGUMENT (no such block, the null block). Since 0.1. */
KVC_API kvc_status kvc_manager_block_info(kvc_manager* m, int32_t block, kvc_block_info* info);

/* ---------------------------------------------------------------- requests */

/** Identity of a span of tokens that their ids alone do not identify, such as the placeholder tokens of an
 *  image. Two blocks are equal only if the spans over them have equal digests, lengths and offsets. A hit
 *  never ends inside a span. Frozen. */
typedef struct kvc_extra_key {
  uint64_t first_token; /**< Position of the span's first token in the request. */
  uint64_t num_tokens;  /**< Length of the span, at least 1. */
  uint8_t digest[32];   /**< Digest of the content, computed by a party that the engine trusts. */
} kvc_extra_key;

/** Tokens and all else that identifies their KV. */
typedef struct kvc_prompt {
  size_t struct_size;    /**< sizeof(kvc_prompt) */
  uint64_t namespace_id; /**< From kvc_manager_open_namespace; 0 = the default one. */
  const int32_t* tokens; /**< [num_tokens] */
  size_t num_tokens;     /**< May be 0. */
  /** [num_keys] in order of first_token, without overlaps, inside the tokens; NULL = none. */
  const kvc_extra_key* keys;
  /** Number of extra keys. 0 means none, also if `keys` is set: do not forget it. */
  size_t num_keys;
} kvc_prompt;

/** kvc_request_config.flags. */
enum {
  KVC_REQUEST_NO_READ = 1,  /**< Do not use cached blocks: compute everything. */
  KVC_REQUEST_NO_WRITE = 2, /**< Do not publish. */
  /** Admit only if all known tokens would fit, even if `slots` asks for fewer now. */
  KVC_REQUEST_FULL_MUST_FIT = 4,
  /** Admitted before under another id: counted in kvc_stats.readmissions, not in admissions. */
  KVC_REQUEST_RESUMED = 8,
  /** The known tokens that a step gives slots are computed by that step: kvcache/fills.h. Since 0.3. */
  KVC_REQUEST_PUBLISH_ENQUEUED = 16,
  /** Hits may end in blocks that a step in flight writes: kvcache/fills.h. Since 0.3. */
  KVC_REQUEST_SHARE_FILLING = 32
};

/** How much room an admission reserves for the tokens that a request will get: so many that, of the requests
 *  that have ended, this share got no more. Since 0.3. */
enum {
  KVC_RESERVE_NONE = 0,      /**< None. */
  KVC_RESERVE_MINIMAL = 1,   /**< Enough for 50 of 100 requests. */
  KVC_RESERVE_BALANCED = 2,  /**< Enough for 75 of 100 requests. */
  KVC_RESERVE_AGGRESSIVE = 3 /**< Enough for 95 of 100 requests. */
};

/** Options of a request. A NULL pointer to it means all defaults. */
typedef struct kvc_request_config {
  size_t struct_size;         /**< sizeof(kvc_request_config) */
  uint64_t user_data;         /**< Returned by kvc_manager_request_info; not interpreted. */
  uint64_t max_cached_tokens; /**< Upper bound of the hit, besides known tokens - 1; 0 = none. */
  /** Tokens after the hit that a transfer will fill. They get blocks at admission in addition to `slots`,
   *  and are published when they are committed, like computed ones. */
  uint64_t external_tokens;
  /** Tokens after the hit and external_tokens that get slots at each admission; 0 = all known tokens. */
  uint64_t slots;
  uint64_t lookahead; /**< Slots reserved past the known tokens (speculative decoding). */
  uint32_t flags;     /**< KVC_REQUEST_* */
  /** Shorten every hit by this many blocks (draft heads that need hidden states). */
  uint32_t drop_tail_blocks;
  /** Until then the request is not admitted (FILLING) while another one computes its next tokens, in the
   *  clock of kvc_step.now_ns: kvcache/fills.h. 0 = it computes them too. Since 0.3. */
  uint64_t wait_until_ns;
  /** KVC_RESERVE_*: each admission takes blocks for all known tokens, whatever `slots` is, and for the tokens
   *  that kvc_manager_expected_tokens expects; appends within them need no block and so never lack one. With
   *  nothing expected, and if it does not fit while no other request is admitted, it is as without. Needs
   *  KVC_MANAGER_RESERVE. Since 0.3. */
  uint32_t reserve;
  uint32_t reserved; /**< 0 */
  /** Tokens of the request's encoder, at most max_request_tokens; 0 = none. Each KVC_GROUP_CROSS has
   *  ceil(cross_tokens / block_size) blocks for them, from an admission to its end. The first commit of a
   *  token that was computed after the admission says that they are written: write them first. Needs such a
   *  group. Since 0.3. */
  uint64_t cross_tokens;
  /** Digest of the encoder's input, by a party that the engine trusts. Requests of a namespace with equal
   *  digests and cross_tokens share the encoder's blocks, and the prefixes that the decoder computed with
   *  them: it is as if the first token had an extra key, of which the SHA-256 of these 32 bytes and
   *  cross_tokens (8 bytes, little-endian) is the digest. A key of the prompt over that token is
   *  KVC_ERROR_UNSUPPORTED, unless it is this one. All zero = private: the request neither uses nor publishes
   *  anything, in any group. Since 0.3. */
  uint8_t cross_digest[32];
} kvc_request_config;

/** State of a request. */
typedef struct kvc_request_info {
  size_t struct_size;     /**< sizeof(kvc_request_info) */
  uint64_t namespace_id;  /**< As configured. */
  uint64_t user_data;     /**< As configured. */
  uint64_t num_tokens;    /**< Known tokens. */
  uint64_t num_committed; /**< Tokens whose KV is written. */
  uint64_t num_cached;    /**< Tokens of the hit at the last admission. */
  uint64_t capacity;      /**< Tokens that have slots; 0 while waiting. */
  uint64_t num_blocks;    /**< Blocks held in all groups. */
  /** Tokens that one group had cached and another had not, at the last admission. */
  uint64_t lost_reuse_tokens;
  /** Smallest non-zero length that kvc_manager_truncate_request can restore. Without sink tokens it can
   *  restore every greater length too; with them it may refuse lengths between the sinks and the present
   *  window. */
  uint64_t min_truncate_tokens;
  uint32_t admitted; /**< 1 = holds blocks, 0 = waiting. */
  uint32_t flags;    /**< KVC_REQUEST_* as configured. */
  /** State groups: the next number of tokens above num_committed whose state is worth keeping: the end of the
   *  prompt's full blocks, also less drop_tail_blocks, of what the other groups had cached, or a multiple of
   * a group's retention_tokens. End a step there, and commit it. 0 = none, or no state group. Since 0.3. */
  uint64_t next_checkpoint;
  uint64_t cross_tokens; /**< As configured. Since 0.3. */
  /** cross_tokens if the last admission found the KV of all of the encoder's tokens, so that the encoder need
   *  not run; else 0. A fork has cross_tokens here if they are written. Since 0.3. */
  uint64_t num_cross_cached;
  /** If lost_reuse_tokens is not 0: the group that alone had least, the first of equal ones, and why
   *  most of it was lost (KVC_LOST_*). Else 0. Since 0.3. */
  uint32_t lost_group, lost_reason;
} kvc_request_info;

/** Creates a waiting request. Its tokens are copied and hashed; it gets no block.
 *  @param[in]  prompt  Its tokens and their identity.
 *  @param[in]  config  Options; NULL = defaults.
 *  @param[out] request Its id.
 *  @return KVC_OK; INVALID_ARGUMENT (a token out of range, keys out of order), NOT_FOUND (namespace),
 *  LIMIT (max_requests, max_request_tokens), UNSUPPORTED, OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_create_request(kvc_manager* m, const kvc_prompt* prompt,
                                              const kvc_request_config* config, uint64_t* request);

/** Admits a waiting request: finds its longest cached prefix in every group and takes blocks for the rest,
 *  all or nothing.
 *  With KVC_MANAGER_PARTIAL_REUSE the hit then goes on inside the next block: of the newest 32 cached blocks
 *  that follow the hit, the one that shares most tokens is copied, in each group, to the request's own block
 *  (kvc_step.copies, in single calls kvc_manager_take_pending). Not if the copied block would have to leave
 *  for the admission to fit, nor with external_tokens or drop_tail_blocks.
 *  @param[out] num_cached Tokens of the hit, which count as committed: at most num_tokens - 1, and without
 *  partial reuse a multiple of block_size. May be NULL.
 *  @return KVC_OK; NO_SPACE (the text has the needed and available blocks), AGAIN, NOT_FOUND, BUSY
 *  (admitted already), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_admit_request(kvc_manager* m, uint64_t request, uint64_t* num_cached);

/** kvc_manager_create_request and kvc_manager_admit_request in one call. If either fails, there is no
 *  request. @return As both. Since 0.1. */
KVC_API kvc_status kvc_manager_allocate_request(kvc_manager* m, const kvc_prompt* prompt,
                                                const kvc_request_config* config, uint64_t* request,
                                                uint64_t* num_cached);

/** Gives the request slots for `capacity` tokens in all, without token ids (the next chunk of a prefill,
 *  asynchronous scheduling). Does nothing if the capacity is that large. May need copies:
 *  kvc_manager_take_pending. The request keeps these slots until it is truncated, preempted or freed: appends
 *  within them (known tokens and lookahead) need no block and are never NO_SPACE, unless the request was
 *  forked or a block of it was pinned meanwhile.
 *  @return KVC_OK; NO_SPACE, AGAIN, NOT_FOUND, BUSY (waiting), LIMIT (max_request_tokens), OUT_OF_MEMORY.
 *  Since 0.1. */
KVC_API kvc_status kvc_manager_reserve_tokens(kvc_manager* m, uint64_t request, uint64_t capacity);

/** Appends known tokens. An admitted request gets slots for all known tokens and its lookahead. May need
 *  copies: kvc_manager_take_pending. @return As kvc_manager_reserve_tokens, and INVALID_ARGUMENT for a
 *  token out of range. Since 0.1. */
KVC_API kvc_status kvc_manager_append_tokens(kvc_manager* m, uint64_t request, const int32_t* tokens,
                                             size_t num_tokens);

/** States that the KV of the first num_committed tokens is written. Full blocks are published. Blocks that
 *  left a window are returned.
 *  @param[in] num_committed Absolute count.
 *  @return KVC_OK; INVALID_ARGUMENT (less than before, or more than min(known, capacity); a state group has
 * no block there), NOT_FOUND, BUSY (waiting), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_commit_tokens(kvc_manager* m, uint64_t request, uint64_t num_committed);

/** Keeps the first num_tokens tokens (absolute) and returns the rest. Blocks that this request published
 *  past them are unpublished, unless others can reach them: a longer prefix is known, or a block of the
 *  position, in any group, has another holder or a copy. The same rule applies to the published block that
 *  is cut. If it stays published, it is copied before the next write.
 *  With a state group, 0 and lengths from the committed one on are possible; a length whose token has no
 *  state block leaves slots for the committed tokens alone, fewer than asked: see kvc_request_info.capacity.
 * If a kernel has run past the committed tokens, restore their state before the next step. To go back to a
 * checkpoint, preempt the request, truncate it and admit it again.
 *  @return KVC_OK; INVALID_ARGUMENT (more than known), NOT_FOUND; UNSUPPORTED if a window or a state needed
 * at that length is gone (the text has the next lower and higher possible lengths; 0 is always possible);
 *  OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_truncate_request(kvc_manager* m, uint64_t request, uint64_t num_tokens);

/** Creates a request with the committed tokens of another; they share all blocks (beam search, parallel
 *  sampling). The first to write to a shared partial block gets a copy. @param[out] child Its id. Its
 *  known, committed tokens and capacity are the parent's committed tokens. State groups: the child gets a
 *  copy of the present state at once (kvc_manager_take_pending), unless it is at the end of a block; no
 *  kernel may have run past the parent's committed tokens: commit first.
 *  @return KVC_OK; NOT_FOUND, BUSY (waiting, or its encoder's blocks are not written: commit first), LIMIT,
 *  OUT_OF_MEMORY; with state groups NO_SPACE, AGAIN, OVER_QUOTA. Since 0.1. */
KVC_API kvc_status kvc_manager_fork_request(kvc_manager* m, uint64_t request, uint64_t* child);

/** Returns all blocks of an admitted request, which then waits. It keeps its tokens. What it published can
 *  be hit when it is admitted again.
 *  @return KVC_OK; NOT_FOUND, BUSY (waiting already), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_preempt_request(kvc_manager* m, uint64_t request);

/** Frees a request, waiting or admitted. Its published blocks stay cached; the last of them is evicted
 *  first. Blocks that a step in flight may still write to become available when that step is retired.
 *  Needs no memory. @return KVC_OK; NOT_FOUND. Since 0.1. */
KVC_API kvc_status kvc_manager_free_request(kvc_manager* m, uint64_t request);

/** State of a request. @param[in,out] info The caller sets struct_size. @return KVC_OK, NOT_FOUND,
 *  INVALID_ARGUMENT. Since 0.1. */
KVC_API kvc_status kvc_manager_request_info(kvc_manager* m, uint64_t request, kvc_request_info* info);

/** Lists all requests, in no particular order. @param[out] requests [capacity] @param[out] count Number of
 *  requests.
 *  @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed; ask with capacity 0). Since 0.1. */
KVC_API kvc_status kvc_manager_list_requests(kvc_manager* m, uint64_t* requests, size_t capacity,
                                             size_t* count);

/** Writes whole block tables of one group.
 *  @param[in]  requests [num_requests] requests; a waiting one has no blocks.
 *  @param[in]  fill_id  Written where there is no block: entries that left a window, and the rest of the
 *  row.
 *  @param[out] tables   [num_requests][row_stride]
 *  @return KVC_OK; NOT_FOUND; INVALID_ARGUMENT; BUFFER_TOO_SMALL (a table is longer than row_stride).
 *  Nothing is written on failure. Since 0.1. */
KVC_API kvc_status kvc_manager_export_tables(kvc_manager* m, const uint64_t* requests, size_t num_requests,
                                             uint32_t group, int32_t fill_id, int32_t* tables,
                                             size_t row_stride);

/** Writes the slots of tokens [first_token, first_token + num_tokens) of a request in one group; -1 for
 *  tokens that left the window. In a cross group they are the encoder's tokens. In a state group
 *  slots have no meaning: use kvc_manager_export_tables.
 *  @param[out] slots        [num_tokens] integers of element_size bytes.
 *  @param[in]  element_size 4 (int32; INVALID_ARGUMENT if a slot does not fit) or 8 (int64).
 *  @return KVC_OK; NOT_FOUND; BUSY (tokens of a waiting request, which has no slots); INVALID_ARGUMENT
 * (tokens past the capacity, or past those of the encoder). Since 0.1. */
KVC_API kvc_status kvc_manager_export_slots(kvc_manager* m, uint64_t request, uint32_t group,
                                            uint64_t first_token, uint64_t num_tokens, void* slots,
                                            size_t element_size);

/* ---------------------------------------------------------------- work on the bytes */

/** Copies and clears that the engine must execute. The caller sets the arrays and capacities. */
typedef struct kvc_pending_work {
  size_t struct_size;     /**< sizeof(kvc_pending_work) */
  kvc_block_copy* copies; /**< Out [copy_capacity] copies, in order (kvc_storage_copy_blocks). */
  size_t copy_capacity;   /**< Entries of copies. */
  size_t num_copies;      /**< Out: number of copies. */
  int32_t* zero_blocks;   /**< Out [zero_capacity] blocks to clear, each once (kvc_storage_zero_blocks). */
  size_t zero_capacity;   /**< Entries of zero_blocks. */
  size_t num_zero_blocks; /**< Out: number of blocks to clear. */
} kvc_pending_work;

/** Takes the pending work: the copies of single calls, and the blocks to clear of steps and single calls
 *  (KVC_MANAGER_ZERO_*), since the last take. Take the copies of single calls before the next
 *  kvc_manager_step, and execute copies in the order of the calls: these before those of that step, and what
 *  single calls leave after a step behind the step's. Then the clears, before anything else writes to these
 * blocks. Sources of copies are held until they are taken. Destinations of copies are not cleared. A copy is
 * dropped when its destination has no holder any more. No fence covers the copies of single calls: execute
 * them in stream order before the kernels of the next step, or before you retire the step in flight; else
 * another request may get the source, or hit it, while it is read.
 *  @return KVC_OK; BUFFER_TOO_SMALL (both counts are what is needed, nothing is taken; ask with capacities
 *  0). Since 0.3. */
KVC_API kvc_status kvc_manager_take_pending(kvc_manager* m, kvc_pending_work* work);

/** Moves contents from the highest blocks of a pool to its lowest free ones, so that the used blocks are
 *  contiguous. Moves cached blocks and blocks that only requests hold; blocks with a pin or an external
 *  hold stay. Before any block is read or written, the engine must execute the moves
 *  (kvc_storage_copy_blocks) and take the new tables: kvc_manager_export_tables has them at once; the next
 *  step of a request updates its row of the step tables and lists the changes. Afterwards the lowest free
 *  block is taken first. Holds the lock for O(blocks + entries of tables).
 *  @param[in]  pool  Index of the pool.
 *  @param[out] moves [capacity] No block occurs twice. @param[out] count Number of moves. If it equals
 *  capacity, another call may find more.
 *  @return KVC_OK; INVALID_ARGUMENT (no such pool); BUSY (a step is in flight, another thread is in
 *  kvc_manager_step, or work is pending). Since 0.2. */
KVC_API kvc_status kvc_manager_compact(kvc_manager* m, uint32_t pool, kvc_block_copy* moves, size_t capacity,
                                       size_t* count);

/* ---------------------------------------------------------------- the step */

/** kvc_step.flags. */
enum {
  KVC_STEP_WHOLE_ROWS = 1,        /**< Rewrite every table row of this step: its memory moved or was lost. */
  KVC_STEP_ADMIT_PAST_REFUSAL = 2 /**< Continue to admit after an admission that had no space. */
};

/** Arrays of a step from kvc_step_create, for kvc_step_view. Shapes in brackets use the fields of
 *  kvc_step_limits. */
enum {
  KVC_STEP_FREES = 0,            /**< uint64 [max_frees] */
  KVC_STEP_PREEMPTS = 1,         /**< uint64 [max_frees] */
  KVC_STEP_TRUNCATES = 2,        /**< uint64 [max_frees] */
  KVC_STEP_TRUNCATE_LENGTHS = 3, /**< uint64 [max_frees] */
  KVC_STEP_REQUESTS = 4,         /**< uint64 [max_requests] */
  KVC_STEP_COMMITTED = 5,        /**< uint64 [max_requests] */
  KVC_STEP_COMMIT_OFFSETS = 6,   /**< uint64 [max_requests + 1] */
  KVC_STEP_COMMIT_TOKENS = 7,    /**< int32 [max_tokens] */
  KVC_STEP_EXTEND_OFFSETS = 8,   /**< uint64 [max_requests + 1] */
  KVC_STEP_EXTEND_TOKENS = 9,    /**< int32 [max_tokens] */
  KVC_STEP_ADMIT_REQUESTS = 10,  /**< uint64 [max_admissions] */
  KVC_STEP_ADMIT_OFFSETS = 11,   /**< uint64 [max_admissions + 1] */
  KVC_STEP_ADMIT_TOKENS = 12,    /**< int32 [max_prompt_tokens] */
  KVC_STEP_ROWS = 13,            /**< int32 [max_requests + max_admissions] */
  /** int32 [3 * max_frees + max_requests + max_admissions], packed by the step's counts */
  KVC_STEP_STATUS = 14,
  KVC_STEP_ADMITTED = 15, /**< uint64 [max_admissions] */
  KVC_STEP_CACHED = 16,   /**< uint64 [max_admissions] */
  /** uint64 [num_groups * (max_requests + max_admissions)], packed by the step's counts */
  KVC_STEP_NUM_BLOCKS = 17,
  KVC_STEP_BLOCK_TABLES = 18, /**< int32 [num_groups, max_rows, row_stride] */
  KVC_STEP_SLOTS = 19,        /**< int64 [num_groups, max_tokens] */
  /** int32 [num_groups * max_requests, 2]; with KVC_MANAGER_PARTIAL_REUSE [num_groups * (max_requests +
   *  max_admissions), 2] */
  KVC_STEP_COPIES = 20,
  KVC_STEP_CHANGES = 21,          /**< int32 [max_changes, 4] */
  KVC_STEP_ADMIT_NAMESPACES = 22, /**< uint64 [max_admissions] */
  KVC_STEP_ADMIT_SLOTS = 23       /**< uint64 [max_admissions] */
};

/** Sizes of the arrays of a step for kvc_step_create. 0 gives an empty array. */
typedef struct kvc_step_limits {
  size_t struct_size;         /**< sizeof(kvc_step_limits) */
  uint64_t max_frees;         /**< Each of frees, preempts and truncates. */
  uint64_t max_requests;      /**< Running requests. */
  uint64_t max_admissions;    /**< New and re-admitted requests. */
  uint64_t max_tokens;        /**< Extended tokens of a step, and separately tokens of commits. */
  uint64_t max_prompt_tokens; /**< Tokens of all new requests of a step. */
  uint64_t max_rows;          /**< Rows of the block tables. */
  uint64_t row_stride;        /**< Entries per row: blocks of the longest request. */
  /** Entries of changes; 0 = num_groups * (max_requests + max_admissions) * row_stride. */
  uint64_t max_changes;
} kvc_step_limits;

/** Input and output of kvc_manager_step. Use your own arrays, or a step of kvc_step_create, which refuses
 *  entries that were not set (kvc_step_view gives its arrays). All offsets arrays start at 0 and never
 *  decrease.
 *
 *  Phases, in this order, each in array order: retire, commit (of `requests`), frees, preempts, truncates,
 *  extend (of `requests`), admit. */
typedef struct kvc_step {
  size_t struct_size;    /**< sizeof(kvc_step) */
  uint32_t flags;        /**< KVC_STEP_* */
  int32_t fill_id;       /**< Written where a table has no block: -1, or an id that is safe to read. */
  uint64_t retired_step; /**< Newest step_id whose kernels have finished; 0 = none, or nothing new. */
  uint64_t step_id;      /**< Out: number of this step: 1, 2, ... */
  size_t num_frees;      /**< Requests to free. */
  size_t num_preempts;   /**< Requests to preempt. */
  size_t num_truncates;  /**< Requests to truncate. */
  size_t num_requests;   /**< Running requests to commit and extend. */
  size_t num_admissions; /**< Requests to admit. */
  size_t num_rows;       /**< Rows of block_tables. */
  size_t row_stride;     /**< Entries from one row to the next; a longer table is its item's failure. */
  /** Entries of slots per group, at least extend_offsets[num_requests] if slots is given. */
  size_t slot_capacity;
  /** Entries of copies. num_groups * num_requests is always enough; with KVC_MANAGER_PARTIAL_REUSE
   *  num_groups * (num_requests + num_admissions). */
  size_t copy_capacity;
  size_t change_capacity;           /**< Entries of changes. */
  const uint64_t* frees;            /**< [num_frees] */
  const uint64_t* preempts;         /**< [num_preempts] */
  const uint64_t* truncates;        /**< [num_truncates] */
  const uint64_t* truncate_lengths; /**< [num_truncates] absolute number of tokens to keep. */
  /** [num_requests] Each request once: a later item with the same request gets INVALID_ARGUMENT. A request
   *  may also be in frees, preempts or truncates of the step: it is committed first. Tokens to extend are
   *  then NOT_FOUND after a free and BUSY after a preemption; without them the item has the status of its
   *  commit. */
  const uint64_t* requests;
  const uint64_t* committed; /**< [num_requests] absolute committed counts; NULL = no commits. */
  /** [num_requests + 1] into commit_tokens; NULL = commits bring no ids. */
  const uint64_t* commit_offsets;
  /** Ids that became known since (asynchronous scheduling), appended before the commit. If the item's commit
   *  fails, they are not kept: bring them again. */
  const int32_t* commit_tokens;
  const uint64_t* extend_offsets; /**< [num_requests + 1] tokens to extend by; NULL = no extensions. */
  /** Ids of the extended tokens: known tokens grow, and capacity up to known + lookahead. NULL = slots
   *  only: capacity grows by the count. It holds for the whole step. To mix prompt chunks and decode
   *  steps, pass NULL and bring the decode ids in commit_tokens. */
  const int32_t* extend_tokens;
  const uint64_t* admit_requests; /**< [num_admissions] waiting request, or 0 = create one; NULL = all 0. */
  /** [num_admissions + 1] into admit_tokens; NULL if all are waiting requests. */
  const uint64_t* admit_offsets;
  const int32_t* admit_tokens;      /**< Prompts of the new requests, concatenated. */
  const uint64_t* admit_namespaces; /**< [num_admissions]; NULL = all 0; ignored for waiting requests. */
  /** [num_admissions]; NULL = defaults; ignored for waiting requests. */
  const kvc_request_config* admit_configs;
  const uint64_t* admit_key_offsets; /**< [num_admissions + 1] into admit_keys; NULL = no keys. */
  const kvc_extra_key* admit_keys;   /**< Extra keys of the new requests, concatenated. */
  /** [num_requests + num_admissions] row of block_tables of each item; -1 = none; NULL = item i has row i.
   *  Two items must not have the same row. An item whose request this step frees or preempts writes no
   *  row, so an admission may use that row. */
  const int32_t* rows;
  /** Out [num_frees + num_preempts + num_truncates + num_requests + num_admissions], in that order. Each
   *  is as of the single call, or SKIPPED, or BUFFER_TOO_SMALL for a table longer than row_stride. If the
   *  commit of a request fails, neither commit nor extension is done. If its extension fails, its commit
   *  stands. */
  kvc_status* status;
  /** Out [num_admissions] request id; 0 if refused (a new request that is refused does not exist). */
  uint64_t* admitted;
  uint64_t* cached; /**< Out [num_admissions] tokens of the hit. */
  /** Out [num_groups][num_requests + num_admissions] valid entries of the row, those that
   *  hold -1 (out of the window, or without a state) included. May be NULL. */
  uint64_t* num_blocks;
  /** In, out [num_groups][num_rows][row_stride], which the caller keeps between steps: a step writes only
   *  entries that changed since the row's last step. A row that is new to a request is written whole, with
   *  fill_id to its end. To use other memory than in the last step, such as two sets in turn, set
   *  KVC_STEP_WHOLE_ROWS. May be NULL. */
  int32_t* block_tables;
  /** Out [num_groups][slot_capacity] slot of token t at extend_offsets[i] + t; -1 for failed items and in
   *  cross groups; without meaning in state groups. Only extensions have slots here. Those of an admission,
   * for its tokens from `cached` on, follow from its row of block_tables: row[t / block_size] * block_size +
   * t % block_size; kvc_manager_export_slots writes them too. May be NULL. */
  int64_t* slots;
  /** Out: copies to execute before the step's kernels. An extension needs one if its last block is shared
   *  (by a fork), pinned, held externally or published (after a truncation), an admission with partial reuse
   *  if its hit ends inside a block. May be NULL if none can be. */
  kvc_block_copy* copies;
  /** Out: entries below num_blocks written to block_tables in this step. May be NULL. */
  kvc_table_change* changes;
  size_t num_slots;   /**< Out: extend_offsets[num_requests]. */
  size_t num_copies;  /**< Out. */
  size_t num_changes; /**< Out. */
  /** Out: admissions with NO_SPACE, AGAIN, OVER_QUOTA, FILLING, SKIPPED or BUFFER_TOO_SMALL. */
  size_t num_refused;
  /** Out: blocks missing for the first admission with NO_SPACE, AGAIN or OVER_QUOTA. */
  uint64_t shortage_blocks;
  void* internal; /**< Set by kvc_step_create; NULL in a step of your own. */
  /** Time of the engine's monotonic clock (kvc_manager_set_time), which passes before all phases; 0 =
   *  unchanged. An earlier time than before is INVALID_ARGUMENT for the call. Since 0.3. */
  uint64_t now_ns;
  /** [num_admissions] Tokens after the hit that get slots, for the chunk that the step has room for: replaces
   *  kvc_request_config.slots of the request if it is admitted. 0 = as the request has it; NULL = all 0.
   * Since 0.3. */
  const uint64_t* admit_slots;
} kvc_step;

/** Creates a step with all its arrays in one allocation, so that serving allocates nothing. Pointers and
 *  capacities are set, counts are 0. Fill the arrays through kvc_step_view; set counts, flags and fill_id
 *  in the struct. Set the pointer of an optional array to NULL to switch it off, and to the data of its
 *  view to switch it on. Any thread may use a step, one at a time. Destroy it before its manager.
 *
 *  Entries that you forget to set are refused; they never count as data. These arrays begin with a value
 *  that means "not set":
 *  - commit_tokens: -1. The item gets INVALID_ARGUMENT and is neither committed nor extended.
 *  - extend_tokens: -1. The item gets INVALID_ARGUMENT and is not extended; its commit stands.
 *  - admit_tokens: -1. The item gets INVALID_ARGUMENT; no request is created.
 *  - truncate_lengths: 2^64 - 1. The item gets INVALID_ARGUMENT.
 *  - admit_offsets from [1] on: 2^64 - 1. The call fails with INVALID_ARGUMENT.
 *  - rows: INT32_MIN. The call fails with INVALID_ARGUMENT.
 *
 *  kvc_manager_step consumes these entries, except rows: when it returns KVC_OK, all entries within the
 *  counts of the step are unset again, those of refused items too, and admit_namespaces and admit_slots are
 *  0 again. Set them again to retry an item. A call that fails consumes nothing. Entries beyond the counts,
 * and arrays of your own, never change. All other inputs begin with 0 and keep their values. 0 means: no
 * request, no extension, no ids, the default namespace, no commit. In admit_requests it creates a request
 * from admit_tokens. block_tables begin with -1.
 *  @return KVC_OK; INVALID_ARGUMENT (sizes that overflow), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_step_create(kvc_manager* m, const kvc_step_limits* limits, kvc_step** step);

/** Frees a step of kvc_step_create. NULL is ignored. Since 0.1. */
KVC_API void kvc_step_destroy(kvc_step* step);

/** Describes an array of a step of kvc_step_create. @param[in] array KVC_STEP_*. @param[out] view Data,
 *  type, shape, strides.
 *  @return KVC_OK; INVALID_ARGUMENT (no such array, or not a step of kvc_step_create). Since 0.1. */
KVC_API kvc_status kvc_step_view(const kvc_step* step, int32_t array, kvc_view* view);

/** Executes one engine step: see kvc_step. The call as a whole fails only in validation, before any
 *  change; after that every item has its own status and is all or nothing. Later phases of the step can
 *  use what earlier ones released, unless steps are in flight: then a released block is FENCED until the
 *  newest step issued before its release is retired. Sources of copies are held until this step is
 *  retired. In one step no block is both source and destination, or both source and newly taken. A
 *  synchronous engine passes the previous step_id in retired_step; then nothing is fenced. If items fail,
 *  kvc_last_error() has the text of the first that failed, in the order of the phases, with its array and
 *  index, such as "frees[2]: ..." ("admissions[i]" for admissions).
 *  @return KVC_OK (look at status[]); INVALID_ARGUMENT (pointers, offsets, rows, a row of two items,
 *  counts past the arrays of a step of kvc_step_create, a step of another manager, retired_step in the
 *  future); OUT_OF_MEMORY (row numbers above max_requests); BUFFER_TOO_SMALL (slot_capacity, copy_capacity
 *  or change_capacity; num_slots, num_copies or num_changes is what is needed). Since 0.1. */
KVC_API kvc_status kvc_manager_step(kvc_manager* m, kvc_step* step);

/** States that the kernels of all steps up to step_id have finished. Blocks fenced for these steps become
 *  available. Must not be called for a step before kvc_manager_step has returned it; this is not checked.
 *  @return KVC_OK; INVALID_ARGUMENT (a step not issued). Since 0.1. */
KVC_API kvc_status kvc_manager_retire_step(kvc_manager* m, uint64_t step_id);

/* ---------------------------------------------------------------- debugging */

/** Checks every invariant of the state, in O(blocks + nodes). @return KVC_OK; CORRUPT (the text has the
 *  first broken invariant); OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_check(kvc_manager* m);

/** Hashes the state in O(blocks + nodes): blocks, order of lists, cached prefixes by content, requests,
 *  namespaces, epochs, and whether steps are in flight. Statistics, events, error texts and step numbers
 *  do not count. Equal sequences of calls give equal digests in any build, process and seed. @return
 *  KVC_OK. Since 0.1. */
KVC_API kvc_status kvc_manager_digest(kvc_manager* m, uint64_t* digest);

#ifdef __cplusplus
}
#endif

#include <kvcache/attention.h>
#include <kvcache/checkpoint.h>
#include <kvcache/device.h>
#include <kvcache/events.h>
#include <kvcache/external.h>
#include <kvcache/fills.h>
#include <kvcache/index.h>
#include <kvcache/inspect.h>
#include <kvcache/metrics.h>
#include <kvcache/model.h>
#include <kvcache/offload.h>
#include <kvcache/page.h>
#include <kvcache/plugin.h>
#include <kvcache/prefix.h>
#include <kvcache/publisher.h>
#include <kvcache/quota.h>
#include <kvcache/rebuild.h>
#include <kvcache/record.h>
#include <kvcache/resize.h>
#include <kvcache/retention.h>
#include <kvcache/scheduler.h>
#include <kvcache/sizing.h>
#include <kvcache/speculation.h>
#include <kvcache/tier.h>

#endif /* KVCACHE_H */
