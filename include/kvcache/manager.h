/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_MANAGER_H
#define KVCACHE_MANAGER_H

/** @file kvcache/manager.h
 *  @brief The block manager: its groups, pools, namespaces and statistics.
 *
 *  <kvcache.h> states the terms, the conventions of all calls and the threading; it includes this header. */

#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_group_config.kind. */
enum {
  KVC_GROUP_FULL = 0, /**< Full attention: a query reads every earlier token. */
  /** A query at position p reads p - window_tokens + 1 .. p, and the first num_sink_tokens. */
  KVC_GROUP_SLIDING_WINDOW = 1,
  /** Chunked local attention: a query reads the earlier tokens of its own chunk of chunk_tokens tokens, and
   *  itself. Since 0.3. */
  KVC_GROUP_CHUNKED_LOCAL = 2,
  /** Recurrent state (Mamba, linear attention). A block holds the state of the group's layers after some
   *  number of tokens; after c tokens it is the block at position (c - 1) / block_size. A step from c to e
   *  tokens reads the state there and writes the new one at (e - 1) / block_size. If these are two blocks,
   *  the kernel does not write to the first one. Only the position where a step ends gets a block: when slots
   *  are given, the positions before that of token min(known, capacity) get none, but for that of the last
   *  token of a transfer (kvc_request_config.external_tokens). A commit that ends at a position without a
   *  block is refused. A commit that ends at a multiple of block_size publishes the state there: a
   *  checkpoint. A hit must end at a checkpoint. kvc_request_info.next_checkpoint tells where to end the next
   *  step of a prefill. Commit exactly where a kernel ended: the library cannot see what a block holds. After
   *  rejected drafts, first copy the state after the accepted tokens to the block of the last of them
   *  (kvc_verdict_states). Slots mean nothing in this group. A kernel that writes the states of all block
   *  ends needs KVC_GROUP_SLIDING_WINDOW with window_tokens 2 instead. Not with KVC_MANAGER_FILLS,
   *  KVC_MANAGER_HEADROOM and KVC_MANAGER_PARTIAL_REUSE. Its pool has at least 2 blocks. Since 0.3. */
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
  /** Take all memory for blocks and nodes from the system at creation. By default the first 64 MiB of each
   *  array are (with max_blocks, the share of it that num_blocks is), and other pages when they are first
   *  used, so that a large pool costs little until then. The first use of a page makes its call wait for the
   *  system (a 2 MiB page: about 0.1 ms). */
  KVC_MANAGER_TOUCH_MEMORY = 64,
  /** Evict by the engine's hints (kvcache/retention.h) before the policy. Takes 17 bytes for each prefix
   *  position and 208 for each request. Since 0.3. */
  KVC_MANAGER_HINTS = 128,
  /** Follow which request computes which tokens (kvcache/fills.h). Takes 4 bytes for each block and about
   *  50 for each request. Since 0.3. */
  KVC_MANAGER_FILLS = 256,
  /** Remember how many tokens ended requests got after their prompts, so that admissions can take
   *  headroom for as many (kvc_request_config.headroom). Takes 1 KiB. Since 0.3. */
  KVC_MANAGER_HEADROOM = 512,
  /** Hits may end inside a block: an admission whose next block shares only its first tokens with a cached
   *  one copies that (kvc_manager_admit_request). Not for storages with channel keys. Since 0.3. */
  KVC_MANAGER_PARTIAL_REUSE = 1024
};

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
  /** Sliding window, chunked local, state: also keep the blocks that a hit needs that ends at a multiple of
   *  this many tokens. A multiple of block_size. 0, KVC_NO_RETENTION and values above 2^32 = keep only what
   *  hits before the ends of the prompt and the request need. When room is short, blocks that a window or
   *  chunk keeps only for such hits leave first, but not those for hits that end in the last 512 tokens of
   *  the prompt, of the request's own hit, or of what one group alone could have hit. With a policy, hints or
   *  quotas their order applies instead. */
  uint64_t retention_tokens;
  uint32_t pool;     /**< Index of the pool of this group's blocks. */
  uint32_t reserved; /**< 0 */
  /** Chunked local: tokens of a chunk, at least 1; others: 0. A hit that ends where a chunk begins needs no
   *  block of the group, else those of the chunk in which it ends. A multiple of block_size is best. Since
   *  0.3. */
  uint64_t chunk_tokens;
  /** State: cached states at most; when another one becomes cached, the pool's next victim is evicted,
   *  whatever the quota of its namespace. The group needs a pool of its own. 0 = as many as the pool has room
   *  for; others: 0. Since 0.3. */
  uint64_t max_checkpoints;
} kvc_group_config;

/** Most blocks of all pools of a manager: 2^31 - 66. Since 0.3. */
#define KVC_MAX_BLOCKS 2147483582

/** Shape and limits of a manager. Only the number of blocks has no default: set exactly one of num_blocks,
 *  pools and memory. */
typedef struct kvc_manager_config {
  size_t struct_size; /**< sizeof(kvc_manager_config) */
  /** Blocks of the only pool, 1 (with the null block 2) .. KVC_MAX_BLOCKS; 0 with `pools` or `memory`. */
  uint64_t num_blocks;
  /** Prefix positions to remember. 0 = blocks + blocks/32 + 64 with full-attention groups only, else 2 *
   *  blocks, of max_blocks. Without a full-attention group positions outlive their blocks: a window at the
   *  end of a long prompt keeps all before it. Then 0 is 8 * blocks, and at least twice ceil(L /
   *  block_size). L is kvc_memory_query.tokens with `memory`, at most max_request_tokens; else
   *  max_request_tokens, if it is set. With neither, set max_nodes to at least twice the positions of the
   *  longest request. A position takes 8 to 16 bytes at creation, and 60 + 4 * block_size + 4 * groups more
   *  when it is first used, or at creation (KVC_MANAGER_TOUCH_MEMORY). Without a full-attention group a
   *  commit evicts cached blocks while fewer than 1/8 of max_nodes are free: give at least 8/7 of the
   *  positions of all running requests. With KVC_MANAGER_HINTS it evicts when all are in use. If none is free
   *  all the same, requests stop publishing (kvc_stats.unpublished_blocks, kvc_lost_reuse.node_tokens). */
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
   *  which kvc_estimate_memory tells before. `groups` and `pools` must be NULL; to set sinks, take the
   *  blocks from the estimate instead. block_size is that of the query or of this struct; if both
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
   *  call costs nothing more then. Since 0.3. */
  uint64_t record_bytes;
} kvc_manager_config;

/** Configuration of a manager, with defaults filled in: as it was created. */
typedef struct kvc_properties {
  size_t struct_size;  /**< sizeof(kvc_properties) */
  uint64_t num_blocks; /**< Blocks that all pools began with, null block included. */
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
  uint64_t refusals;    /**< Admissions and extensions with NO_SPACE, AGAIN, OVER_QUOTA or NEVER_FITS. */
  uint64_t preemptions; /**< kvc_manager_preempt_request and kvc_step.preempts. */
  uint64_t evictions;   /**< Cached blocks that were dropped to make room, or by kvc_manager_evict_blocks. */
  uint64_t copies;      /**< Pairs: copy-on-write, and of admissions with partial reuse. */
  uint64_t duplicates;  /**< Committed blocks whose content another block had published. */
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
  KVC_BLOCK_FREE = 0,     /**< None of the others. */
  KVC_BLOCK_CACHED = 1,   /**< Not held, and can be found. */
  KVC_BLOCK_PINNED = 2,   /**< Held only by pins. */
  KVC_BLOCK_RESERVED = 3, /**< Held, nothing committed. */
  KVC_BLOCK_LIVE = 4,     /**< Held by a request or an external hold, with a committed token. */
  KVC_BLOCK_FILLING = 5,  /**< Held, and a step in flight will write all of it. */
  KVC_BLOCK_FENCED = 6    /**< Released, but a step in flight may still write to it. */
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

/** Creates a manager. Allocates all memory for blocks and nodes. The hash table of prefixes, about 11 bytes a
 *  block, is touched; of other arrays 64 MiB at most, or all if KVC_MANAGER_TOUCH_MEMORY is set or
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

/** Forgets all cached content of a namespace, for example after new weights. Constant time, plus its
 *  registered prompts, whose pins end, plus the samples of a curve of all namespaces. Requests keep their
 *  blocks and finish, but publish nothing more. Old content is never hit.
 *  @param[in] namespace_id A namespace; 0 = the default one alone.
 *  @return KVC_OK, NOT_FOUND, LIMIT (after 2^47 resets). Since 0.3. */
KVC_API kvc_status kvc_manager_reset_namespace(kvc_manager* m, uint64_t namespace_id);

/** Forgets all cached content of all namespaces, as kvc_manager_reset_namespace of each would. Constant time,
 *  plus all registered prompts and the samples of curves. @return KVC_OK, LIMIT (after 2^47 resets). Since
 *  0.3. */
KVC_API kvc_status kvc_manager_reset_all(kvc_manager* m);

/** Switches prefix caching off and on, for example to measure without it. A manager begins with it on.
 *
 *  Off: admissions, probes and kvc_manager_acquire_prefix find nothing, as with KVC_REQUEST_NO_READ; requests
 *  publish nothing, as with KVC_REQUEST_NO_WRITE, and kvc_manager_publish_blocks returns OK but publishes
 *  nothing. Cached blocks stay until they are evicted, and can hit when it is on again. It does not affect
 *  pins, registered prompts, hints, drops and checkpoints. kvc_manager_reset_all still forgets all blocks.
 *
 *  Admitted requests keep their blocks, hits included, and run on. A request that was admitted at any moment
 *  while the switch was off publishes nothing until it is preempted and admitted again: so no published
 *  prefix has a gap. The call is linear in max_requests. kvc_manager_rebuild and checkpoints do not carry
 *  the switch: set it again in the new manager, which begins with it on.
 *  @param[in] on 1 = on; 0 = off.
 *  @return KVC_OK, also if it was so already; INVALID_ARGUMENT (another number), UNSUPPORTED (on, with
 *  KVC_MANAGER_NO_PREFIX_CACHE). Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_manager_set_prefix_caching(kvc_manager* m, uint32_t on);

/** Counters and gauges as of the last finished call: a consistent snapshot that does not wait for the
 *  lock.
 *  @param[in,out] stats The caller sets struct_size. @return KVC_OK, INVALID_ARGUMENT. Since 0.1. */
KVC_API kvc_status kvc_manager_read_stats(kvc_manager* m, kvc_stats* stats);

/** Counts of one pool. @return KVC_OK, INVALID_ARGUMENT (no such pool). Since 0.1. */
KVC_API kvc_status kvc_manager_pool_info(kvc_manager* m, uint32_t pool, kvc_pool_info* info);

/** State of one block. @return KVC_OK, INVALID_ARGUMENT (no such block, the null block). Since 0.1. */
KVC_API kvc_status kvc_manager_block_info(kvc_manager* m, int32_t block, kvc_block_info* info);

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
#endif /* KVCACHE_MANAGER_H */
