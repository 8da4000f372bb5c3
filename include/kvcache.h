/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_H
#define KVCACHE_H

/** @file kvcache.h
 *  @brief libkvcache: the KV cache of an LLM inference engine as a C library. This header is the manual.
 *
 *  THE JOB. The keys and values of past tokens fill the memory of an inference engine. A manager (kvc_manager) splits that
 *  memory into fixed blocks, decides which block holds which tokens, shares equal prefixes between requests, evicts what was
 *  used least recently, and says each step where new tokens are to be written. A block id is an index
 *  into memory: the engine's own, or a kvc_storage, which keeps keys and values of such blocks and computes attention over them.
 *
 *      kvc_manager_config config = {.struct_size = sizeof config, .num_blocks = 4096};
 *      kvc_manager *m;
 *      uint64_t r, cached;
 *      if (kvc_manager_create(&config, &m) != KVC_OK) puts(kvc_last_error());
 *      kvc_manager_allocate_request(m, prompt, n, NULL, 0, NULL, &r, &cached);   // cached of n tokens need no compute
 *      kvc_manager_export_tables(m, &r, 1, 0, -1, table, width);                 // the block table for the attention kernel
 *      ... run the model on tokens [cached, n) ...
 *      kvc_manager_commit_tokens(m, r, n);                                       // their KV is written: reusable from now on
 *      kvc_manager_append_tokens(m, r, &next, 1);                                // one decode step, and so on
 *      kvc_manager_free_request(m, r);                                           // stays cached until evicted
 *
 *  THREE PROMISES. (1) A hit is never wrong: a hash only finds a candidate; namespace, parent and every token are compared.
 *  (2) A failed call changes nothing, except counters of refusals and the thread's error text. (3) The same calls give the same
 *  state: no result depends on time, pointers, hash seeds or thread timing.
 *
 *  WORDS.
 *  - Block: room for block_size tokens of all layers of one group. A block id (int32_t) names a place for life, not a content.
 *  - Group: a set of layers with one attention kind and one block table per request. Pool: a range of block ids of one byte
 *    size; groups whose blocks have equal bytes share a pool.
 *  - Request: a token sequence. known tokens: told to the library. capacity: tokens that have a slot in a block. committed: the
 *    engine says their KV is written. committed <= min(known, capacity); known and capacity are independent.
 *  - Slot: block id * block_size + offset in the block: where the KV of one token goes.
 *  - Storage: memory for the keys and values of a pool's blocks. Row: the elements of one (layer, token, KV head). Plane: all rows of one kind.
 *  - Published: a full committed block that other requests can find. A published block is never written again.
 *  - Namespace: requests of different namespaces never share.
 *  - A block is in the first of these states that applies: FENCED (released, but a step in flight may still write it), FILLING,
 *    LIVE (held by a request or raw holder, at least one token committed), RESERVED (held, nothing committed), PINNED (held by pins
 *    only), CACHED (held by nobody, findable), FREE. The states sum to the pool.
 *
 *  CONVENTIONS.
 *  - Fallible calls return kvc_status; 0 is KVC_OK. Results come only through out-parameters, which are untouched on failure;
 *    KVC_ERROR_BUFFER_TOO_SMALL writes the needed count and nothing else. kvc_last_error() has the text.
 *  - Structs that may grow begin with `size_t struct_size`, set by the caller to sizeof. Zero means the default for every field, so
 *    `{.struct_size = sizeof x}` is complete. As input, a size below that of version 0.1 or above 4096 is
 *    KVC_ERROR_INVALID_ARGUMENT, and a non-zero field that this library does not know is KVC_ERROR_UNSUPPORTED. As output, the fields
 *    that the library knows are written and the rest of the caller's struct is zeroed. In an array of such structs the struct_size of
 *    the first element is the element size, and all elements must agree.
 *  - The library keeps no pointer of the caller after a call, except config callbacks, and never returns memory to be freed.
 *  - A pointer may be NULL where its count is 0. Other NULLs are KVC_ERROR_INVALID_ARGUMENT unless a default is documented.
 *  - Ids of requests, pins and namespaces are never 0 (namespace 0 is the default one). A process never gives an id twice, not even
 *    through another manager: a stale, doubled or foreign id is KVC_ERROR_NOT_FOUND.
 *
 *  THREADING. Any thread may call any manager function at any time; a manager locks inside. One request (and one kvc_step) is
 *  driven by one thread at a time. kvc_manager_destroy excludes all other calls on that manager. Different managers are independent.
 *  After fork() the child may only exec or exit. No function is async-signal-safe. Nothing prints, exits or throws.
 *
 *  Supported: Linux on x86-64 and aarch64 (64-bit, little-endian). */

#include <stddef.h>
#include <stdint.h>

#if !defined(SWIG) && !(defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && defined(__LP64__))
#error "libkvcache supports 64-bit Linux on x86-64 and aarch64 only"
#endif

/** Version of this header; kvc_version() is that of the library. */
#define KVC_VERSION_MAJOR 0
#define KVC_VERSION_MINOR 2 /**< Before 1.0 a new one may break. */
#define KVC_VERSION_PATCH 0 /**< Mends alone. */

/** What the library exports. */
#ifdef SWIG
#define KVC_API
#else
#define KVC_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- constants */

/** Result of a fallible call: one of KVC_OK and KVC_ERROR_*. Values are never reused; treat an unknown one as an error. */
typedef int32_t kvc_status;
enum {
  KVC_OK = 0,                       /**< Done. */
  KVC_ERROR_INVALID_ARGUMENT = 1,   /**< A value that no state of the manager would make right. */
  KVC_ERROR_OUT_OF_MEMORY = 2,      /**< The allocator returned NULL. */
  KVC_ERROR_NO_SPACE = 3,           /**< Not enough free or evictable blocks. */
  KVC_ERROR_NOT_FOUND = 4,          /**< No such request, pin or namespace (never existed, stale, or of another manager), no such preset or device. */
  KVC_ERROR_BUSY = 5,               /**< Still in use, or not in the right state for this call. */
  KVC_ERROR_LIMIT = 6,              /**< A configured limit (requests, tokens of a request, counters). */
  KVC_ERROR_BUFFER_TOO_SMALL = 7,   /**< An output array is too short; the needed count was written. */
  KVC_ERROR_UNSUPPORTED = 8,        /**< Valid, but this build or state cannot do it. See kvc_supports. */
  KVC_ERROR_NOT_HELD = 9,           /**< Releasing a block that has no raw hold. */
  KVC_ERROR_CORRUPT = 10,           /**< kvc_manager_check found a broken invariant: a defect of the library or of memory. */
  KVC_ERROR_INTERNAL = 11,          /**< A defect of the library. */
  KVC_ERROR_AGAIN = 12,             /**< No space now, but enough once the steps in flight are retired. */
  KVC_ERROR_SKIPPED = 13,           /**< Step items only: not tried because an earlier admission of the step had no space. */
  KVC_ERROR_DEVICE = 14             /**< The device failed; the text says what its runtime reports. What the call was to write may be written in part. A lost device
                                         fails in every call from then on. */
};

/** Element types of arrays, views and stored keys and values. */
enum {
  KVC_INT8 = 1, KVC_UINT8 = 2, KVC_INT32 = 3, KVC_INT64 = 4, KVC_UINT64 = 5,
  KVC_FLOAT32 = 6,      /**< IEEE 754 single. */
  KVC_FLOAT16 = 7,      /**< IEEE 754 half. */
  KVC_BFLOAT16 = 8,     /**< The upper half of a single. */
  KVC_FLOAT8_E4M3 = 9,  /**< OCP FP8 E4M3 (largest 448, NaN, no infinity). */
  KVC_FLOAT8_E5M2 = 10, /**< OCP FP8 E5M2 (largest 57,344, NaN, infinity). */
  KVC_INT4 = 11         /**< Two per byte, the first in the low half. */
};

/** kvc_storage_config.layout: the order of [L layer, B block, H head, N token, C content of a row], outermost first. */
enum {
  KVC_LAYOUT_LBHNC = 0, /**< Layer first, heads outside tokens: the rows of a (block, head) are contiguous. */
  KVC_LAYOUT_LBNHC = 1, /**< Layer first, tokens outside heads: the rows of a token are contiguous. */
  KVC_LAYOUT_BLHNC = 2, /**< Page first: a block's bytes of all layers are contiguous. Heads outside tokens. */
  KVC_LAYOUT_BLNHC = 3, /**< Page first, tokens outside heads. */
  KVC_LAYOUT_BHLNC = 4  /**< Page first, heads outside layers: a block's bytes of some heads are contiguous (tensor parallelism). */
};

/** kvc_storage_config.flags. */
enum {
  KVC_STORAGE_LATENT = 1,      /**< Multi-head latent attention: values are the first v_head_dim elements of the keys; there is no value plane. */
  KVC_STORAGE_TILED_KEYS = 2,  /**< Keys in tiles [head_dim / t][16 tokens][t elements of together 4 bytes], for CPU attention. Float types, layouts
                                    with heads outside tokens, block_size a multiple of 16. Tiled planes have no view. */
  KVC_STORAGE_ASYMMETRIC = 4,  /**< Integer types: a scale and an offset per group instead of a scale. */
  KVC_STORAGE_NOT_ZEROED = 8,  /**< Own memory is not cleared at creation: faster, but reading what was never stored gives anything. */
  KVC_STORAGE_CHANNEL_KEYS = 16, /**< INT8 and INT4: keys have a scale per channel (element of a row) over the tokens of a block instead of scales per
                                    row (KIVI, arXiv:2402.02750), which costs less accuracy where few channels are large. A layer of a block is
                                    *open* while tokens are being stored to it, its keys in bfloat16 beside the blocks, and *sealed* once all are
                                    stored: see open_blocks. Not for latent rows. */
  KVC_STORAGE_HADAMARD = 32    /**< FP8 and integer types: rows are stored rotated by the orthonormal Walsh-Hadamard matrix, which spreads a large
                                    element over its row before it is quantized; what comes out of gather and attention is rotated back, queries
                                    are rotated like keys. A row with NaN or infinity comes back as NaN (FP8) or zeros. Needs powers of two as
                                    head_dim and v_head_dim, and no latent rows. */
};

/** Planes of a storage. */
enum {
  KVC_PLANE_K = 0, KVC_PLANE_V = 1,             /**< Keys; values. */
  KVC_PLANE_K_SCALE = 2, KVC_PLANE_V_SCALE = 3  /**< float32, one per group of a row, or (scale, offset) pairs; with
                                                     KVC_STORAGE_CHANNEL_KEYS one per channel of a key and channel_tokens tokens. */
};

/** kvc_attention.flags. */
enum {
  KVC_ATTENTION_NOT_CAUSAL = 1, /**< Queries see later positions too (encoders, cross attention). */
  KVC_ATTENTION_ON_DEVICE = 2,  /**< Not on the CPU: every array is in memory that the device reads. Nothing in it is looked at or copied at the call: a graph that
                                     was captured reads what is there when it is replayed. Entries out of range are the caller's fault. */
  KVC_ATTENTION_INVARIANT = 4,  /**< Not on the CPU: the bits of a request's result do not depend on what else is in the batch. */
  KVC_ATTENTION_SCHEDULED = 8   /**< kvc_attention.schedule holds what an earlier call has worked out. */
};

/** kvc_rows.flags. */
enum {
  KVC_ROWS_ON_DEVICE = 1,       /**< Not on the CPU: slots, block_table and rope_rows are in memory that the device reads, as with
                                     KVC_ATTENTION_ON_DEVICE. */
  KVC_ROWS_ROPE_INTERLEAVED = 2 /**< With rope_table: elements 2 i and 2 i + 1 of those that turn make a pair, instead of i and i + rope_dim / 2. */
};

/** kvc_group_config.kind. */
enum {
  KVC_GROUP_FULL = 0,          /**< Full attention: every earlier token is needed. */
  KVC_GROUP_SLIDING_WINDOW = 1 /**< The query at position p reads positions p - window_tokens + 1 .. p, and the first num_sink_tokens. */
};

/** kvc_manager_config.policy. */
enum { KVC_POLICY_LRU = 0 /**< Least recently released first; of one request its deepest blocks first. */ };

/** kvc_manager_config.flags. */
enum {
  KVC_MANAGER_NULL_BLOCK = 1,       /**< Block id 0 is reserved for the engine (padding), outside all counts. */
  KVC_MANAGER_PUBLISH_ENQUEUED = 2, /**< Reserved: KVC_ERROR_UNSUPPORTED. */
  KVC_MANAGER_PARTIAL_REUSE = 4,    /**< Reserved: KVC_ERROR_UNSUPPORTED. */
  KVC_MANAGER_NO_PREFIX_CACHE = 8,  /**< Never publish: nothing is found again, blocks return to FREE at once. */
  KVC_MANAGER_ZERO_FOREIGN = 16,    /**< Blocks that go from one namespace to another must be cleared: kvc_manager_take_zero_blocks. A raw holder is foreign to
                                         every namespace. A block that it releases belongs to a namespace only if it is published there. */
  KVC_MANAGER_ZERO_ALWAYS = 32      /**< All blocks that are handed out must be. */
};

/** kvc_request_config.flags. */
enum {
  KVC_REQUEST_NO_READ = 1,        /**< Use no cached block: compute everything. */
  KVC_REQUEST_NO_WRITE = 2,       /**< Publish nothing. */
  KVC_REQUEST_FULL_MUST_FIT = 4,  /**< Admit only if all known tokens would fit, even if `slots` asks for fewer now. */
  KVC_REQUEST_RESUMED = 8         /**< Admitted before under another id: counted in kvc_stats.readmissions, not in admissions. */
};

/** kvc_step.flags. */
enum {
  KVC_STEP_WHOLE_ROWS = 1,         /**< Rewrite every row of this step (its memory moved or was lost). */
  KVC_STEP_ADMIT_PAST_REFUSAL = 2  /**< Go on admitting after an admission that had no space. */
};

/** kvc_event.kind. */
enum {
  KVC_EVENT_STORED = 1,  /**< A prefix position became findable in a group. */
  KVC_EVENT_REMOVED = 2, /**< Its last findable copy in that group went away. */
  KVC_EVENT_CLEARED = 3  /**< Everything in namespace_id (0 = all namespaces) went away; no REMOVED follow for it. */
};

/** kvc_block_info.state. */
enum {
  KVC_BLOCK_FREE = 0, KVC_BLOCK_CACHED = 1, KVC_BLOCK_PINNED = 2, KVC_BLOCK_RESERVED = 3, KVC_BLOCK_LIVE = 4, KVC_BLOCK_FILLING = 5,
  KVC_BLOCK_FENCED = 6
};

/** Questions for kvc_supports. */
enum {
  KVC_FEATURE_LRU = 1, KVC_FEATURE_SLIDING_WINDOW = 2, KVC_FEATURE_SEVERAL_POOLS = 3, KVC_FEATURE_EVENTS = 4, KVC_FEATURE_PARTIAL_REUSE = 5,
  KVC_FEATURE_PUBLISH_ENQUEUED = 6, KVC_FEATURE_MERGE_DUPLICATES = 7, KVC_FEATURE_QUOTAS = 8, KVC_FEATURE_PRIORITY = 9, KVC_FEATURE_TIERS = 10
};

/** Arrays of a step made by kvc_step_create, for kvc_step_view. Shapes in brackets use the fields of kvc_step_limits. */
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
  KVC_STEP_STATUS = 14,          /**< int32 [3 * max_frees + max_requests + max_admissions], packed by the step's own counts */
  KVC_STEP_ADMITTED = 15,        /**< uint64 [max_admissions] */
  KVC_STEP_CACHED = 16,          /**< uint64 [max_admissions] */
  KVC_STEP_NUM_BLOCKS = 17,      /**< uint64 [num_groups * (max_requests + max_admissions)], packed by the step's own counts */
  KVC_STEP_BLOCK_TABLES = 18,    /**< int32 [num_groups, max_rows, row_stride] */
  KVC_STEP_SLOTS = 19,           /**< int64 [num_groups, max_tokens] */
  KVC_STEP_COPIES = 20,          /**< int32 [num_groups * max_requests, 2] */
  KVC_STEP_CHANGES = 21          /**< int32 [max_changes, 4] */
};

/* ---------------------------------------------------------------- types */

/** The block manager. Opaque; made by kvc_manager_create. */
typedef struct kvc_manager kvc_manager;

/** Where a manager takes its memory. Called while the manager's lock is held: must not call the library, throw or block.
 *  `allocate` returns `size` bytes aligned to `alignment` (a power of two) or NULL; `release` gets the same size and alignment back. */
typedef struct kvc_allocator {
  size_t struct_size; /**< sizeof(kvc_allocator) */
  void *user_data;    /**< Passed to both functions. */
  void *(*allocate)(void *user_data, size_t size, size_t alignment);             /**< Memory, or NULL. */
  void (*release)(void *user_data, void *memory, size_t size, size_t alignment); /**< Takes it back. */
} kvc_allocator;

/** A pool of blocks of one byte size. Block ids are numbered through all pools: pool p starts where pool p - 1 ends. */
typedef struct kvc_pool_config {
  size_t struct_size;  /**< sizeof(kvc_pool_config) */
  uint64_t num_blocks; /**< Blocks of this pool, at least 1. */
} kvc_pool_config;

/** A group of layers with one block table per request. */
typedef struct kvc_group_config {
  size_t struct_size;        /**< sizeof(kvc_group_config) */
  uint32_t kind;             /**< KVC_GROUP_FULL or KVC_GROUP_SLIDING_WINDOW; other kinds: KVC_ERROR_UNSUPPORTED. */
  uint32_t num_sink_tokens;  /**< Sliding window: first tokens that stay readable for ever; their blocks are never returned. */
  uint64_t window_tokens;    /**< Sliding window: tokens read by a query, itself included; at least 1. Full attention: 0. A window of 1 keeps the
                                  same blocks as a window of 2, so that a hit holds the block at its end. */
  uint64_t retention_tokens; /**< Sliding window: also keep the windows in front of every multiple of this many tokens reusable, beside those
                                  at the prompt's and the request's end. A multiple of block_size; 0 = only the two ends. No request reaches
                                  2^32 tokens, so greater values act as 0. */
  uint32_t pool;             /**< Index of the pool that this group takes its blocks from. */
  uint32_t reserved;         /**< 0 */
} kvc_group_config;

/** Shape and limits of a manager. Everything but num_blocks (or pools) has a default. */
typedef struct kvc_manager_config {
  size_t struct_size;          /**< sizeof(kvc_manager_config) */
  uint64_t num_blocks;         /**< Blocks of the only pool, 1 (with the null block 2) .. 2^31 - 66; 0 when `pools` is given. */
  uint64_t max_nodes;          /**< Prefix positions remembered. 0 = blocks + blocks/32 + 64 with full-attention groups only, else
                                    2 * blocks. When all are in use, requests stop publishing (kvc_stats.unpublished_blocks). */
  uint64_t max_requests;       /**< Requests alive at once, waiting ones included; 0 = 1024, at most 262,143. Also the limit of pins. */
  uint64_t max_request_tokens; /**< Tokens of one request; 0 = 2^24, at most 2^30. */
  uint64_t event_capacity;     /**< Events kept for kvc_manager_poll_events; 0 = no events (and no digests computed). At most 2^24. */
  uint64_t seed;               /**< Secret of the table hash; 0 = random. Never changes a result. */
  uint64_t watermark_blocks;   /**< An admission must leave this many blocks of each pool available, unless no request is admitted yet. */
  uint32_t block_size;         /**< Tokens per block, 1 .. 1024; 0 = 16. */
  uint32_t vocab_size;         /**< Token ids must be below this; 0 = only non-negative. */
  uint32_t policy;             /**< KVC_POLICY_LRU; others: KVC_ERROR_UNSUPPORTED. */
  uint32_t flags;              /**< KVC_MANAGER_* */
  const kvc_group_config *groups; /**< [num_groups] or NULL = one full-attention group. */
  size_t num_groups;              /**< 0 .. 32 */
  const kvc_pool_config *pools;   /**< [num_pools] or NULL = one pool of num_blocks. Each must be used by a group. */
  size_t num_pools;               /**< 0 .. 32 */
  const kvc_allocator *allocator; /**< NULL = the library's own (aligned heap memory). */
  /** Receives warnings as finished text, after the lock is released; NULL = none. Must not call this manager. level: 1 warning, 2 info. */
  void (*log)(void *user_data, int32_t level, const char *text);
  void *log_user_data; /**< Passed to log. */
} kvc_manager_config;

/** What a manager was made with, defaults filled in. */
typedef struct kvc_properties {
  size_t struct_size; /**< sizeof(kvc_properties) */
  uint64_t num_blocks, max_nodes, max_requests, max_request_tokens, event_capacity, watermark_blocks; /**< As in kvc_manager_config; num_blocks: all
                                                                                                           pools, null block included. */
  uint32_t block_size, vocab_size, policy, flags, num_groups, num_pools; /**< As in kvc_manager_config. */
} kvc_properties;

/** Identity of a namespace: everything that makes KV of equal tokens different. Each part is opaque bytes: NULL = absent; non-NULL with
 *  size 0 = present and empty, which is different. */
typedef struct kvc_namespace_config {
  size_t struct_size;                           /**< sizeof(kvc_namespace_config) */
  const void *model, *adapter, *tenant;         /**< Model fingerprint (with the weights' version, KV dtype, layout); adapter with version; tenant salt. */
  size_t model_size, adapter_size, tenant_size; /**< Bytes, each at most 65536. */
} kvc_namespace_config;

/** Options of a request. NULL where a pointer to it is taken means all defaults. */
typedef struct kvc_request_config {
  size_t struct_size;         /**< sizeof(kvc_request_config) */
  uint64_t namespace_id;      /**< From kvc_manager_open_namespace; 0 = the default one. */
  uint64_t user_data;         /**< Returned by kvc_manager_request_info; not interpreted. */
  uint64_t max_cached_tokens; /**< Upper bound of the hit; 0 = known tokens - 1, which is the bound in any case. */
  uint64_t external_tokens;   /**< Tokens after the hit that a transfer will fill: they get blocks at admission beside `slots`, and are published
                                   when committed like computed ones. */
  uint64_t slots;             /**< Tokens after the hit (and after external_tokens) that get blocks at admission; 0 = all known. Chunked prefill. */
  uint64_t lookahead;         /**< Slots kept reserved past the known tokens (speculative decoding). */
  uint32_t flags;             /**< KVC_REQUEST_* */
  uint32_t drop_tail_blocks;  /**< Give back this many blocks from the end of the hit, once (draft heads that need hidden states). */
  int64_t priority;           /**< Reserved: non-zero is KVC_ERROR_UNSUPPORTED. */
} kvc_request_config;

/** Identity of a span of tokens whose ids alone do not identify it (an image's placeholders). Two blocks are equal only if the spans over
 *  them have equal digests, lengths and offsets. A hit never ends inside a span. Frozen. */
typedef struct kvc_extra_key {
  uint64_t first_token; /**< Position of the span's first token in the request. */
  uint64_t num_tokens;  /**< Length of the span, at least 1. */
  uint8_t digest[32];   /**< Content digest, computed by a party that the engine trusts. */
} kvc_extra_key;

/** State of a request. */
typedef struct kvc_request_info {
  size_t struct_size;          /**< sizeof(kvc_request_info) */
  uint64_t namespace_id;       /**< As configured. */
  uint64_t user_data;          /**< As configured. */
  uint64_t num_tokens;         /**< Known tokens. */
  uint64_t num_committed;      /**< Tokens whose KV is written. */
  uint64_t num_cached;         /**< Tokens of the hit at its (last) admission. */
  uint64_t capacity;           /**< Tokens that have slots; 0 while waiting. */
  uint64_t num_blocks;         /**< Blocks held, all groups. */
  uint64_t lost_reuse_tokens;  /**< Tokens that some group could have reused but another could not, at its (last) admission. */
  uint64_t min_truncate_tokens;/**< Smallest non-zero length that kvc_manager_truncate_request can restore. Without sinks it can restore every
                                    greater length too. With sinks it may refuse lengths between the sinks and the present window. */
  uint32_t admitted;           /**< 1 = holds blocks, 0 = waiting. */
  uint32_t flags;              /**< KVC_REQUEST_* as configured. */
} kvc_request_info;

/** Answer of kvc_manager_probe. */
typedef struct kvc_probe_info {
  size_t struct_size;        /**< sizeof(kvc_probe_info) */
  uint64_t num_cached;       /**< Tokens that would hit. */
  uint64_t blocks_needed;    /**< Blocks that admitting all tokens would take out of the available ones of the tightest pool, hits on idle
                                  blocks included. */
  uint64_t blocks_available; /**< Free and evictable blocks of that pool. It fits if needed + watermark <= available. */
  uint64_t lost_reuse_tokens;/**< As in kvc_request_info. */
} kvc_probe_info;

/** State of one block. */
typedef struct kvc_block_info {
  size_t struct_size;    /**< sizeof(kvc_block_info) */
  uint64_t token_offset; /**< If published: position of its first token. */
  uint32_t state;        /**< KVC_BLOCK_* */
  uint32_t pool;         /**< Index of its pool. */
  uint32_t requests;     /**< References of requests. */
  uint32_t raw_holds;    /**< Holds of kvc_manager_acquire_blocks and kvc_manager_acquire_prefix. */
  uint32_t pins;         /**< Holds of kvc_manager_pin_prefix. */
  uint32_t published;    /**< 1 = attached to a prefix position. */
  uint32_t num_copies;   /**< Published blocks with the same identity and group, this one included; 0 if not published. */
  int32_t group;         /**< Group of its current content, -1 if never used. */
} kvc_block_info;

/** Counts of one pool; the states sum to num_blocks. */
typedef struct kvc_pool_info {
  size_t struct_size;   /**< sizeof(kvc_pool_info) */
  uint64_t first_block; /**< Lowest block id, a reserved null block included. */
  uint64_t num_blocks;  /**< Usable blocks. */
  uint64_t free, cached, live, reserved, filling, fenced, pinned; /**< Blocks by state. */
} kvc_pool_info;

/** Copy the contents of block `source` to block `destination`, before the step's kernels write. Frozen. */
typedef struct kvc_block_copy {
  int32_t source, destination; /**< Block ids; of kvc_storage_swap_out and kvc_storage_swap_in, one of them is a page. */
} kvc_block_copy;

/** block_tables[group][row][column] became `block`. Frozen. */
typedef struct kvc_table_change {
  int32_t group, row, column, block; /**< Indices, and the block id. */
} kvc_table_change;

/** What became findable or went away, for routers and other caches. Read in order of `sequence`; a jump means that events were lost.
 *  digest = SHA-256(parent_digest, extra_digest, num_tokens as uint32 little-endian, the tokens as int32 little-endian): a chain over the
 *  prefix; the first parent_digest identifies the namespace. */
typedef struct kvc_event {
  uint64_t sequence;         /**< 0, 1, 2, ... per manager. */
  uint64_t time_ns;          /**< Wall clock, nanoseconds since 1970. */
  uint64_t epoch;            /**< Epoch of the namespace: grows with each reset. */
  uint64_t namespace_id;     /**< 0 = default (CLEARED: all). */
  uint64_t node;             /**< Prefix position, never reused; 0 for CLEARED. */
  uint64_t parent_node;      /**< Position before it; 0 = the namespace's root. */
  uint64_t token_offset;     /**< Position of the first token. */
  uint32_t kind;             /**< KVC_EVENT_* */
  uint32_t group;            /**< Group in which it was stored or removed. */
  uint32_t num_tokens;       /**< Tokens of the position: block_size; 0 for CLEARED. */
  int32_t block;             /**< Block stored; for REMOVED the one that held it; -1 for CLEARED. */
  uint8_t digest[32];        /**< Chained identity of the position. */
  uint8_t parent_digest[32]; /**< That of its parent. */
  uint8_t extra_digest[32];  /**< SHA-256 over the extra keys in this block: per key int64 offset from the block's first token, uint64 length, digest;
                                  all zero if none. */
} kvc_event;

/** An array inside a step, for bindings. Frozen; strides in bytes. */
typedef struct kvc_view {
  void *data;         /**< First element. */
  int32_t dtype;      /**< KVC_INT32, ... */
  int32_t ndim;       /**< Used entries of shape and strides. */
  int64_t shape[4];   /**< Elements per dimension. */
  int64_t strides[4]; /**< Bytes per dimension. */
} kvc_view;

/** Memory for the keys and values of one pool's blocks. Opaque; made by kvc_storage_create. */
typedef struct kvc_storage kvc_storage;

/** What a storage holds. Zero is the default of every field but num_layers, num_heads, head_dim and num_blocks. */
typedef struct kvc_storage_config {
  size_t struct_size;    /**< sizeof(kvc_storage_config) */
  uint64_t num_blocks;   /**< Blocks: ids 0 .. num_blocks - 1; 0 with memory_fraction. Give it the manager's pool, so that block ids are the same. */
  uint32_t num_layers;   /**< Layers of the group. */
  uint32_t num_heads;    /**< KV heads; 1 for latent attention. */
  uint32_t head_dim;     /**< Elements of a key row, 1 .. 8192. */
  uint32_t v_head_dim;   /**< Elements of a value row; 0 = head_dim. */
  uint32_t block_size;   /**< Tokens per block, 1 .. 1024; 0 = 16. On the CPU up to 1048576, but with KVC_STORAGE_CHANNEL_KEYS: a block then holds a whole request,
                              keys and values of a layer and head in one piece; its table has one entry. For engines without a kvc_manager. */
  int32_t dtype;         /**< Stored type: KVC_FLOAT32, FLOAT16, BFLOAT16, FLOAT8_E4M3, FLOAT8_E5M2, INT8, INT4; 0 = KVC_BFLOAT16. */
  uint32_t layout;       /**< KVC_LAYOUT_* */
  uint32_t flags;        /**< KVC_STORAGE_* */
  uint32_t scale_group;  /**< Elements of a row that share a scale, at least 4. 0 = integer types: the whole row; FP8: no scales in the blocks, but
                              k_scale and v_scale. Other types: 0. */
  uint32_t alignment;    /**< Of each block's part in bytes, a power of two, 16 .. 4096; 0 = 64. */
  uint32_t num_threads;  /**< Threads that work on one call, the caller included, 1 .. 256; 0 = 1. With parallel_for its workers, not 0. */
  uint32_t memory_kind;  /**< KVC_MEMORY_* of own memory; with `memory` 0 or KVC_MEMORY_EXTERNAL. */
  void *memory;          /**< Foreign memory to use in place, aligned to `alignment`; NULL = the library takes its own. Kept until kvc_storage_destroy. */
  size_t memory_size;    /**< Bytes of it, at least kvc_storage_info.slab_bytes. */
  const kvc_allocator *allocator; /**< For own memory; NULL = the device's, with huge pages where it has them. */
  const char *device;    /**< Where the memory is and who works on it: NULL or "cpu". See kvc_device_properties. */
  /** The caller's threads instead of threads of the library: runs job(data, i, worker) once for each i < count and returns when all have returned.
   *  worker < num_threads, and no two jobs of a call that run at the same time have the same one. The calling thread may run any of them or all; the
   *  result is that of num_threads threads bit by bit. Called by whoever calls a function of the storage, kvc_storage_create included, and by the
   *  threads of streams: by several at once if they do. Must not throw. NULL = the library's threads. */
  void (*parallel_for)(void *parallel_context, size_t count, void (*job)(void *data, size_t i, size_t worker), void *data);
  void *parallel_context; /**< Passed to parallel_for. */
  float k_scale, v_scale;  /**< One scale for all keys and one for all values, 1e-30 .. 1e30: x is stored as x / scale, and what is too large then as the
                                largest magnitude. FP8 with scale_group 0: 0 = 1. Integer types without scale_group, asymmetry or channel keys: both
                                (latent rows: k_scale) instead of scales in the blocks, 0 = none. Others: 0. */
  uint32_t channel_tokens; /**< KVC_STORAGE_CHANNEL_KEYS: tokens of a block that share the scale of a channel, a divisor of block_size; 0 = all. */
  uint32_t open_blocks;    /**< KVC_STORAGE_CHANNEL_KEYS: blocks of a layer that may be open at once, at most 65,535: give it the sequences that decode
                                at once; 0 = 64. Where more are stored to, the one that was stored to longest ago is sealed early, which costs
                                accuracy alone. */
  float memory_fraction;   /**< With num_blocks 0: as many blocks as fit into this part of the device's free memory, above 0 and at most 1, of a device that
                                tells it (kvc_device_info.free_bytes). 0 = num_blocks says it. */
  uint32_t reserved;       /**< 0 */
} kvc_storage_config;

/** A storage as it is. */
typedef struct kvc_storage_info {
  size_t struct_size;    /**< sizeof(kvc_storage_info) */
  void *data;            /**< First byte of the slab. */
  uint64_t slab_bytes;   /**< Of all blocks. */
  uint64_t block_bytes;  /**< Of one block, all layers, scales and padding included. */
  uint64_t token_bytes;  /**< Of one token, all layers, scales included, padding not. */
  uint64_t num_blocks;   /**< As configured, like all that follow; defaults filled in. */
  uint32_t num_layers, num_heads, head_dim, v_head_dim, block_size; /**< As in kvc_storage_config. */
  int32_t dtype;                                                    /**< As in kvc_storage_config. */
  uint32_t layout, flags, scale_group, alignment;                   /**< As in kvc_storage_config. */
  uint32_t memory_kind;  /**< KVC_MEMORY_* as it is, never the default. */
  uint32_t reserved;     /**< 0 */
  uint64_t open_bytes;     /**< Beside the slab: for the keys of open blocks. */
  float k_scale, v_scale;  /**< 0 = scales are in the blocks, or there are none. */
  uint32_t channel_tokens, open_blocks; /**< As in kvc_storage_config. */
} kvc_storage_info;

/** What storing rows has cost and saved, measured. Elements that were not finite before have no error and count in bytes alone; a finite one that
 *  came back as NaN or infinity has an infinite error. */
typedef struct kvc_quant_metrics {
  size_t struct_size;  /**< sizeof(kvc_quant_metrics) */
  uint64_t elements;   /**< Compared. */
  uint64_t bytes;      /**< What they take: codes, scales (of a channel, their tokens' share, rounded up), open rows in bfloat16. */
  uint64_t fp16_bytes; /**< What they would take as fp16. */
  double ratio;        /**< fp16_bytes / bytes; 0 without elements. */
  double mse;          /**< Mean squared error of finite elements. */
  double snr_db;       /**< 10 log10(sum of squares / sum of squared errors); +infinity without error, -infinity with error but without signal. */
  double max_error;    /**< Largest absolute error. */
} kvc_quant_metrics;

/** kvc_quant_format.flags. */
enum {
  KVC_QUANT_ASYMMETRIC = 1, /**< Integer types: (scale, offset) pairs instead of scales. */
  KVC_QUANT_CHANNELS = 2    /**< A scale per column, shared by all rows, instead of scales per row. */
};

/** How kvc_quantize makes codes of rows of floats. */
typedef struct kvc_quant_format {
  size_t struct_size; /**< sizeof(kvc_quant_format) */
  int32_t dtype;      /**< KVC_INT8, KVC_INT4, KVC_FLOAT8_E4M3 or KVC_FLOAT8_E5M2. */
  uint32_t flags;     /**< KVC_QUANT_* */
  uint32_t group;     /**< Elements of a row that share a scale; 0 = the whole row. */
  float scale;        /**< One scale for all, 1e-30 .. 1e30, given: there are no others. 0 = scales are found. */
} kvc_quant_format;

/** Rows to store or to gather: keys and values of tokens in some layers. Element (l, t, h, e) of the caller's k is at
 *  k + l * k_layer_stride + t * k_token_stride + h * k_head_stride + e, counted in elements; likewise v. Layers, tokens and heads, times
 *  their strides, stay below 2^60 in sum. */
typedef struct kvc_rows {
  size_t struct_size;     /**< sizeof(kvc_rows) */
  void *k;                /**< [num_layers][num_tokens][num_heads][head_dim]. Only read by a store; written by a gather. */
  void *v;                /**< [num_layers][num_tokens][num_heads][v_head_dim]; NULL for latent attention. */
  size_t num_tokens;      /**< Tokens. */
  uint32_t first_layer;   /**< Layer of the storage that l = 0 is. */
  uint32_t num_layers;    /**< Layers; 0 = 1. */
  int32_t dtype;          /**< Of k and v: KVC_FLOAT32, FLOAT16 or BFLOAT16; 0 = KVC_FLOAT32. */
  uint32_t flags;         /**< KVC_ROWS_* */
  int64_t k_layer_stride, k_token_stride, k_head_stride; /**< 0 = contiguous. */
  int64_t v_layer_stride, v_token_stride, v_head_stride; /**< 0 = contiguous. */
  const int64_t *slots;   /**< [num_tokens] block id * block_size + offset, as kvc_step.slots; -1 = skip this token (a gather leaves its rows as they
                               are). No slot may stand twice in a store. NULL = by position: */
  const int32_t *block_table; /**< [block_table_size] block ids of a request; token t is its position first_token + t. */
  size_t block_table_size;    /**< Entries. */
  uint64_t first_token;       /**< Position of token 0. */
  const float *rope_table;    /**< [rope_table_rows][rope_dim] from kvc_rope_table, in memory like k: a store writes the keys that kvc_rope_apply would make
                                   of a copy of k, in all layers. NULL = keys are stored as they are, and no field below is read. Gathers and
                                   measurements refuse it: what is stored is turned already. */
  const int64_t *rope_rows;   /**< [num_tokens] the table's row of each token; NULL = row t for token t. That of a skipped token has to be in range too.
                                   With KVC_ROWS_ON_DEVICE it is not read, and a token whose row is outside turns by some row of the table. */
  size_t rope_table_rows;     /**< Rows of rope_table. */
  uint32_t rope_dim;          /**< Elements of a key that turn, even; 0 = all. */
  uint32_t rope_first_element; /**< First of them. Latent rows: latent_dim - rope_dim. */
} kvc_rows;

/** Queries and what they attend to. Request r has queries q_offsets[r] .. q_offsets[r + 1] - 1; its query i is at position q_starts[r] + i. */
typedef struct kvc_attention {
  size_t struct_size;        /**< sizeof(kvc_attention) */
  const void *q;             /**< [queries][num_q_heads][head_dim], or as q_token_stride and q_head_stride say. */
  void *out;                 /**< [queries][num_q_heads][v_head_dim], or as out_token_stride and out_head_stride say; a query that sees nothing gets zeros. */
  float *lse;                /**< [queries][num_q_heads] natural log of the sum of exp(logit), that of the sink logit included; -infinity for a query that sees
                                  nothing and has no sink logit. NULL = not wanted. */
  size_t num_requests;       /**< Requests. */
  const uint64_t *q_offsets; /**< [num_requests + 1], from 0, never decreasing. */
  const uint64_t *q_starts;  /**< [num_requests]; NULL = the queries are the last tokens: kv_lens[r] - number of queries (if not causal, possibly below 0). */
  const uint64_t *kv_lens;   /**< [num_requests] tokens in the cache, those of the queries included. */
  const int32_t *block_tables; /**< [num_requests][table_stride] block ids; entries of positions that causality, window and sinks hide from all queries may be anything. */
  size_t table_stride;       /**< Entries from one request's table to the next. */
  uint32_t layer;            /**< Layer of the storage. */
  uint32_t num_q_heads;      /**< A multiple of num_heads; query head h reads KV head h / (num_q_heads / num_heads). */
  int32_t dtype;             /**< Of q and out: KVC_FLOAT32, FLOAT16 or BFLOAT16; 0 = KVC_FLOAT32. */
  uint32_t flags;            /**< KVC_ATTENTION_* */
  float scale;               /**< Of q . k, -1e30 .. 1e30; 0 = 1 / sqrt(head_dim). */
  float soft_cap;            /**< Logits become soft_cap * tanh(logit / soft_cap), 1e-30 .. 1e30; 0 = none. */
  uint64_t window;           /**< Position p sees p - window + 1 .. p; 0 = no window. */
  uint64_t sinks;            /**< With a window: the first `sinks` positions are seen as well. */
  const float *alibi_slopes; /**< [num_q_heads] slope * (position of the key - position of the query) is added to the logit; NULL = none. */
  const uint8_t *mask;       /**< Bits, the lowest of a byte first: bit mask_offsets[r] + i * (kv_lens[r] - s) + j - s says whether query i of request r
                                  may see position j >= s = mask_starts[r], besides all other rules. NULL = none. */
  const uint64_t *mask_offsets; /**< [num_requests] First bit of each request. The mask must contain the bits of all requests. The library does not know
                                     its length and cannot check this. */
  const uint64_t *mask_starts;  /**< [num_requests] position from which on the mask counts, at most kv_lens[r]; NULL = 0. A tree of draft tokens at the
                                     end of a long context needs bits for the tree alone: see kvc_tree_mask. */
  const uint8_t *block_mask; /**< [num_requests][num_heads][block_mask_stride] block-sparse attention: bit j, the lowest of a byte first, says whether
                                  the queries of a KV head may read the block of block_tables[r][j], besides all other rules. Table entries of
                                  blocks that no head reads may be anything, but not with a stream. All bits set gives what NULL gives, bit by bit.
                                  NULL = all blocks. */
  size_t block_mask_stride;  /**< Bytes from one head's bits to the next, at least one bit per block of kv_lens[r]; with KVC_ATTENTION_ON_DEVICE of max_kv_len. */
  uint64_t total_queries;    /**< KVC_ATTENTION_ON_DEVICE: at least the last of q_offsets in this call and all replays; at least 1. */
  uint64_t max_queries;      /**< KVC_ATTENTION_ON_DEVICE: at least the queries of any request; 0 = total_queries. */
  uint64_t max_kv_len;       /**< KVC_ATTENTION_ON_DEVICE: at least every one of kv_lens; 0 = all that table_stride blocks hold. A request that a replay
                                  brings beyond one of these three limits gets NaN; the others are right, if q_offsets never decrease, and no other
                                  memory is touched. The product of num_requests, num_q_heads and each of the last two is at most 2^52. */
  uint64_t shared_tokens;    /**< The first so many tokens are the same for all requests: all of block_tables begin with the same entries, no causal query
                                  stands before their end, and mask_starts, if given, are at least this. A GPU then reads them once for all queries and merges both
                                  parts (kvc_attention_plan.shared_tokens); the result is what the tables say, as without it, but for rounding. On the
                                  CPU it changes nothing. 0 = none. */
  void *schedule;            /**< Memory that the device writes, aligned to 16, for who does which part of the work on a GPU, which follows from the lengths
                                  alone: worked out here by the first layer of a step, used by its other layers with KVC_ATTENTION_SCHEDULED, in order behind
                                  it (the same stream or graph). Calls that share it agree in num_requests, heads, dtype, flags, window, sinks, the lengths
                                  (q_offsets, q_starts, kv_lens, total_queries, max_queries, max_kv_len), shared_tokens (with it also in whether they have
                                  block_mask, alibi_slopes, mask and mask_starts) and the storage's configuration; all else may differ: q, out (a multiple of
                                  4, in 16-bit types with even strides), layer, block_tables, scale, sink_logits, what the masks hold. The result is that
                                  without it, bit by bit. A schedule of other calls, or memory that none has filled, gives NaN where it does not fit; of
                                  queries that it does not know out holds anything, and no memory but the call's is touched. One that something else has written into is the caller's fault. NULL = worked out by
                                  each call. On the CPU it changes nothing. */
  uint64_t schedule_bytes;   /**< Bytes of schedule, at least kvc_attention_plan.schedule_bytes. */
  const float *sink_logits;  /**< [num_q_heads] A learned logit for each query head, as gpt-oss has: one more logit s of each query, with no token and no value, so
                                  that a query may attend to nothing. out = sum of exp(l_j) v_j / (sum of exp(l_j) + exp(s)), and lse is the log of that divisor.
                                  s is used as it is: scale, soft_cap and ALiBi do not change it. A query that sees no token gets zeros, and s as lse. Each is
                                  finite, or -infinity: no such logit for this head. If partial results are merged by their lse, give it to one part only.
                                  `sinks` is something else: it counts tokens. kvc_storage_select_blocks does not use it. NULL = none. */
  int64_t q_token_stride, q_head_stride; /**< Element e of head h of query t is at q + t * q_token_stride + h * q_head_stride + e, counted in elements of dtype.
                                  So q may be a part of a larger array, such as the result of a fused QKV projection. At least 0. q_head_stride 0 = head_dim;
                                  q_token_stride 0 = num_q_heads * q_head_stride. Rows of q may overlap. Queries and heads, times their strides, stay below
                                  2^60 in sum. */
  int64_t out_token_stride, out_head_stride; /**< The same for out and v_head_dim. Rows of out must not overlap: the smaller stride is at least v_head_dim, and the
                                  larger one at least the extent of all rows along the smaller. The stride of a dimension with one entry does not matter. What
                                  lies between rows is not written. */
  void *workspace;           /**< Memory of the device, aligned to 256, for what the call needs beside its arrays. Until the call is done, nothing else may use
                                  it, and neither may another call that can run at the same time. A captured graph keeps using it: graphs that never run at
                                  the same time may share one. NULL = the library's own, which a captured graph holds until the storage ends. On the CPU it
                                  changes nothing. */
  uint64_t workspace_bytes;  /**< Bytes of workspace, at least kvc_attention_plan.workspace_bytes. */
} kvc_attention;

/** How kvc_storage_select_blocks picks blocks. */
typedef struct kvc_block_choice {
  size_t struct_size;       /**< sizeof(kvc_block_choice) */
  const uint16_t *bounds;   /**< [num_blocks][num_heads][2][head_dim] of the attention's layer, from kvc_storage_key_bounds; those of blocks that are kept
                                 in any case are not read. */
  uint64_t top_k;           /**< Blocks that a KV head of a request reads, at least 1; those kept in any case count, and may be more. */
  uint64_t sink_blocks;     /**< Always kept: the first so many blocks, ... */
  uint64_t recent_blocks;   /**< ... the block of the request's first query (not causal: the last block) with all that follow, and so many blocks in all
                                 up to that one; 0 = 1. */
  uint8_t *block_mask;      /**< Out: as kvc_attention.block_mask. Of each row the bytes with a bit of a block of kv_lens[r] are written. */
  size_t block_mask_stride; /**< Bytes from one head's bits to the next; with KVC_ATTENTION_ON_DEVICE with a bit for each block of max_kv_len. */
} kvc_block_choice;

/** How kvc_storage_attend would compute something. */
typedef struct kvc_attention_plan {
  size_t struct_size;     /**< sizeof(kvc_attention_plan) */
  char kernels[16];       /**< On a GPU "mma" (tensor cores) or "plain". On the CPU the instruction set: "amx", "avx512-bf16", "avx512", "avx2", "scalar". Environment variable KVC_KERNELS, read once: not above it. */
  char keys[16];          /**< How keys come to the kernels: "tiles", "rows", or "converted" to float32 first (keys per channel, or odd dimensions). */
  char values[16];        /**< Likewise: "rows", "converted", or "keys" (latent rows that are read once for both). */
  uint32_t num_workers;   /**< Threads or multiprocessors that take part. */
  uint32_t sparse;        /**< 1 = with a block mask that hides something. */
  uint64_t num_pieces;    /**< Units of work: a request, some KV heads, some queries; 0 = decided on the device, like num_splits. */
  uint64_t num_splits;    /**< Parts of the context that they are cut into for all threads to have work, at least num_pieces. */
  uint64_t scratch_bytes; /**< Memory that the call takes, and the storage keeps for the next one; with kvc_attention.schedule less. */
  uint64_t shared_tokens; /**< kvc_attention.shared_tokens, if they are read once for all requests; else 0: on the CPU, for fewer than two requests, with
                               KVC_ATTENTION_INVARIANT, and with what keeps queries from seeing all of them (not causal, window, ALiBi, block mask,
                               a mask without mask_starts). */
  uint64_t schedule_bytes; /**< Least kvc_attention.schedule_bytes; of smaller limits never more, so that the largest step's will do for all. On the CPU 0. */
  uint64_t workspace_bytes; /**< Least kvc_attention.workspace_bytes; of smaller limits never more. On the CPU 0. */
  uint64_t selection_bytes; /**< The same for kvc_storage_select_blocks with this kvc_attention. */
} kvc_attention_plan;

/** Bytes of the host for a fixed address of a device. Frozen. */
typedef struct kvc_upload {
  const void *from; /**< Copied at the call. */
  void *to;         /**< In memory that the device writes; any alignment. */
  size_t bytes;     /**< Bytes. */
} kvc_upload;

/** Index arrays of a batch at fixed addresses of a device, and what a step changes of them. Pointers are the device's memory unless the host is named;
 *  what is NULL or 0 is left out. All that is read of the host is copied at the call. */
typedef struct kvc_table_update {
  size_t struct_size;           /**< sizeof(kvc_table_update) */
  const kvc_upload *uploads;    /**< Host [num_uploads]: slots, lengths, offsets, ...; done first. */
  size_t num_uploads;           /**< At most 8. */
  const kvc_table_change *changes; /**< Host [num_changes] kvc_step.changes, no entry twice. */
  size_t num_changes;           /**< Entries. */
  int32_t *tables;              /**< [groups][rows][row_stride] block tables. */
  uint64_t group_stride;        /**< Entries from one group's tables to the next. */
  uint64_t row_stride;          /**< Entries from one row to the next. */
  const int32_t *positions_of;  /**< [num_slots] row of `tables` that a token's request stands in; NULL = 0. */
  const int64_t *positions;     /**< [num_slots] position of a token; below 0 = none. */
  int64_t *slots;               /**< Out: [num_slots] the tokens' slots by the tables, -1 where there is none. */
  uint64_t num_slots;           /**< Tokens. */
  const int32_t *lengths;       /**< [num_rows] tokens of each row. */
  int32_t *csr_offsets;         /**< Out: [num_rows + 1] where each row's blocks begin in csr_blocks. */
  int32_t *csr_blocks;          /**< Out: [sum of blocks] the first group's blocks of all rows, one after the other. */
  int32_t *csr_last_tokens;     /**< Out: [num_rows] tokens in each row's last block, 1 .. block_size, 0 for an empty row; NULL = not wanted. */
  uint32_t num_rows;            /**< Rows. */
  uint32_t block_size;          /**< Tokens per block. */
} kvc_table_update;

/** Attention by a kernel of somebody else: enqueues on the runtime's stream what kvc_storage_attend was called for. @param[in] attention Checked and complete:
 *  strides are not 0. A kernel that does not know a field that is set, such as sink_logits, returns UNSUPPORTED.
 *  @param[in] k, v As kvc_storage_view of attention->layer gives them; v of latent rows is the first v_head_dim elements of k. @param[in] stream A cudaStream_t or
 *  hipStream_t, of the storage's device; on the CPU and without a stream NULL, and the work is done on return.
 *  @return KVC_OK, an error, or UNSUPPORTED: then the library's own kernels do it. Must not throw. */
typedef kvc_status (*kvc_attention_kernel)(void *user_data, const kvc_attention *attention, const kvc_view *k, const kvc_view *v, void *stream);

/** Bytes of a slab: [offset, offset + bytes). Frozen. */
typedef struct kvc_run {
  uint64_t offset, bytes; /**< In bytes. */
} kvc_run;

/** A part of a block. Frozen. */
typedef struct kvc_selection {
  uint32_t first_layer, num_layers, first_head, num_heads, first_token, num_tokens; /**< [first, first + num) of each. */
} kvc_selection;

/** Counters since creation (monotonic) and gauges (now). */
typedef struct kvc_stats {
  size_t struct_size; /**< sizeof(kvc_stats) */
  uint64_t epoch;     /**< Resets so far. */
  uint64_t blocks_total, blocks_free, blocks_cached, blocks_live, blocks_reserved, blocks_filling, blocks_fenced, blocks_pinned; /**< Gauges, all pools; the
                                                                                                                                      states sum to blocks_total. */
  uint64_t live_requests;      /**< Gauge: admitted requests. */
  uint64_t waiting_requests;   /**< Gauge: created or preempted ones. */
  uint64_t admissions;         /**< First admissions. The next four are counted on these alone. */
  uint64_t prompt_tokens;      /**< Known tokens at first admission. */
  uint64_t cached_tokens;      /**< Of those, tokens of the hit. */
  uint64_t block_queries;      /**< floor((tokens - 1) / block_size) summed. */
  uint64_t block_hits;         /**< Of those, blocks hit. */
  uint64_t lost_reuse_tokens;  /**< Summed over first admissions. */
  uint64_t readmissions;       /**< Admissions after preemption, or flagged KVC_REQUEST_RESUMED. */
  uint64_t refusals;           /**< Admissions and extensions answered NO_SPACE or AGAIN. */
  uint64_t preemptions;        /**< kvc_manager_preempt_request and step preempts. */
  uint64_t evictions;          /**< Cached blocks whose content was dropped to make room, or by kvc_manager_evict_blocks. */
  uint64_t copies;             /**< Copy-on-write pairs. */
  uint64_t duplicates;         /**< Blocks committed whose content was already published by another block. */
  uint64_t published_blocks;   /**< Blocks attached to a prefix position. */
  uint64_t unpublished_blocks; /**< Blocks not published because all nodes were in use. */
  uint64_t rejected_candidates;/**< Table entries with an equal hash that the comparison rejected. */
  uint64_t nodes_used;         /**< Gauge: prefix positions in use. */
  uint64_t metadata_bytes;     /**< Gauge: memory that the manager took from its allocator. */
} kvc_stats;

/** Sizes of a step's arrays for kvc_step_create. A 0 gives an array of none. */
typedef struct kvc_step_limits {
  size_t struct_size;         /**< sizeof(kvc_step_limits) */
  uint64_t max_frees;         /**< Each of frees, preempts, truncates. */
  uint64_t max_requests;      /**< Running requests. */
  uint64_t max_admissions;    /**< New and re-admitted requests. */
  uint64_t max_tokens;        /**< Extended tokens per step (and, apart, tokens brought by commits). */
  uint64_t max_prompt_tokens; /**< Tokens of all new requests of a step. */
  uint64_t max_rows;          /**< Rows of the block tables. */
  uint64_t row_stride;        /**< Entries per row: blocks of the longest request. */
  uint64_t max_changes;       /**< Entries of changes; 0 = all that a step can change: num_groups * (max_requests + max_admissions) * row_stride. */
} kvc_step_limits;

/** Input and output of kvc_manager_step. A C program may fill one itself, with its own arrays, or use one from kvc_step_create, whose arrays
 *  are reached by kvc_step_view. A made step refuses entries that were not set. All offsets arrays start at 0 and never decrease.
 *
 *  Phases, in this order, each in array order: retire, commit (of `requests`), frees, preempts, truncates, extend (of `requests`), admit. */
typedef struct kvc_step {
  size_t struct_size;     /**< sizeof(kvc_step) */
  uint32_t flags;         /**< KVC_STEP_* */
  int32_t fill_id;        /**< Written where a table has no block: -1, or an id that is safe to read. */
  uint64_t retired_step;  /**< Newest step_id whose kernels have finished; 0 = none or nothing new. */
  uint64_t step_id;       /**< Out: number of this step: 1, 2, ... */
  size_t num_frees;       /**< Requests to free. */
  size_t num_preempts;    /**< Requests to send back to waiting. */
  size_t num_truncates;   /**< Requests to cut. */
  size_t num_requests;    /**< Running requests to commit and extend. */
  size_t num_admissions;  /**< Requests to admit. */
  size_t num_rows;        /**< Rows of block_tables. */
  size_t row_stride;      /**< Entries from one row to the next. */
  size_t slot_capacity;   /**< Entries of slots per group; at least extend_offsets[num_requests] if slots is given. */
  size_t copy_capacity;   /**< Entries of copies. Enough: num_groups * num_requests. */
  size_t change_capacity; /**< Entries of changes. */
  const uint64_t *frees;            /**< [num_frees] */
  const uint64_t *preempts;         /**< [num_preempts] */
  const uint64_t *truncates;        /**< [num_truncates] */
  const uint64_t *truncate_lengths; /**< [num_truncates] absolute number of tokens to keep. */
  const uint64_t *requests;         /**< [num_requests] Each request at most once: a later item with the same request gets INVALID_ARGUMENT. */
  const uint64_t *committed;        /**< [num_requests] absolute committed count, or NULL = no commits. */
  const uint64_t *commit_offsets;   /**< [num_requests + 1] into commit_tokens, or NULL = commits bring no ids. */
  const int32_t *commit_tokens;     /**< Ids that became known since (asynchronous scheduling), appended before the commit. */
  const uint64_t *extend_offsets;   /**< [num_requests + 1] tokens to extend by, or NULL = no extensions. */
  const int32_t *extend_tokens;     /**< Their ids; NULL = slots only: capacity grows by the count, the ids come later. With ids the known tokens
                                         grow, and capacity up to known + lookahead. All of a step or none: next chunks of prompts, whose ids are
                                         known, beside decode steps go without ids, those of the decode steps into commit_tokens. */
  const uint64_t *admit_requests;   /**< [num_admissions] waiting request to admit, or 0 = create one from admit_tokens; NULL = all 0. */
  const uint64_t *admit_offsets;    /**< [num_admissions + 1] into admit_tokens; NULL if all are waiting ones. */
  const int32_t *admit_tokens;      /**< Prompts of the new requests, concatenated. */
  const kvc_request_config *admit_configs; /**< [num_admissions], or NULL = defaults; ignored for waiting ones. */
  const uint64_t *admit_key_offsets;       /**< [num_admissions + 1] into admit_keys, or NULL = none. */
  const kvc_extra_key *admit_keys;         /**< Extra keys of the new requests, concatenated. */
  const int32_t *rows;      /**< [num_requests + num_admissions] Row of each item in block_tables; -1 = the item writes no row; NULL = item i
                                 writes row i. Two items may not write the same row. An item whose request this step frees or preempts
                                 writes no row, so an admission may use its row. */
  kvc_status *status;       /**< Out [num_frees + num_preempts + num_truncates + num_requests + num_admissions], in that order. A request's commit
                                 and extension are two: if the commit fails nothing is done; if the extension fails the commit stands. */
  uint64_t *admitted;       /**< Out [num_admissions] request id, 0 if refused (a new request that is refused does not exist). */
  uint64_t *cached;         /**< Out [num_admissions] tokens of the hit. */
  uint64_t *num_blocks;     /**< Out [num_groups][num_requests + num_admissions] valid entries of the row; may be NULL. */
  int32_t *block_tables;    /**< In, out [num_groups][num_rows][row_stride], kept by the caller between steps: only entries changed since the row's
                                 last step are written. A row that is new to a request is written whole, fill_id to its end. Tables in other memory
                                 than the last step's, such as two sets in turn, need KVC_STEP_WHOLE_ROWS. May be NULL. */
  int64_t *slots;           /**< Out [num_groups][slot_capacity]: slot of extended token t at extend_offsets[i] + t; -1 for failed items. May be NULL. */
  kvc_block_copy *copies;   /**< Out: copies to execute before the step's kernels. Required if an extension may need one. */
  kvc_table_change *changes;/**< Out: entries below num_blocks written to block_tables in this step; may be NULL. */
  size_t num_slots;         /**< Out: extend_offsets[num_requests]. */
  size_t num_copies;        /**< Out. */
  size_t num_changes;       /**< Out. */
  size_t num_refused;       /**< Out: admissions answered NO_SPACE, AGAIN or SKIPPED. */
  uint64_t shortage_blocks; /**< Out: blocks that were missing for the first refused admission. */
  void *internal;           /**< Set by kvc_step_create; NULL in a step of your own. */
} kvc_step;

/* ---------------------------------------------------------------- library */

/** Version of the library: major * 10000 + minor * 100 + patch. Since 0.1. */
KVC_API uint32_t kvc_version(void);

/** One line: version, compiler, instruction sets used. Static text. Since 0.1. */
KVC_API const char *kvc_build_info(void);

/** Name of a status, such as "KVC_ERROR_NO_SPACE"; "unknown status" for others. Static text. Since 0.1. */
KVC_API const char *kvc_status_name(kvc_status status);

/** Text of the last failed call of this thread: what was wrong, the value, the limit, the fix. Empty before the first failure; not
 *  cleared by success. Valid until the thread's next failing call. Since 0.1. */
KVC_API const char *kvc_last_error(void);

/** Asks whether this build can do something. @param[in] feature KVC_FEATURE_*.
 *  @return KVC_OK or KVC_ERROR_UNSUPPORTED (unknown features too). Since 0.1. */
KVC_API kvc_status kvc_supports(uint32_t feature);

/* ---------------------------------------------------------------- manager */

/** Makes a manager. All memory for blocks and nodes is taken and touched here.
 *  @param[in]  config  Shape and limits; nothing of it is kept but the callbacks.
 *  @param[out] manager The manager; destroy it with kvc_manager_destroy.
 *  @return KVC_OK; INVALID_ARGUMENT (a field out of range), UNSUPPORTED (an option of a later version), LIMIT (the process
 *  has 4,095 managers already), OUT_OF_MEMORY. Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_create(const kvc_manager_config *config, kvc_manager **manager);

/** Frees a manager with all its requests. NULL is ignored. No other call on it may be running. Since 0.1. */
KVC_API void kvc_manager_destroy(kvc_manager *m);

/** What the manager was made with. @param[out] properties struct_size set by the caller. @return KVC_OK, INVALID_ARGUMENT. Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_properties(kvc_manager *m, kvc_properties *properties);

/** Opens the namespace with this identity; opening the same identity again gives the same id and must be closed as often. An identity
 *  with all parts absent is the default namespace, id 0, which needs no closing.
 *  @param[in]  config       Identity; bytes are copied.
 *  @param[out] namespace_id Id for requests, probes and pins.
 *  @return KVC_OK, INVALID_ARGUMENT, LIMIT (65,535 namespaces beside the default one), OUT_OF_MEMORY. Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_open_namespace(kvc_manager *m, const kvc_namespace_config *config, uint64_t *namespace_id);

/** Undoes one open. The last close drops what the namespace has cached and makes its id stale.
 *  @return KVC_OK; NOT_FOUND; BUSY if it is the last close and requests or pins of the namespace exist; INVALID_ARGUMENT for id 0. Since 0.1. */
KVC_API kvc_status kvc_manager_close_namespace(kvc_manager *m, uint64_t namespace_id);

/** Forgets everything cached in a namespace, in constant time (weights changed). Requests in flight keep their blocks and finish, but
 *  publish nothing more; nothing old is ever hit. @param[in] namespace_id A namespace, or 0 = all.
 *  @return KVC_OK, NOT_FOUND, LIMIT (after 2^47 resets). Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_reset(kvc_manager *m, uint64_t namespace_id);

/** Checks every invariant of the manager's state; O(blocks + nodes), for tests. @return KVC_OK; CORRUPT with the first broken one in
 *  kvc_last_error(); OUT_OF_MEMORY. Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_check(kvc_manager *m);

/** A hash of the state: blocks, list order, cached prefixes by content, requests, namespaces, epochs. Equal call sequences give equal
 *  digests in any build, process and seed. Not part of it: statistics, events, error texts,
 *  step numbers (but whether steps are in flight is). O(blocks + nodes), for tests.
 *  @return KVC_OK. Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_digest(kvc_manager *m, uint64_t *digest);

/** Counters and gauges as of the last finished call; a consistent snapshot that never waits for the manager's lock.
 *  @param[in,out] stats struct_size set by the caller. @return KVC_OK, INVALID_ARGUMENT. Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_stats(kvc_manager *m, kvc_stats *stats);

/** Counts of one pool. @return KVC_OK, INVALID_ARGUMENT (no such pool). Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_pool_info(kvc_manager *m, uint32_t pool, kvc_pool_info *info);

/** State of one block. @return KVC_OK, INVALID_ARGUMENT (no such block, the null block). Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_block_info(kvc_manager *m, int32_t block, kvc_block_info *info);

/* ---------------------------------------------------------------- requests */

/** Creates a waiting request: its tokens are copied and hashed, no block is taken.
 *  @param[in]  tokens   [num_tokens] prompt, possibly empty.
 *  @param[in]  keys     [num_keys] extra keys in order of first_token, not overlapping, inside the tokens; NULL = none.
 *  @param[in]  config   Options; NULL = defaults.
 *  @param[out] request  Its id.
 *  @return KVC_OK; INVALID_ARGUMENT (a token out of range, keys out of order), NOT_FOUND (namespace), LIMIT (max_requests,
 *  max_request_tokens), UNSUPPORTED, OUT_OF_MEMORY. Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_create_request(kvc_manager *m, const int32_t *tokens, size_t num_tokens, const kvc_extra_key *keys, size_t num_keys,
                                              const kvc_request_config *config, uint64_t *request);

/** Admits a waiting request: finds its longest cached prefix in every group and takes blocks for the rest, all or nothing.
 *  @param[out] num_cached Tokens of the hit: a multiple of block_size, at most num_tokens - 1. They count as committed. May be NULL.
 *  @return KVC_OK; NO_SPACE (the text says needed and available), AGAIN, NOT_FOUND, BUSY (already admitted), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_admit_request(kvc_manager *m, uint64_t request, uint64_t *num_cached);

/** kvc_manager_create_request and kvc_manager_admit_request in one: if either fails there is no request. Since 0.1. */
KVC_API kvc_status kvc_manager_allocate_request(kvc_manager *m, const int32_t *tokens, size_t num_tokens, const kvc_extra_key *keys, size_t num_keys,
                                                const kvc_request_config *config, uint64_t *request, uint64_t *num_cached);

/** Gives slots to the request up to `capacity` tokens in all, without token ids (next chunk of a prefill, asynchronous scheduling).
 *  A capacity at or below the present one changes nothing. May make copies: kvc_manager_take_copies.
 *  @return KVC_OK; NO_SPACE, AGAIN, NOT_FOUND, BUSY (waiting), LIMIT (max_request_tokens), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_reserve_tokens(kvc_manager *m, uint64_t request, uint64_t capacity);

/** Appends known tokens; an admitted request gets slots for all known tokens and its lookahead. May make copies: kvc_manager_take_copies.
 *  @return as kvc_manager_reserve_tokens, and INVALID_ARGUMENT for a token out of range. Since 0.1. */
KVC_API kvc_status kvc_manager_append_tokens(kvc_manager *m, uint64_t request, const int32_t *tokens, size_t num_tokens);

/** The KV of the first num_committed tokens (absolute) is written. Full blocks become findable; blocks that slid out of a window are
 *  returned. @return KVC_OK; INVALID_ARGUMENT (less than committed before, or more than min(known, capacity)), NOT_FOUND, BUSY (waiting),
 *  OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_commit_tokens(kvc_manager *m, uint64_t request, uint64_t num_committed);

/** Keeps the first num_tokens tokens (absolute) and gives the rest back. What this request published past them is unpublished, unless others can
 *  reach it. A position stays published, in all groups, if another request, a pin or a raw holder holds one of its blocks, if one of its blocks
 *  has a copy, or if a longer prefix is known. The same rule decides about the published block that is cut. If that block stays published, it is
 *  copied before the next write.
 *  @return KVC_OK; INVALID_ARGUMENT (more than known), NOT_FOUND; UNSUPPORTED if a window needed at that length is gone: the text names the next
 *  lower and the next higher possible length. 0 is always possible. OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_truncate_request(kvc_manager *m, uint64_t request, uint64_t num_tokens);

/** Makes a request with the committed tokens of another, sharing all their blocks (beam search, parallel sampling). Whoever first writes
 *  into a shared partial block gets a private copy. @param[out] child Its id: num_tokens = committed = capacity = the parent's committed.
 *  @return KVC_OK; NOT_FOUND, BUSY (waiting), LIMIT, OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_fork_request(kvc_manager *m, uint64_t request, uint64_t *child);

/** Takes all blocks from an admitted request and makes it wait; tokens are kept, and what it published can be hit when it is admitted again.
 *  @return KVC_OK; NOT_FOUND, BUSY (already waiting), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_preempt_request(kvc_manager *m, uint64_t request);

/** Ends a request, waiting or admitted. Its published blocks stay cached, deepest evicted first; blocks that a step in flight may still
 *  write become available when that step is retired. Never fails for lack of memory. @return KVC_OK; NOT_FOUND. Since 0.1. */
KVC_API kvc_status kvc_manager_free_request(kvc_manager *m, uint64_t request);

/** State of a request. @param[in,out] info struct_size set by the caller. @return KVC_OK, NOT_FOUND, INVALID_ARGUMENT. Since 0.1. */
KVC_API kvc_status kvc_manager_request_info(kvc_manager *m, uint64_t request, kvc_request_info *info);

/** Lists all requests, in order of their slot in the manager. @param[out] requests [capacity] @param[out] count Number of requests.
 *  @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed; capacity 0 asks). Since 0.1. */
KVC_API kvc_status kvc_manager_list_requests(kvc_manager *m, uint64_t *requests, size_t capacity, size_t *count);

/* ---------------------------------------------------------------- tables */

/** Writes whole block tables of one group.
 *  @param[in]  requests   [num_requests] admitted requests.
 *  @param[in]  fill_id    Written where there is no block: entries returned by a window, and from the table's end to the row's end.
 *  @param[out] tables     [num_requests][row_stride]
 *  @return KVC_OK; NOT_FOUND; INVALID_ARGUMENT; BUFFER_TOO_SMALL if a table is longer than row_stride. Nothing is written on failure. Since 0.1. */
KVC_API kvc_status kvc_manager_export_tables(kvc_manager *m, const uint64_t *requests, size_t num_requests, uint32_t group, int32_t fill_id,
                                             int32_t *tables, size_t row_stride);

/** Writes the slots of tokens [first_token, first_token + num_tokens) of a request in one group; -1 where the window has passed.
 *  @param[out] slots        [num_tokens] integers of element_size bytes.
 *  @param[in]  element_size 4 (int32; INVALID_ARGUMENT if a slot does not fit) or 8 (int64).
 *  @return KVC_OK; NOT_FOUND; INVALID_ARGUMENT (tokens past the capacity). Since 0.1. */
KVC_API kvc_status kvc_manager_export_slots(kvc_manager *m, uint64_t request, uint32_t group, uint64_t first_token, uint64_t num_tokens, void *slots,
                                            size_t element_size);

/** Takes the copies that single calls have asked for since the last take, in order. The engine must execute (or enqueue, in stream
 *  order) them before it writes to any block. Sources are held until taken. @param[out] copies [capacity] @param[out] count
 *  @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed, none taken). Since 0.1. */
KVC_API kvc_status kvc_manager_take_copies(kvc_manager *m, kvc_block_copy *copies, size_t capacity, size_t *count);

/* ---------------------------------------------------------------- prefixes */

/** Would these tokens fit, and how much of them is cached? Changes nothing, the LRU order included, and holds the lock for short slices only;
 *  the answer is a snapshot. @return KVC_OK; INVALID_ARGUMENT, NOT_FOUND (namespace), LIMIT, OUT_OF_MEMORY. Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_probe(kvc_manager *m, uint64_t namespace_id, const int32_t *tokens, size_t num_tokens, const kvc_extra_key *keys,
                                     size_t num_keys, kvc_probe_info *info);

/** Keeps the cached part of a prefix from eviction (all n tokens may match, not only n - 1).
 *  @param[out] pin        Id for kvc_manager_unpin_prefix. @param[out] num_pinned Tokens pinned.
 *  @return KVC_OK; NOT_FOUND if not even one block is cached (no pin is made), or no such namespace; LIMIT; OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_pin_prefix(kvc_manager *m, uint64_t namespace_id, const int32_t *tokens, size_t num_tokens, const kvc_extra_key *keys,
                                          size_t num_keys, uint64_t *pin, uint64_t *num_pinned);

/** Ends a pin; the blocks become the most recently used. @return KVC_OK, NOT_FOUND. Since 0.1. */
KVC_API kvc_status kvc_manager_unpin_prefix(kvc_manager *m, uint64_t pin);

/** Drops every cached block on the path of these tokens that nobody holds, in all groups. Positions below the path stay, unreachable until
 *  the path is computed again. @param[out] num_dropped Blocks dropped. @return KVC_OK; INVALID_ARGUMENT, NOT_FOUND (namespace). Since 0.1. */
KVC_API kvc_status kvc_manager_drop_prefix(kvc_manager *m, uint64_t namespace_id, const int32_t *tokens, size_t num_tokens, const kvc_extra_key *keys,
                                           size_t num_keys, uint64_t *num_dropped);

/** Evicts up to max_blocks cached blocks in policy order, pool by pool. @param[out] num_evicted May be fewer; 0 is no error. Since 0.1. */
KVC_API kvc_status kvc_manager_evict_blocks(kvc_manager *m, size_t max_blocks, size_t *num_evicted);

/* ---------------------------------------------------------------- raw blocks, for engines that keep their own tables */

/** Takes blocks of a group's pool, all or nothing. Each gets one raw hold. @param[out] blocks [num_blocks]
 *  @return KVC_OK; NO_SPACE, AGAIN, INVALID_ARGUMENT. Since 0.1. */
KVC_API kvc_status kvc_manager_acquire_blocks(kvc_manager *m, uint32_t group, int32_t *blocks, size_t num_blocks);

/** Takes a raw hold on the cached blocks of a prefix in one group (all n tokens may match).
 *  @param[out] blocks [capacity], position by position; -1 where a sliding window does not need the block. @param[out] count Positions matched.
 *  @return KVC_OK (count may be 0); BUFFER_TOO_SMALL (count is what is needed, nothing held); INVALID_ARGUMENT, NOT_FOUND. Since 0.1. */
KVC_API kvc_status kvc_manager_acquire_prefix(kvc_manager *m, uint64_t namespace_id, uint32_t group, const int32_t *tokens, size_t num_tokens,
                                              const kvc_extra_key *keys, size_t num_keys, int32_t *blocks, size_t capacity, size_t *count);

/** Publishes raw-held blocks as the KV of tokens [0, num_blocks * block_size), which must be written. Publishing a block again under the same
 *  identity changes nothing. Positions whose entry is -1 are passed over.
 *  @return KVC_OK; INVALID_ARGUMENT (too few tokens, a block of another pool), NOT_HELD (a block without raw hold), BUSY (published under
 *  another identity, or also held by requests), LIMIT (all nodes in use), NOT_FOUND, OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_publish_blocks(kvc_manager *m, uint64_t namespace_id, uint32_t group, const int32_t *tokens, size_t num_tokens,
                                              const kvc_extra_key *keys, size_t num_keys, const int32_t *blocks, size_t num_blocks);

/** Gives back one raw hold per entry, last entry first, so that the front of a prefix is evicted last; -1 entries are passed over. All or nothing.
 *  @return KVC_OK; NOT_HELD (more releases than holds), INVALID_ARGUMENT (no such block). Since 0.1. */
KVC_API kvc_status kvc_manager_release_blocks(kvc_manager *m, const int32_t *blocks, size_t num_blocks);

/** Makes blocks unfindable, whoever holds them: their bytes turned out to be wrong, such as after a load that failed. CACHED ones become FREE; held ones stay
 *  with their holders, FENCED ones with their fence, and become FREE afterwards. Other copies of the same position, and positions behind it, stay published;
 *  a request goes on publishing behind what it has lost. Entries that are not published, or -1, are passed over.
 *  @param[in]  blocks [num_blocks] @param[out] num_unpublished How many were published. @return KVC_OK; INVALID_ARGUMENT (no such block; nothing is
 *  changed). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_manager_unpublish_blocks(kvc_manager *m, const int32_t *blocks, size_t num_blocks, uint64_t *num_unpublished);

/* ---------------------------------------------------------------- events */

/** Reads events without removing them; any number of readers, each with a cursor of its own.
 *  @param[in,out] cursor         Sequence to read from (start with 0); afterwards the one to go on with. A first event with a greater sequence
 *                                than asked means that the ring has lost some: read the state anew.
 *  @param[out]    events         [capacity] elements of event_size bytes. @param[in] event_size sizeof(kvc_event).
 *  @param[out]    count          Events written.
 *  @param[out]    tokens         [token_capacity] tokens of the events in order, num_tokens each, or NULL = not wanted. Reading stops at the event
 *                                whose tokens do not fit.
 *  @return KVC_OK; INVALID_ARGUMENT (event_size, cursor in the future); UNSUPPORTED if event_capacity is 0. Thread-safe. Since 0.1. */
KVC_API kvc_status kvc_manager_poll_events(kvc_manager *m, uint64_t *cursor, kvc_event *events, size_t event_size, size_t capacity, size_t *count,
                                           int32_t *tokens, size_t token_capacity);

/* ---------------------------------------------------------------- the step */

/** Makes a step with all its arrays in one allocation, so that nothing is allocated while serving. Pointers and capacities are set, counts are 0.
 *  Fill the arrays through kvc_step_view, set counts, flags and fill_id in the struct. Set the pointer of an optional array to NULL to switch the
 *  array off, and back to the data of its view to switch it on. Any thread may use a step, one at a time. Destroy it before its manager.
 *
 *  Entries that you forget to set are refused; they never count as data. These arrays begin with a value that means "not set":
 *  - commit_tokens: -1. The item gets the status INVALID_ARGUMENT; it is neither committed nor extended.
 *  - extend_tokens: -1. The item gets INVALID_ARGUMENT and is not extended; its commit stands.
 *  - admit_tokens: -1. The item gets INVALID_ARGUMENT; no request is created.
 *  - truncate_lengths: 2^64 - 1. The item gets INVALID_ARGUMENT.
 *  - admit_offsets from [1] on: 2^64 - 1. The call fails with INVALID_ARGUMENT.
 *  - rows: INT32_MIN. The call fails with INVALID_ARGUMENT.
 *  kvc_manager_step consumes the entries that it reads from these arrays, except rows. When it returns KVC_OK, all entries within the counts of this
 *  step are unset again, those of refused items too. To try a refused item again, set its entries again. A call that fails consumes nothing. Entries
 *  beyond the counts and arrays of your own are never changed.
 *  All other inputs begin with 0 and keep their values from step to step. 0 is no request's id, extends by no tokens, brings no ids and commits no
 *  tokens; a request that has committed tokens refuses it as `committed`. In admit_requests 0 creates a request from admit_tokens. block_tables begin
 *  with -1.
 *  @return KVC_OK; INVALID_ARGUMENT (sizes that overflow), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_step_create(kvc_manager *m, const kvc_step_limits *limits, kvc_step **step);

/** Frees a step made by kvc_step_create. NULL is ignored. Since 0.1. */
KVC_API void kvc_step_destroy(kvc_step *step);

/** Describes one array of a step made by kvc_step_create. @param[in] array KVC_STEP_*. @param[out] view Data, type, shape, strides.
 *  @return KVC_OK; INVALID_ARGUMENT (no such array, or not made by kvc_step_create). Since 0.1. */
KVC_API kvc_status kvc_step_view(const kvc_step *step, int32_t array, kvc_view *view);

/** One engine step in one call: see kvc_step. Fails as a whole only in validation, before any change; else every item has its status.
 *  Each item is all or nothing. What items release is available to later phases of the same step, unless steps are in flight: a release is
 *  FENCED until the newest step issued before it is retired. Sources of copies are held until this step is retired. No block is source and
 *  destination, or source and newly taken, in one step. A synchronous engine passes the previous step_id in retired_step, so nothing is ever
 *  fenced.
 *  It consumes the ids, lengths and admit_offsets of a made step: see kvc_step_create. If items fail, kvc_last_error() has the text of the one that
 *  failed last.
 *  @return KVC_OK (look at status[]); INVALID_ARGUMENT (pointers, offsets, rows, a row that two items write, counts past the arrays of a made step,
 *  a step made for another manager, retired_step in the future); OUT_OF_MEMORY (to compare rows above max_requests); BUFFER_TOO_SMALL
 *  (slot_capacity, copy_capacity or change_capacity; num_slots, num_copies or num_changes is what is needed). Since 0.1. */
KVC_API kvc_status kvc_manager_step(kvc_manager *m, kvc_step *step);

/** The kernels of all steps up to step_id have finished: their fences fall. Not to be said of a step that another thread has not returned from, which is not checked.
 *  @return KVC_OK; INVALID_ARGUMENT (a step not issued). Since 0.1. */
KVC_API kvc_status kvc_manager_retire_step(kvc_manager *m, uint64_t step_id);

/** Takes the list of blocks to be cleared (KVC_MANAGER_ZERO_FOREIGN, KVC_MANAGER_ZERO_ALWAYS) of the steps and calls since the last take, each once. The engine must
 *  clear them (kvc_storage_zero_blocks), or enqueue that, after the copies of these steps and calls and before it writes to any of their blocks. What a copy
 *  overwrites is not among them.
 *  @param[out] blocks [capacity] @param[out] count Blocks; without these flags 0.
 *  @return KVC_OK; BUFFER_TOO_SMALL (count is what is needed, none taken; capacity 0 asks). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_manager_take_zero_blocks(kvc_manager *m, int32_t *blocks, size_t capacity, size_t *count);

/** Moves contents from the highest blocks of a pool to its lowest free ones, so that what is in use lies together: before memory is given back, or saved. Cached
 *  blocks move, and blocks that requests alone hold; those with a pin or a raw hold stay. The engine must carry out the moves (kvc_storage_copy_blocks), and take
 *  over the new tables, before it reads or writes any block: kvc_manager_export_tables shows them at once, and rows of step tables are brought up to date, with
 *  the changes listed, by the next step that the request stands in. Afterwards the lowest free block is taken first. Holds the lock for long: O(blocks + entries of
 *  tables).
 *  @param[in]  pool  Index of the pool.
 *  @param[out] moves [capacity] No block stands twice. @param[out] count Moves made; if that is capacity, another call may find more.
 *  @return KVC_OK; INVALID_ARGUMENT (no such pool); BUSY while a step is in flight or another thread is in kvc_manager_step, or copies or blocks
 *  to be cleared wait to be taken. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_manager_compact(kvc_manager *m, uint32_t pool, kvc_block_copy *moves, size_t capacity, size_t *count);

/* ---------------------------------------------------------------- devices and streams */

/** Kinds of memory: of kvc_storage_config.memory_kind, and, as bits 1 << kind, of kvc_device_info.memory_kinds. */
enum {
  KVC_MEMORY_DEFAULT = 0,   /**< What suits the device; on the CPU host memory, in huge pages if it is large. */
  KVC_MEMORY_HOST = 1,      /**< Host memory. */
  KVC_MEMORY_HOST_HUGE = 2, /**< Host memory, aligned to 2 MiB, for which huge pages are asked for. */
  KVC_MEMORY_PINNED = 3,    /**< Host memory that a GPU reads and writes itself; in huge pages if it is large. */
  KVC_MEMORY_DEVICE = 4,    /**< Memory of a GPU. */
  KVC_MEMORY_EXTERNAL = 5,  /**< Foreign memory used in place, which stays the caller's. */
  KVC_MEMORY_MANAGED = 6    /**< Of kvc_device_allocate alone: memory whose pages move to whoever touches them, the host or a GPU with KVC_DEVICE_MANAGED, at least
                                 KVC_MANAGED_LEAST_BYTES. For large buffers that both sides touch now and then: a page that moves stops the kernel
                                 that waits for it, so that no storage of a GPU lies in such memory. */
};

/** Smallest piece of KVC_MEMORY_MANAGED: a page of those that move. Smaller buffers are better pinned. */
#define KVC_MANAGED_LEAST_BYTES 2097152

/** What a device is. */
typedef struct kvc_device_info {
  size_t struct_size;      /**< sizeof(kvc_device_info) */
  uint64_t memory_bytes;   /**< All of its memory, whoever uses it; 0 = not known. */
  uint32_t memory_kinds;   /**< Bits 1 << KVC_MEMORY_* that a storage on it may have. */
  uint32_t num_processors; /**< Hardware threads or multiprocessors; 0 = not known. */
  uint64_t free_bytes;       /**< Of its memory, not in use now; 0 = not known. */
  const char *name;          /**< "NVIDIA H200"; "" = not known. Text of the library. */
  const char *architecture;  /**< "sm_90", "gfx90a"; "" = not known. Text of the library. */
  int32_t dlpack_device;     /**< DLDeviceType of memory on it: 1 CPU, 2 CUDA, 10 ROCm. */
  uint32_t flags;            /**< KVC_DEVICE_* */
  uint64_t swap_out_kernel_bytes; /**< kvc_storage_swap_out of many runs (kvc_storage_runs of a block): shorter ones than this go by a kernel, others by the copy
                                       engine. Without KVC_DEVICE_SWAP_MEASURED that is a guess. 0 = the copy engine alone; UINT64_MAX = a kernel
                                       alone. On the CPU 0. */
  uint64_t swap_in_kernel_bytes;  /**< The same of kvc_storage_swap_in. */
} kvc_device_info;

/** kvc_device_info.flags. */
enum {
  KVC_DEVICE_READS_HOST = 1,    /**< Its work reads and writes any host memory, by the host's page tables or as its own. A GPU that would fetch each page by a
                                 fault (HMM) does not have it. Without it keys, values, queries, results, bounds and masks of calls on its storages,
                                 and foreign slabs, must lie in memory of a device, or in pinned or registered host memory. */
  KVC_DEVICE_MANAGED = 2,       /**< kvc_device_allocate has KVC_MEMORY_MANAGED, which the host may touch at any time. */
  KVC_DEVICE_SWAP_MEASURED = 4  /**< swap_out_kernel_bytes and swap_in_kernel_bytes were measured on it. */
};

/** A backend: what brings devices. */
typedef struct kvc_backend_info {
  size_t struct_size;        /**< sizeof(kvc_backend_info) */
  const char *path;          /**< Library that it came from; "" = a part of this library. This and what follows: text of the library. */
  const char *architectures; /**< That its kernels were built for, apart by blanks; "" = whatever it runs on. */
  const char *remark;        /**< Why there are no devices; "" if there are. */
  uint32_t num_devices;      /**< "name:0" is the first. */
  uint32_t reserved;         /**< 0 */
} kvc_backend_info;

/** Memory of a device for another process, as bytes to be sent there. Frozen. */
typedef struct kvc_memory_handle {
  uint64_t bytes;    /**< Size of the memory. */
  char device[16];   /**< Name of its backend. */
  uint8_t data[104]; /**< The runtime's. */
} kvc_memory_handle;

/** A queue of a device: work in it is done in the order in which it was enqueued; work in different streams may be done at the same time, and is ordered by
 *  events. On the CPU a stream has a thread of its own. Opaque; made by kvc_stream_create.
 *
 *  A function of a storage that takes a stream checks its arguments at the call: an error comes back at once and means that nothing was enqueued. Host arrays
 *  that say what to do (slots, rope_rows, block tables, offsets, lengths, copies, block ids, slopes) are copied at the call. Keys, values, rope_table, queries,
 *  results, bounds of keys and masks are not: they must live, unchanged by others, until the work is done. With stream NULL the work is done on return; it is
 *  not ordered with what is enqueued in streams. On the CPU, work that was enqueued cannot fail. */
typedef struct kvc_stream kvc_stream;

/** A place in a stream that others can wait for. Opaque; made by kvc_stream_event_create. */
typedef struct kvc_stream_event kvc_stream_event;

/** Opens a backend, a library libkvcache_<name>.so, and with it its devices. Naming a device does so by itself, as with path NULL.
 *  @param[in] name "cuda", "hip". @param[in] path The file, or the folder that it is in, and no other place; NULL = the folders of the environment
 *  variable KVC_BACKEND_PATH (apart by colons; not in programs with raised rights), then the folder of this library and kvcache/ in it. A backend that is open stays open.
 *  @return KVC_OK; INVALID_ARGUMENT (name); BUSY (open from another path); NOT_FOUND (no such file: the text names all that were looked for); UNSUPPORTED (the
 *  file cannot be loaded, or is of another version); OUT_OF_MEMORY. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_backend_open(const char *name, const char *path);

/** What a backend is; opens it as kvc_backend_open(name, NULL) does. @param[in] name NULL or "cpu", "cuda", "hip". @param[out] info struct_size set by the caller.
 *  @return As kvc_backend_open. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_backend_properties(const char *name, kvc_backend_info *info);

/** What a device is; the library is asked the same way whether it has it at all. @param[in] device NULL or "cpu"; "cuda" or "cuda:0", "cuda:1", ...; "hip:0", ...
 *  The same wherever a function takes a device. @param[out] info struct_size set by the caller.
 *  @return KVC_OK; NOT_FOUND (the text says what there is), UNSUPPORTED (kvc_backend_open), INVALID_ARGUMENT, DEVICE. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_device_properties(const char *device, kvc_device_info *info);

/** Memory of a device's kind, for rows, queries and results, or to be a storage's foreign memory. @param[in] kind KVC_MEMORY_*. @param[out] memory Aligned to 256.
 *  @return KVC_OK; NOT_FOUND (device), UNSUPPORTED (kind), INVALID_ARGUMENT (0 bytes; managed memory below KVC_MANAGED_LEAST_BYTES), OUT_OF_MEMORY, DEVICE.
 *  Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_device_allocate(const char *device, uint32_t kind, uint64_t bytes, void **memory);

/** Gives memory of kvc_device_allocate or kvc_device_import_memory back to whom it came from. NULL is ignored; no work may use it any more. On a GPU the
 *  call waits until the device has done what is enqueued on it, by whomever; a capture that is under way goes on, unless the device has no memory left.
 *  @return KVC_OK; NOT_FOUND (no such memory: never there, or given back). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_device_release(void *memory);

/** Takes addresses on a device, without memory behind them: foreign memory of a storage that grows. kvc_storage_runs says which bytes a block needs; only blocks
 *  whose bytes are mapped may be used. @param[out] memory To be given back with kvc_device_release, which gives back all that was mapped.
 *  @return KVC_OK; NOT_FOUND (device), INVALID_ARGUMENT (0 bytes), UNSUPPORTED, OUT_OF_MEMORY, DEVICE. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_device_reserve(const char *device, uint64_t bytes, void **memory);

/** Puts memory behind reserved addresses, in chunks of 64 MiB or more; what is mapped already stays. Takes milliseconds: not for the thread that decodes. Fresh
 *  memory holds anything. @return KVC_OK; NOT_FOUND (no such memory), INVALID_ARGUMENT (NULL, past its end), OUT_OF_MEMORY (nothing new is mapped), DEVICE.
 *  Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_device_map(void *memory, uint64_t offset, uint64_t bytes);

/** Lets the device read and write foreign host memory itself, which it pins, large memory piece by piece. On the CPU there is nothing to do.
 *  @return KVC_OK; NOT_FOUND (device), INVALID_ARGUMENT (NULL, or parts of it are registered), OUT_OF_MEMORY (what may be pinned), DEVICE. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_device_register(const char *device, void *memory, uint64_t bytes);

/** Ends kvc_device_register; no work may use the memory any more, and the call does not wait for any. @return KVC_OK; NOT_FOUND (device, or it is not registered), DEVICE. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_device_unregister(const char *device, void *memory);

/** Lets other processes use memory of kvc_device_allocate with kind KVC_MEMORY_DEVICE: give a storage such memory, and its blocks can be shared. It must outlive
 *  their use of it. @return KVC_OK; NOT_FOUND (no such memory), UNSUPPORTED (the device or kind), DEVICE. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_device_export_memory(void *memory, kvc_memory_handle *handle);

/** Memory of another process. @param[in] device Of the same hardware there. @param[out] memory To be given back with kvc_device_release.
 *  @return KVC_OK; NOT_FOUND (device), INVALID_ARGUMENT (a handle of another backend), UNSUPPORTED, DEVICE. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_device_import_memory(const char *device, const kvc_memory_handle *handle, void **memory);

/** kvc_stream_adopt. */
enum {
  KVC_STREAM_LEGACY = 1 /**< The runtime's default stream; `handle` is NULL. */
};

/** Takes a stream that the caller has from the device's runtime, a cudaStream_t or hipStream_t: what is enqueued goes there. Nothing waits for the host, so that it
 *  may be captured in a graph (docs/GPU.md). It stays the caller's and must outlive the kvc_stream. @param[in] handle NULL only with KVC_STREAM_LEGACY.
 *  @return KVC_OK; NOT_FOUND (device), INVALID_ARGUMENT, UNSUPPORTED (the CPU, whose streams are its own), OUT_OF_MEMORY, DEVICE. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_stream_adopt(const char *device, void *handle, uint32_t flags, kvc_stream **stream);

/** The runtime's stream, to enqueue other work there. @param[out] handle A cudaStream_t or hipStream_t.
 *  @return KVC_OK; INVALID_ARGUMENT, UNSUPPORTED (the CPU). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_stream_handle(kvc_stream *stream, void **handle);

/** Makes a stream. @param[in] device NULL or "cpu". @return KVC_OK; NOT_FOUND (device), OUT_OF_MEMORY (memory or threads). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_stream_create(const char *device, kvc_stream **stream);

/** Waits until the stream's work is done, and ends it. Events recorded in it stay valid and count as reached. NULL is ignored. No other call with this stream
 *  may be running. Since 0.2. */
KVC_API void kvc_stream_destroy(kvc_stream *stream);

/** Waits until what has been enqueued in the stream so far is done. @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_stream_synchronize(kvc_stream *stream);

/** What is enqueued in the stream from now on is done after the event's place, as recorded last before this call, is reached. An event that was never recorded
 *  delays nothing. @return KVC_OK; INVALID_ARGUMENT, OUT_OF_MEMORY. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_stream_wait_event(kvc_stream *stream, kvc_stream_event *event);

/** Makes an event. @param[in] device NULL or "cpu". @return KVC_OK; NOT_FOUND (device), OUT_OF_MEMORY. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_stream_event_create(const char *device, kvc_stream_event **event);

/** Frees an event; what waits for its place goes on waiting. NULL is ignored. No other call with this event may be running. Since 0.2. */
KVC_API void kvc_stream_event_destroy(kvc_stream_event *event);

/** Puts the event at the present end of the stream, in place of where it was. @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_stream_event_record(kvc_stream_event *event, kvc_stream *stream);

/** @param[out] done 1 = all work before the event's place is done, or it was never recorded; else 0.
 *  @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_stream_event_query(kvc_stream_event *event, int32_t *done);

/** Waits until the event's place is reached. @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_stream_event_synchronize(kvc_stream_event *event);

/* ---------------------------------------------------------------- storage */

/** Makes memory for keys and values, or takes foreign memory in place. A storage knows no requests: it is addressed by the block ids and slots of
 *  a manager with the same block_size. Its functions may be called from any thread; calls that touch the same bytes are ordered by the caller.
 *  @param[in]  config  What it holds.
 *  @param[out] storage The storage; destroy it with kvc_storage_destroy.
 *  @return KVC_OK; INVALID_ARGUMENT (a field out of range, foreign memory too small or misaligned), NOT_FOUND (device), UNSUPPORTED (a combination
 *  or a kind of memory that this build or device lacks), OUT_OF_MEMORY (memory or threads). Since 0.2. */
KVC_API kvc_status kvc_storage_create(const kvc_storage_config *config, kvc_storage **storage);

/** Waits until what streams still have to do on a storage is done, and frees it; foreign memory stays the caller's. The memory of a storage with exported tensors
 *  (kvc_storage_export_dlpack) is freed with the last of these. NULL is ignored. No other call on it may be running. Since 0.2. */
KVC_API void kvc_storage_destroy(kvc_storage *s);

/** What a storage is. @param[out] info struct_size set by the caller. @return KVC_OK, INVALID_ARGUMENT. Since 0.2. */
KVC_API kvc_status kvc_storage_properties(kvc_storage *s, kvc_storage_info *info);

/** Bytes that kvc_storage_create would need for this configuration; num_blocks may be 0 when only block_bytes is wanted.
 *  @param[out] block_bytes Of one block, all layers. @param[out] slab_bytes Of num_blocks. Either may be NULL.
 *  @return KVC_OK, INVALID_ARGUMENT, UNSUPPORTED. Since 0.2. */
KVC_API kvc_status kvc_storage_size(const kvc_storage_config *config, uint64_t *block_bytes, uint64_t *slab_bytes);

/** A plane of one layer as an array [num_blocks, num_heads, block_size, elements of a row] in the slab; INT4 rows as bytes (KVC_UINT8).
 *  @param[in] plane KVC_PLANE_*. @return KVC_OK; INVALID_ARGUMENT; UNSUPPORTED for tiled keys; NOT_FOUND if there is no such plane. Since 0.2. */
KVC_API kvc_status kvc_storage_view(kvc_storage *s, int32_t plane, uint32_t layer, kvc_view *view);

/** The plane that kvc_storage_view describes as a DLPack tensor, for NumPy, PyTorch, JAX and others: nothing is copied, and both sides see what the other writes.
 *  The tensor keeps the storage's memory, its allocator and foreign memory in use until its deleter is called, also past kvc_storage_destroy; calls on the
 *  storage do not wait for those who use it.
 *  @param[out] tensor A `DLManagedTensor *` (not the versioned one; capsules of it are named "dltensor") to be ended once, by any thread, with
 *              tensor->deleter(tensor).
 *  @return as kvc_storage_view, and OUT_OF_MEMORY. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_storage_export_dlpack(kvc_storage *s, int32_t plane, uint32_t layer, void **tensor);

/** The bytes of a part of a block as runs, ascending, neighbours joined: what to send, save or register. Of tiled keys, whole tiles; of channel keys,
 *  the scales of all tokens that share them, and the block must be sealed (kvc_storage_seal_blocks).
 *  @param[in]  selection Layers, heads and tokens; NULL = the whole block.
 *  @param[out] runs      [capacity]. @param[out] count Runs.
 *  @return KVC_OK, INVALID_ARGUMENT, BUFFER_TOO_SMALL (count = needed). Since 0.2. */
KVC_API kvc_status kvc_storage_runs(kvc_storage *s, int32_t block, const kvc_selection *selection, kvc_run *runs, size_t capacity, size_t *count);

/** Writes keys and values of tokens to their slots, converted to the stored type; keys turned by their rotary embedding before, with rope_table. All is
 *  checked before anything is written.
 *  Integer types hold NaN as 0, or, asymmetric, as what comes nearest; FP8 keeps it. Infinities become the largest finite magnitude of what shares
 *  their scale (FLT_MAX if that is 0). Zeros come back as zeros, but asymmetric rows and rotated rows
 *  (KVC_STORAGE_HADAMARD) give the nearest value that they can hold. Channel keys are rounded to bfloat16 first, and the state of a block does not depend on
 *  how its tokens are spread over calls in order: storing to token t of a sealed block opens it again with t and all later tokens to be stored,
 *  and until then the others keep what they held.
 *  @param[in] stream Of the storage's device, see kvc_stream; NULL: done on return.
 *  @return KVC_OK; INVALID_ARGUMENT (a slot, table entry or row of rope_table out of range, ...); OUT_OF_MEMORY (in the stream's queue). Since 0.2. */
KVC_API kvc_status kvc_storage_store(kvc_storage *s, const kvc_rows *rows, kvc_stream *stream);

/** Reads keys and values of tokens from their slots, converted to the caller's type; what kvc_storage_store wrote in that type comes back bit by bit.
 *  Parameters and errors as kvc_storage_store. Since 0.2. */
KVC_API kvc_status kvc_storage_gather(kvc_storage *s, const kvc_rows *rows, kvc_stream *stream);

/** Compares the caller's rows with what the storage holds at their slots, element by element: the error of quantization, measured. On the CPU by the
 *  calling thread; a GPU compares, and the call waits for it. Devices agree but for the rounding of sums in double precision.
 *  @param[in] rows The originals, as kvc_storage_store takes them; slots of -1 are skipped. Not changed.
 *  @param[in,out] keys, values struct_size set by the caller; NULL = not wanted. `values` of latent storages must be NULL.
 *  @return as kvc_storage_gather. Since 0.2. */
KVC_API kvc_status kvc_storage_measure(kvc_storage *s, const kvc_rows *rows, kvc_quant_metrics *keys, kvc_quant_metrics *values);

/** Rows of floats as codes, for engines that keep their own tensors: what a storage does with its rows, and with the same results for zeros, NaN and
 *  infinities (kvc_storage_store). Quantizing what came back gives the same codes. Arrays must not overlap.
 *  @param[in]  in     [num_rows][dim]
 *  @param[out] codes  [num_rows][ceil(dim * bits / 8)] bytes; int4 packed two per byte, the first in the low half.
 *  @param[out] scales [num_rows][ceil(dim / group)], or [dim] with KVC_QUANT_CHANNELS; twice as many, (scale, offset), if asymmetric. Not used if
 *                     format->scale is given. A code c stands for c * scale + offset.
 *  @return KVC_OK; INVALID_ARGUMENT, UNSUPPORTED (an unknown flag). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_quantize(const kvc_quant_format *format, const float *in, size_t num_rows, size_t dim, void *codes, float *scales);

/** The way back of kvc_quantize. @param[out] out [num_rows][dim] @return KVC_OK; INVALID_ARGUMENT, UNSUPPORTED. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_dequantize(const kvc_quant_format *format, const void *codes, const float *scales, size_t num_rows, size_t dim, float *out);

/** KVC_STORAGE_CHANNEL_KEYS: seals what is open of these blocks, in all layers, complete or not: before their bytes leave the slab. Other storages have
 *  nothing to seal. @return KVC_OK, INVALID_ARGUMENT (an id out of range; nothing is sealed). Since 0.2. */
KVC_API kvc_status kvc_storage_seal_blocks(kvc_storage *s, const int32_t *blocks, size_t num_blocks, kvc_stream *stream);

/** Copies blocks in all layers, in array order: what kvc_step.copies and kvc_manager_take_copies ask for.
 *  @return KVC_OK; INVALID_ARGUMENT (an id out of range; nothing is copied), OUT_OF_MEMORY (in the stream's queue). Since 0.2. */
KVC_API kvc_status kvc_storage_copy_blocks(kvc_storage *s, const kvc_block_copy *copies, size_t num_copies, kvc_stream *stream);

/** Clears blocks in all layers, scales included. @return KVC_OK; INVALID_ARGUMENT (an id out of range; nothing is cleared), OUT_OF_MEMORY (in the stream's
 *  queue). Since 0.2. */
KVC_API kvc_status kvc_storage_zero_blocks(kvc_storage *s, const int32_t *blocks, size_t num_blocks, kvc_stream *stream);

/** Copies blocks to pages of host memory, all layers of a block packed in one page: to make room, to be written to a disk or to be sent. A page holds what
 *  kvc_storage_runs lists of the whole block, run after run, and may go to any block of any storage of the same configuration, whatever its device, memory
 *  and num_blocks. Of channel keys, what is open of the blocks is sealed first (kvc_storage_seal_blocks).
 *
 *  A GPU moves them by its copy engine or by a kernel, whichever it expects to be faster; both are measured once for each device, at its first swap out of a
 *  capture, which therefore takes longer and waits: call this with num_copies 0 at start. A capture before that takes a guess (kvc_device_info).
 *  @param[in]  copies     [num_copies] source is a block, destination a page; no page twice.
 *  @param[out] pages      Page p is at pages + p * page_bytes. Aligned to 16, and not a part of the storage's slab. Memory that the device reads: pinned
 *              (KVC_MEMORY_PINNED), registered (kvc_device_register), or any with KVC_DEVICE_READS_HOST. It must live until the work is done.
 *  @param[in]  pages_size Bytes of it. @param[in] page_bytes From one page to the next, a multiple of 16, at least kvc_storage_info.block_bytes; 0 = that.
 *  @param[in]  stream Of the storage's device, see kvc_stream; NULL: done on return.
 *  @return KVC_OK; INVALID_ARGUMENT (a block or page out of range, a page twice, the memory; nothing is copied), UNSUPPORTED (the device cannot),
 *  OUT_OF_MEMORY, DEVICE. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_storage_swap_out(kvc_storage *s, const kvc_block_copy *copies, size_t num_copies, void *pages, size_t pages_size, uint64_t page_bytes,
                                        kvc_stream *stream);

/** The way back of kvc_storage_swap_out: all bytes of the blocks become those of the pages.
 *  @param[in] copies [num_copies] source is a page, destination a block; no block twice. All else as kvc_storage_swap_out. Since 0.2. */
KVC_API kvc_status kvc_storage_swap_in(kvc_storage *s, const kvc_block_copy *copies, size_t num_copies, const void *pages, size_t pages_size,
                                       uint64_t page_bytes, kvc_stream *stream);

/** Paged attention over what is stored: prefill and decode, any mix of requests. Accumulates in float32 (FlashAttention's online softmax,
 *  arXiv:2205.14135; split contexts merged by log-sum-exp as in Flash-Decoding).
 *  @return KVC_OK; INVALID_ARGUMENT (shapes, offsets, a table entry out of range that a query reads; strides that are negative or too large, or with which rows of
 *  out overlap; a sink logit that is NaN or +infinity, unless KVC_ATTENTION_ON_DEVICE; on a GPU schedule or workspace: too small, not aligned, missing; with schedule, out not
 *  aligned to 4 or of odd strides); UNSUPPORTED;
 *  OUT_OF_MEMORY (scratch, or in the stream's queue). Since 0.2. */
KVC_API kvc_status kvc_storage_attend(kvc_storage *s, const kvc_attention *attention, kvc_stream *stream);

/** Says how kvc_storage_attend would compute this, and computes nothing. q and out may be NULL. @param[in,out] plan struct_size set by the caller.
 *  @return As kvc_storage_attend. Since 0.2. */
KVC_API kvc_status kvc_storage_explain(kvc_storage *s, const kvc_attention *attention, kvc_attention_plan *plan);

/** The largest and the smallest of each element over the keys of a block, which bound q . k for kvc_storage_select_blocks (Quest, arXiv:2406.10774).
 *  To be called once a block is full; the bounds are right while its keys stay, whoever shares the block. They are rounded outwards to float16; those
 *  of an element that is infinite or NaN in some key are NaN, and such a block is picked before all others. With KVC_STORAGE_HADAMARD they are those
 *  of the rotated keys.
 *  @param[in]  blocks [num_blocks] different ids, all of whose tokens are written.
 *  @param[out] bounds [blocks of the storage][num_heads][2: largest, smallest][head_dim] float16 of one layer; the entries of `blocks` are written.
 *  @return KVC_OK; INVALID_ARGUMENT (layer, an id out of range; nothing is written), OUT_OF_MEMORY (in the stream's queue). Since 0.2. */
KVC_API kvc_status kvc_storage_key_bounds(kvc_storage *s, uint32_t layer, const int32_t *blocks, size_t num_blocks, uint16_t *bounds, kvc_stream *stream);

/** Picks for each request and KV head the blocks with the highest bounds on scale * q . k over the queries of the request and the query heads of
 *  that KV head; among equals the first. Bounds are sums in float32, added up in an order of each device: blocks whose sums differ in the last bits may
 *  change places between devices, equal ones never do. Soft cap, ALiBi and masks are not looked at, blocks outside of all windows are never picked. With
 *  top_k of at least the blocks that the queries reach all bits are set, and attention is dense.
 *  @param[in] attention What is to be attended; out and its strides, lse, mask, block_mask and sink_logits are not used. Give it choice->block_mask for kvc_storage_attend.
 *  @param[in] choice    How many, and where to write.
 *  @return As kvc_storage_attend; INVALID_ARGUMENT (top_k 0, block_mask_stride or workspace too small). Since 0.2. */
KVC_API kvc_status kvc_storage_select_blocks(kvc_storage *s, const kvc_attention *attention, const kvc_block_choice *choice, kvc_stream *stream);

/** Gives attention of this storage to another kernel; no call on it may be running. Tiled keys have no view, and what waits in a stream of the CPU has
 *  no handle to wait by: there the library's own kernels go on. @param[in] kernel NULL = the library's own again.
 *  @param[in] user_data Passed to it. @return KVC_OK, INVALID_ARGUMENT. Since 0.2. */
KVC_API kvc_status kvc_storage_set_attention(kvc_storage *s, kvc_attention_kernel kernel, void *user_data);

/** Brings index arrays on a device up to date, for kernels that read them at fixed addresses: block tables, slots, and tables without gaps (CSR).
 *  @param[in] stream A stream of that device. @return KVC_OK; INVALID_ARGUMENT, UNSUPPORTED (the CPU, where kvc_manager_step writes them), OUT_OF_MEMORY, DEVICE.
 *  Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_stream_update_tables(kvc_stream *stream, const kvc_table_update *update);

/** Merges attention over disjoint sets of keys: what kvc_storage_attend gave for the same queries over parts of a context (several storages,
 *  machines, or the shared prefix apart from the rest) becomes what it would have given over all of it. Computes in float32.
 *  @param[in]  outs [num_partials][num_rows][v_dim]; a row of a query and head. @param[in] lses [num_partials][num_rows] natural logarithms; a row with
 *              -infinity has seen nothing, and its part of outs is not read. Of the parts, only one has the sink logits.
 *  @param[in]  num_partials May be 0.
 *  @param[in]  dtype Of outs and out: KVC_FLOAT32, FLOAT16 or BFLOAT16; 0 = KVC_FLOAT32.
 *  @param[out] out  [num_rows][v_dim]; zeros in a row that has seen nothing. May be outs. @param[out] lse [num_rows]; may be lses; NULL = not wanted.
 *  @return KVC_OK; INVALID_ARGUMENT (NULL, dtype, v_dim not 1 .. 8192). Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_attention_merge(const void *outs, const float *lses, size_t num_partials, size_t num_rows, uint32_t v_dim, int32_t dtype, void *out,
                                       float *lse);

/** Bits of kvc_attention.mask for a tree of draft tokens: node i stands at position start + i and sees itself, its ancestors and, with
 *  kvc_attention.mask_starts[r] = start, all positions before the tree. Rotary positions are start + depths[i].
 *  @param[in]  parents   [num_nodes] below the node itself; -1 = hangs on the last token before the tree.
 *  @param[in]  num_nodes At most 65,536.
 *  @param[out] mask      Bits first_bit .. first_bit + num_nodes * num_nodes - 1 are written, row by row; others stay.
 *  @param[in]  first_bit kvc_attention.mask_offsets[r].
 *  @param[out] depths    [num_nodes] 0 for a node without parent; NULL = not wanted.
 *  @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_tree_mask(const int32_t *parents, size_t num_nodes, uint8_t *mask, uint64_t first_bit, int32_t *depths);

/* ---------------------------------------------------------------- models: what their KV cache is made of, and how much of it fits */

/** kvc_model.rope_scaling: how rotary embeddings are stretched past the trained context. */
enum {
  KVC_ROPE_NONE = 0,    /**< Not at all. */
  KVC_ROPE_LINEAR = 1,  /**< Positions divided by rope_factor. */
  KVC_ROPE_DYNAMIC = 2, /**< NTK-aware, by the present length. */
  KVC_ROPE_YARN = 3,    /**< YaRN: by wavelength, with a ramp. */
  KVC_ROPE_LLAMA3 = 4,  /**< By wavelength, as Llama 3.1 does. */
  KVC_ROPE_LONGROPE = 5 /**< A factor per dimension; rope_factor is max_context / rope_original_context. */
};

/** kvc_model.rope_flags. */
enum { KVC_MODEL_ROPE_EXACT_RAMP = 1 /**< YaRN: the ends of the ramp are not rounded to whole pairs ("truncate": false). */ };

/** kvc_rope_rows.flags. */
enum { KVC_ROPE_ROWS_INTERLEAVED = 1 /**< Elements 2 i and 2 i + 1 turn together, instead of i and i + rope_dim / 2. */ };

/** Layers that a kvc_model may have, and bits of its window_layers. */
#define KVC_MODEL_MAX_LAYERS 512

/** The part of a model that its KV cache depends on. A preset (kvc_model_find), read from a config.json
 *  (kvc_model_from_config), or filled in by hand. */
typedef struct kvc_model {
  size_t struct_size;     /**< sizeof(kvc_model) */
  char name[64];          /**< Of a preset: what kvc_model_find takes. Zero-terminated. */
  uint32_t num_layers;    /**< Layers with a KV cache, 1 .. KVC_MODEL_MAX_LAYERS. */
  uint32_t num_q_heads;   /**< Query heads, a multiple of num_kv_heads; 0 = not known. */
  uint32_t num_kv_heads;  /**< Heads of keys and values that are stored per layer and token, 1 .. 65536. */
  uint32_t head_dim;      /**< Elements of a key, 1 .. 65536. */
  uint32_t v_head_dim;    /**< Elements of a value; 0 = head_dim. */
  uint32_t latent_dim;    /**< Multi-head latent attention: elements stored per layer and token in place of all keys and values, at most 65536;
                               the values are the first latent_dim - rope_dim of them, num_kv_heads is 1, and head_dim and v_head_dim are those of
                               the query heads. 0 = keys and values are stored. */
  uint32_t rope_dim;      /**< Elements that rotary embedding turns, of a key (latent attention: the last of the latent ones); 0 = head_dim. */
  uint32_t vocab_size;    /**< Token ids are below this (kvc_manager_config.vocab_size). */
  uint64_t max_context;   /**< Tokens of the longest sequence that the model's configuration allows. */
  uint64_t window_tokens; /**< Sliding window: tokens that a query reads, itself included (kvc_group_config.window_tokens); 0 = no layer has one. */
  uint64_t window_layers[KVC_MODEL_MAX_LAYERS / 64]; /**< Layer l has the window if bit l % 64 of entry l / 64 is set. All 0 with window_tokens
                                                          given = every layer. */
  double rope_theta;              /**< Base of the rotary embedding. This and the doubles below are 1e-30 .. 1e30, or 0 where 0 is documented. Only
                                       those that the scaling reads are checked. */
  double rope_local_theta;        /**< That of the layers with a window; 0 = rope_theta. */
  double rope_factor;             /**< Factor of rope_scaling; 0 without one. */
  uint64_t rope_original_context; /**< Context before stretching, where rope_scaling knows one; else 0. */
  uint32_t rope_scaling;          /**< KVC_ROPE_* of the layers without a window (and of all layers if rope_local_theta is 0). */
  uint32_t rope_flags;            /**< KVC_MODEL_ROPE_* */
  double rope_slow_turns;         /**< LLAMA3, YARN: pairs that turn less often than this within rope_original_context are slowed down by rope_factor
                                       (low_freq_factor, beta_slow), ...; 0 = 1. */
  double rope_fast_turns;         /**< ... those that turn more often than this not at all (high_freq_factor, beta_fast); 0 = 4 for LLAMA3, 32 for YARN. */
  double rope_attention_factor;   /**< Multiplies cosines and sines; 0 = what rope_scaling asks for: YARN 0.1 ln(rope_factor) + 1, LONGROPE
                                       sqrt(1 + ln(rope_factor) / ln(rope_original_context)), others 1. */
} kvc_model;

/** Rows that kvc_rope_apply turns. Element (t, h, e) is at x + t * token_stride + h * head_stride + e, counted in elements. */
typedef struct kvc_rope_rows {
  size_t struct_size;   /**< sizeof(kvc_rope_rows) */
  void *x;              /**< [num_tokens][num_heads][head_dim], changed in place. */
  size_t num_tokens;    /**< Tokens. */
  const float *table;   /**< [table_rows][rope_dim], from kvc_rope_table. */
  size_t table_rows;    /**< Rows of it. */
  const int64_t *table_row; /**< [num_tokens] the table's row of each token; NULL = row t for token t. */
  uint32_t num_heads;   /**< Heads: query heads, KV heads, or 1 for a latent row. */
  uint32_t head_dim;    /**< Elements of a row. */
  uint32_t rope_dim;    /**< Elements that turn, even; 0 = head_dim. */
  uint32_t first_element; /**< First of them. Latent rows: latent_dim - rope_dim. */
  int32_t dtype;        /**< Of x: KVC_FLOAT32, FLOAT16 or BFLOAT16; 0 = KVC_FLOAT32. Computed in float32 in any case. */
  uint32_t flags;       /**< KVC_ROPE_ROWS_* */
  int64_t token_stride; /**< 0 = num_heads * head_stride. */
  int64_t head_stride;  /**< 0 = head_dim. */
} kvc_rope_rows;

/** Question for kvc_estimate_memory. */
typedef struct kvc_memory_query {
  size_t struct_size;     /**< sizeof(kvc_memory_query) */
  const kvc_model *model; /**< Whose cache. Its name, vocabulary and rope fields are not read. */
  uint64_t tokens;        /**< Tokens of each sequence; 0 = model->max_context. */
  uint64_t num_sequences; /**< Sequences that share nothing; 0 = 1. */
  uint64_t budget_bytes;  /**< Memory for blocks and open_bytes; 0 = do not compute max_tokens and max_sequences. */
  uint64_t chunk_tokens;  /**< Most tokens of a sequence that one step writes: 0 = 1 (decoding); the chunk of a chunked prefill, or `tokens` for
                               prompts written at once. Layers with a window hold up to this many tokens more. */
  int32_t dtype;          /**< KVC_FLOAT16 (also 0), KVC_BFLOAT16, KVC_FLOAT32, KVC_FLOAT8_E4M3, KVC_FLOAT8_E5M2, KVC_INT8, KVC_INT4. */
  uint32_t block_size;    /**< Tokens per block, 1 .. 1024; 0 = 16. */
  uint32_t scale_group;   /**< int8, int4, fp8: elements that share a scale of 4 bytes, counted from the front of each key, each value or each
                               latent row. 0 = int8 and int4: one per row; fp8: no scales in the blocks. Other types: 0. */
  uint32_t asymmetric;    /**< 1 = a scale and an offset, 8 bytes; needs scales. */
  uint32_t tensor_scales;  /**< 1 = int8 and int4 with k_scale and v_scale: no scales in the blocks. */
  uint32_t channel_keys;   /**< 1 = int8 and int4 with KVC_STORAGE_CHANNEL_KEYS. */
  uint32_t channel_tokens; /**< As in kvc_storage_config. */
  uint32_t reserved;       /**< 0 */
} kvc_memory_query;

/** Answer of kvc_estimate_memory, in bytes and blocks. Layers without a window form the full group, those with one the window group; a group
 *  without layers has zeros. */
typedef struct kvc_memory_estimate {
  size_t struct_size;          /**< sizeof(kvc_memory_estimate) */
  uint64_t bytes_per_token;    /**< One token in all layers, as if none had a window. */
  uint64_t full_block_bytes;   /**< One block of the full group, all its layers. */
  uint64_t window_block_bytes; /**< One block of the window group, all its layers. */
  uint64_t full_blocks;        /**< Blocks of a sequence in the full group: ceil(tokens / block_size). */
  uint64_t window_blocks;      /**< Most blocks that a sequence holds at once in the window group while it grows to `tokens`:
                                    min(ceil(tokens / block_size), ceil((window_tokens + chunk_tokens - 2) / block_size) + 1). */
  uint64_t sequence_bytes;     /**< full_blocks * full_block_bytes + window_blocks * window_block_bytes + open_bytes. */
  uint64_t total_bytes;        /**< num_sequences * sequence_bytes. */
  uint64_t max_tokens;         /**< Largest `tokens` for which total_bytes of num_sequences sequences is within the budget: a multiple of block_size,
                                    possibly above max_context; 0 = not even one block fits; UINT64_MAX = any length fits (windows alone). */
  uint64_t max_sequences;      /**< Largest num_sequences for which total_bytes with `tokens` is within the budget; may be 0. */
  uint32_t num_full_layers;    /**< Layers of the full group. */
  uint32_t num_window_layers;  /**< Layers of the window group. */
  uint64_t open_bytes;         /**< channel_keys: the bfloat16 keys of a sequence's open block in all layers, beside the blocks. Else 0. */
} kvc_memory_estimate;

/** Number of presets. Thread-safe. Since 0.2. */
KVC_API size_t kvc_model_count(void);

/** One preset, all fields filled in. @param[in] index Below kvc_model_count(); the order may change between versions.
 *  @param[in,out] model struct_size set by the caller. @return KVC_OK, INVALID_ARGUMENT. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_model_get(size_t index, kvc_model *model);

/** Finds a preset. @param[in] name Its name ("llama-3.1-8b"), an alias, or the repository that its numbers come from
 *  ("meta-llama/Llama-3.1-8B"); letters of either case. @param[in,out] model struct_size set by the caller.
 *  @return KVC_OK; NOT_FOUND, with the nearest names in the text; INVALID_ARGUMENT. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_model_find(const char *name, kvc_model *model);

/** Reads the config.json that Hugging Face keeps beside a model's weights: Llama, Mistral, Mixtral, Phi-3, Qwen 2 and 3, Gemma 2 and 3,
 *  DeepSeek-V3 and gpt-oss. The configuration may lie in "text_config", as in models that also see or hear.
 *  @param[in] json The text of the file, in UTF-8; not kept. @param[in] size Its bytes.
 *  @param[in,out] model struct_size set by the caller; the rest is written on success alone. The name is "_name_or_path" or the architecture.
 *  @return KVC_OK; INVALID_ARGUMENT (not JSON, an unknown architecture, a field that is missing or out of range: the text names the field, its
 *  value and the fix), OUT_OF_MEMORY. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_model_from_config(const char *json, size_t size, kvc_model *model);

/** How much memory the blocks of some sequences take and, given a budget, what fits. Exact for blocks that hold the elements and scales of
 *  their tokens and nothing else: a row of n elements takes ceil(n * bits / 8) bytes and 4 (or 8) for each scale, those of channels being shared by
 *  channel_tokens tokens (in bytes_per_token: rounded up). Nothing is shared between
 *  sequences, and blocks that stay cached for reuse come on top.
 *  @param[in]     query    What is to be stored, and how.
 *  @param[in,out] estimate struct_size set by the caller.
 *  @return KVC_OK; INVALID_ARGUMENT (a field out of range, or a result past 2^64 - 1), UNSUPPORTED. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_estimate_memory(const kvc_memory_query *query, kvc_memory_estimate *estimate);

/** Angles by which the pairs of a layer's rotary embedding turn from one position to the next (rotary embedding: arXiv:2104.09864; YaRN:
 *  arXiv:2309.00071; LongRoPE: arXiv:2402.13753). Computed in double precision.
 *  @param[in]  model     rope_*, head_dim, rope_dim, max_context and the windows are read.
 *  @param[in]  layer     Below num_layers: layers with a window may have a base of their own.
 *  @param[in]  length    Tokens of the sequence at present: DYNAMIC turns slower once there are more than the model was trained on. Others: not read.
 *  @param[in]  factors   LONGROPE: [rope_dim / 2], each 1e-30 .. 1e30, from the model's config.json: short_factor up to rope_original_context tokens, long_factor beyond.
 *                        Others: NULL.
 *  @param[out] frequencies [capacity] radians per position. @param[out] count rope_dim / 2.
 *  @param[out] attention_factor For kvc_rope_table. (Models may scale their logits besides: kvc_attention.scale.)
 *  @return KVC_OK; INVALID_ARGUMENT (a field out of range), UNSUPPORTED (LONGROPE without factors), BUFFER_TOO_SMALL. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_model_rope(const kvc_model *model, uint32_t layer, uint64_t length, const double *factors, double *frequencies, size_t capacity,
                                  size_t *count, double *attention_factor);

/** Cosines and sines for kvc_rope_apply and kvc_rows.rope_table: once per step for all layers that share frequencies, or once for all positions. Angles
 *  are computed in double precision, so that they are right at any position.
 *  @param[in]  positions [num_positions], of any sign; NULL = 0, 1, 2, ...
 *  @param[out] table     [num_positions][2][num_frequencies] cosines, sines; both times attention_factor.
 *  @return KVC_OK; INVALID_ARGUMENT (NULL, an attention_factor or a frequency that is NaN or outside -1e30 .. 1e30, a position past 2^40).
 *  Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_rope_table(const double *frequencies, size_t num_frequencies, double attention_factor, const int64_t *positions, size_t num_positions,
                                  float *table);

/** Turns queries or keys in place: each pair (a, b) becomes (a cos - b sin, b cos + a sin). Rows that overlap give anything.
 *  @return KVC_OK; INVALID_ARGUMENT (a field out of range, a row outside of the table; nothing is changed), UNSUPPORTED. Thread-safe. Since 0.2. */
KVC_API kvc_status kvc_rope_apply(const kvc_rope_rows *rows);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_H */
