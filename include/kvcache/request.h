/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_REQUEST_H
#define KVCACHE_REQUEST_H

/** @file kvcache/request.h
 *  @brief Requests: their tokens, blocks and tables, and the work on the bytes of blocks that a manager asks
 *  for.
 *
 *  <kvcache.h> states the terms, the conventions of all calls and the threading; it includes this header. */

#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most extra keys over one token. */
#define KVC_MAX_KEYS_OF_TOKEN 16

/** Identity of a span of tokens that their ids alone do not identify, such as the placeholder tokens of an
 *  image. Two blocks are equal only if the spans over them have equal digests, lengths and offsets. A hit
 *  never ends inside a span. Spans may share tokens, as those of a video and its sound. Frozen. */
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
  /** [num_keys] inside the tokens, in any order, at most KVC_MAX_KEYS_OF_TOKEN over one token; NULL = none.
   *  Of equal ones one counts. */
  const kvc_extra_key* keys;
  /** Number of extra keys. 0 means none, also if `keys` is set: do not forget it. */
  size_t num_keys;
} kvc_prompt;

/** kvc_request_config.flags. */
enum {
  KVC_REQUEST_NO_READ = 1,  /**< Do not use cached blocks: compute everything. */
  KVC_REQUEST_NO_WRITE = 2, /**< Do not publish. */
  /** Admit only if all known tokens would fit, even if `slots` asks for fewer now. To fit means: what the
   *  request holds at one time while it is computed in steps of `slots` tokens. In window and chunked groups
   *  that is one window, or chunk, and one step. */
  KVC_REQUEST_FULL_MUST_FIT = 4,
  /** Admitted before under another id: counted in kvc_stats.readmissions, not in admissions. */
  KVC_REQUEST_RESUMED = 8,
  /** The known tokens that a step gives slots are computed by that step: kvcache/fills.h. Since 0.3. */
  KVC_REQUEST_PUBLISH_ENQUEUED = 16,
  /** Hits may end in blocks that a step in flight writes: kvcache/fills.h. Since 0.3. */
  KVC_REQUEST_SHARE_FILLING = 32
};

/** Headroom: room that an admission takes for the tokens that a request will still get
 *  (kvc_manager_expected_tokens), enough for this share of the requests that have ended. Since 0.3. */
enum {
  KVC_HEADROOM_NONE = 0,      /**< None. */
  KVC_HEADROOM_MINIMAL = 1,   /**< Enough for 50 of 100 requests. */
  KVC_HEADROOM_BALANCED = 2,  /**< Enough for 75 of 100 requests. */
  KVC_HEADROOM_AGGRESSIVE = 3 /**< Enough for 95 of 100 requests. */
};

/** Options of a request. A NULL pointer to it means all defaults. */
typedef struct kvc_request_config {
  size_t struct_size;         /**< sizeof(kvc_request_config) */
  uint64_t user_data;         /**< Returned by kvc_manager_request_info; not interpreted. */
  uint64_t max_cached_tokens; /**< Upper bound of the hit, besides known tokens - 1; 0 = none. */
  /** Tokens after the hit that a transfer will fill. They get blocks at admission in addition to `slots`,
   *  and are published when they are committed, like computed ones. In window and chunked groups the
   *  request has only the blocks that tokens after the transfer read: commit the whole transfer at once. If
   *  it fails, preempt the request, or create it anew with 0 here. */
  uint64_t external_tokens;
  /** Tokens after the hit and external_tokens that get slots at each admission; 0 = all known tokens. A
   *  preempted request may be too long for its window groups at once: then admit it in steps, with
   *  kvc_step.admit_slots. */
  uint64_t slots;
  uint64_t lookahead; /**< Slots reserved past the known tokens (speculative decoding). */
  uint32_t flags;     /**< KVC_REQUEST_* */
  /** Shorten every hit by this many blocks (draft heads that need hidden states). */
  uint32_t drop_tail_blocks;
  /** Until this time (of the clock of kvc_step.now_ns) an admission gets FILLING while another request
   *  computes its next tokens: kvcache/fills.h. 0 = it computes them too. Since 0.3. */
  uint64_t wait_until_ns;
  /** KVC_HEADROOM_*: each admission takes blocks for all known tokens, whatever `slots` is, and for the
   *  tokens that kvc_manager_expected_tokens expects. Appends within them need no block and so never lack
   *  one. In a manager with a window or chunked group, whose blocks come and go, an admission takes no more
   *  blocks than without, but all these tokens must fit, as with KVC_REQUEST_FULL_MUST_FIT. Ignored if
   *  nothing is expected, or if it does not fit while no other request is admitted. Needs
   *  KVC_MANAGER_HEADROOM. Since 0.3. */
  uint32_t headroom;
  uint32_t reserved; /**< 0 */
  /** Tokens of the request's encoder, at most max_request_tokens; 0 = none. Each KVC_GROUP_CROSS has
   *  ceil(cross_tokens / block_size) blocks for them, from an admission to its end. Write them before the
   *  first commit of a token that was computed after the admission: that commit says that they are written.
   *  Needs such a group. Since 0.3. */
  uint64_t cross_tokens;
  /** Digest of the encoder's input, by a party that the engine trusts. Requests of a namespace with equal
   *  digests and cross_tokens share the encoder's blocks, and the prefixes that the decoder computed with
   *  them. It is as if the first token had an extra key whose digest is the SHA-256 of these 32 bytes and
   *  cross_tokens (8 bytes, little-endian). Another key of the prompt over that token is
   *  KVC_ERROR_UNSUPPORTED. All zero = private: the request neither uses nor publishes anything, in any
   *  group. Since 0.3. */
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
  /** State groups: end your next step here, and commit it. The smallest count above num_committed that is:
   *  the end of the last full block before the prompt's last token, with or without drop_tail_blocks; the end
   *  of what the other groups had cached at the admission; a multiple of a group's retention_tokens. 0 =
   *  none, no state group, a waiting request, or one that publishes nothing. Since 0.3. */
  uint64_t next_checkpoint;
  uint64_t cross_tokens; /**< As configured. Since 0.3. */
  /** cross_tokens if the last admission found the KV of all of the encoder's tokens, so that the encoder need
   *  not run; else 0. A fork has cross_tokens here if they are written. Since 0.3. */
  uint64_t num_cross_cached;
  /** If lost_reuse_tokens is not 0: the group that alone could reuse least (the first of equal ones), and why
   *  most of the tokens were lost (KVC_LOST_*). Else 0. Since 0.3. */
  uint32_t lost_group, lost_reason;
} kvc_request_info;

/** Creates a waiting request. Its tokens are copied and hashed; it gets no block.
 *  @param[in]  prompt  Its tokens and their identity.
 *  @param[in]  config  Options; NULL = defaults.
 *  @param[out] request Its id.
 *  @return KVC_OK; INVALID_ARGUMENT (a token out of range, a key outside the tokens), NOT_FOUND (namespace),
 *  LIMIT (max_requests, max_request_tokens, keys over a token), UNSUPPORTED, OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_create_request(kvc_manager* m, const kvc_prompt* prompt,
                                              const kvc_request_config* config, uint64_t* request);

/** Admits a waiting request: finds its longest cached prefix in every group and takes blocks for the rest,
 *  all or nothing. With KVC_MANAGER_PARTIAL_REUSE the hit then goes on inside the next block. Of the newest
 *  32 cached blocks that follow the hit, the one that shares most tokens is copied to the request's own
 *  block, in each group (kvc_step.copies; in single calls kvc_manager_take_pending). No block is copied if
 *  the admission fits only when that block leaves, nor with external_tokens or drop_tail_blocks.
 *  @param[out] num_cached Tokens of the hit, which count as committed: at most num_tokens - 1, and without
 *  partial reuse a multiple of block_size. May be NULL.
 *  @return KVC_OK; NO_SPACE (the text has the needed and available blocks), AGAIN, OVER_QUOTA, NEVER_FITS
 *  (end the request), FILLING, NOT_FOUND, BUSY (admitted already), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_admit_request(kvc_manager* m, uint64_t request, uint64_t* num_cached);

/** Admits waiting requests, all or none, by the rules of KVC_STEP_ADMIT_ALL_OR_NONE. Each is planned as if
 *  those before it were admitted. If all fit, their hits are held before the first takes a block. Else no
 *  request is admitted, and all wait as before. No hit goes on inside a block.
 *  @param[in]  requests [num_requests] ids, each once.
 *  @param[out] cached   [num_requests] tokens of each hit; written if all are admitted. May be NULL.
 *  @param[out] statuses [num_requests] of each request; written unless the array itself is refused. If one
 *  is refused, those that would fit are SKIPPED. So are those that are not tried, since one before them, of
 *  the same quota if there are quotas, has no space. May be NULL.
 *  @return KVC_OK, or the status of the first request that is refused, as kvc_manager_admit_request (BUSY
 *  also if it is named twice), with its index in the text; INVALID_ARGUMENT above max_requests. Since 0.3. */
KVC_API kvc_status kvc_manager_admit_batch(kvc_manager* m, const uint64_t* requests, size_t num_requests,
                                           uint64_t* cached, kvc_status* statuses);

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
 *  @return KVC_OK; NO_SPACE, AGAIN, OVER_QUOTA, NEVER_FITS, NOT_FOUND, BUSY (waiting), LIMIT
 *  (max_request_tokens), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_reserve_tokens(kvc_manager* m, uint64_t request, uint64_t capacity);

/** Appends known tokens. An admitted request gets slots for all known tokens and its lookahead. May need
 *  copies: kvc_manager_take_pending. @return As kvc_manager_reserve_tokens, and INVALID_ARGUMENT for a
 *  token out of range. Since 0.1. */
KVC_API kvc_status kvc_manager_append_tokens(kvc_manager* m, uint64_t request, const int32_t* tokens,
                                             size_t num_tokens);

/** Adds extra keys to a request: what tokens stand for that it gets later, such as an image in the next input
 *  of a session. The tokens may be known already, or come after the call, also by a step; they must not be
 *  committed yet, nor be among external_tokens, nor lie in a block that another request shares (by a fork, or
 *  by a hit on a block in which this request was then truncated). Keys that the request has already are left
 *  out, so a caller may give all that it knows in one call. The call costs time for all its keys and, if the
 *  request waits, for its tokens behind the first new one. A waiting request may get keys over any token.
 *  @param[in] keys [num_keys] in any order; within max_request_tokens.
 *  @return KVC_OK; INVALID_ARGUMENT (an empty key, one behind max_request_tokens, or one over tokens that are
 *  committed, published, transferred or shared), LIMIT (keys over a token), NOT_FOUND; UNSUPPORTED (one over
 *  token 0 beside cross_digest); OUT_OF_MEMORY. Since 0.3. */
KVC_API kvc_status kvc_manager_add_keys(kvc_manager* m, uint64_t request, const kvc_extra_key* keys,
                                        size_t num_keys);

/** States that the KV of the first num_committed tokens is written. Full blocks are published. Blocks that
 *  left a window are returned.
 *  @param[in] num_committed Absolute count.
 *  @return KVC_OK; INVALID_ARGUMENT (less than before, or more than min(known, capacity); a state group has
 *  no block there; inside a transfer, which has only the window before its end), NOT_FOUND, BUSY (waiting),
 *  OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_commit_tokens(kvc_manager* m, uint64_t request, uint64_t num_committed);

/** Commits tokens that steps in flight still write. Full blocks of num_committed tokens are published now, as
 *  by kvc_manager_commit_tokens, so that later steps can hit them. Blocks that left a window, a chunk or a
 *  state are returned only as if num_computed tokens were committed, because steps in flight read the others;
 *  the next commit returns those.
 *
 *  For an engine whose steps run in the order in which it schedules them, on one stream: a step that hits
 *  such a block reads it after the step that writes it. Commit only what a step surely writes: no drafts, and
 *  external_tokens only if their transfer runs on that stream, too. The library does not see these steps, so
 *  all else that reads blocks must run after them: kvc_offload_poll and kvc_offload_flush (when they are
 *  over; on their stream only if none can fail), checkpoints, kvc_manager_rebuild, pages and external holders
 *  (when they are over), all copies that the manager asks for (on that stream), and readers of the events. If
 *  a step fails, call kvc_manager_unpublish_blocks at once for what it and all steps behind it should have
 *  written; then preempt or free the requests that hold such a block, or a copy of one.
 *  @param[in] num_committed Absolute count.
 *  @param[in] num_computed  Absolute count of the tokens whose steps are over, at most num_committed; if
 *  equal, the call is kvc_manager_commit_tokens.
 *  @return As kvc_manager_commit_tokens, and INVALID_ARGUMENT if more tokens are computed than committed.
 *  UNSUPPORTED with KVC_MANAGER_FILLS and fewer computed than committed tokens: there
 *  KVC_REQUEST_PUBLISH_ENQUEUED publishes what a step writes, and kvc_manager_fail_step takes it back. Since
 *  0.3. */
KVC_API kvc_status kvc_manager_commit_ahead(kvc_manager* m, uint64_t request, uint64_t num_committed,
                                            uint64_t num_computed);

/** Keeps the first num_tokens tokens (absolute) and returns the rest. Blocks that this request published
 *  past them are unpublished, unless others can reach them: a longer prefix is known, or a block of the
 *  position, in any group, has another holder or a copy. The same rule applies to the published block that
 *  is cut. If it stays published, it is copied before the next write.
 *  With a state group, 0 and lengths from the committed one on are possible; a length whose token has no
 *  state block leaves slots for the committed tokens alone, fewer than asked: see kvc_request_info.capacity.
 *  If a kernel has run past the committed tokens, restore their state before the next step. To go back to a
 *  checkpoint, preempt the request, truncate it and admit it again.
 *  Extra keys that begin behind the kept tokens are dropped. If a kept one goes on behind them, what comes
 *  there later is never taken for what that key stands for. Do not cut inside a span whose tokens see later
 *  ones (images in Gemma 3): the kept ones were computed with what is gone.
 *  @return KVC_OK; INVALID_ARGUMENT (more than known), NOT_FOUND; UNSUPPORTED if a window or a state needed
 *  at that length is gone (the text has the next lower and higher possible lengths; 0 is always possible);
 *  OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_manager_truncate_request(kvc_manager* m, uint64_t request, uint64_t num_tokens);

/** Creates a request with the committed tokens of another; they share all blocks (beam search, parallel
 *  sampling). The first to write to a shared partial block gets a copy. @param[out] child Its id. Its
 *  known, committed tokens and capacity are the parent's committed tokens, and it has the extra keys that
 *  begin before them: add those of tokens that it gets. State groups: the child gets a
 *  copy of the present state at once (kvc_manager_take_pending), unless it is at the end of a block; no
 *  kernel may have run past the parent's committed tokens: commit first.
 *  @return KVC_OK; NOT_FOUND, BUSY (waiting; or its encoder's blocks, or its external_tokens
 *  beside a window group, are not committed: commit first), LIMIT, OUT_OF_MEMORY; with state groups NO_SPACE,
 *  AGAIN, OVER_QUOTA. Since 0.1. */
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

/** Counts the first blocks that the tables of requests have in common in one group, which cascade attention
 *  reads once for all: the entries, from the first one on, that name the same block in each table. Whether
 *  they are committed does not matter. An entry without a block (out of the window, or without a state) ends
 *  the prefix. Takes O(num_requests * (blocks + 1)) and no memory.
 *  @param[in]  requests   [num_requests] requests: those of a batch. A waiting one has no blocks.
 *  @param[out] num_common Blocks; of one request all up to the first gap, of none 0.
 *  @return KVC_OK; NOT_FOUND; INVALID_ARGUMENT (no such group). Since 0.3. */
KVC_API kvc_status kvc_manager_common_prefix(kvc_manager* m, const uint64_t* requests, size_t num_requests,
                                             uint32_t group, uint64_t* num_common);

/** Writes the slots of tokens [first_token, first_token + num_tokens) of a request in one group; -1 for
 *  tokens that left the window. In a cross group they are the encoder's tokens. In a state group
 *  slots have no meaning: use kvc_manager_export_tables.
 *  @param[out] slots        [num_tokens] integers of element_size bytes.
 *  @param[in]  element_size 4 (int32; INVALID_ARGUMENT if a slot does not fit) or 8 (int64).
 *  @return KVC_OK; NOT_FOUND; BUSY (tokens of a waiting request, which has no slots); INVALID_ARGUMENT
 *  (tokens past the capacity, or past those of the encoder). Since 0.1. */
KVC_API kvc_status kvc_manager_export_slots(kvc_manager* m, uint64_t request, uint32_t group,
                                            uint64_t first_token, uint64_t num_tokens, void* slots,
                                            size_t element_size);

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

/** Takes the pending work since the last take: the copies of single calls, and the blocks to clear of steps
 *  and single calls (KVC_MANAGER_ZERO_*). Take the copies of single calls before the next kvc_manager_step.
 *  Execute in this order: copies taken before the step; the step's copies; later single calls' copies; then
 *  clears, before anything else writes to these blocks. Sources of copies are held until they are taken.
 *  Destinations of copies are not cleared. A copy is dropped when its destination has no holder any more. No
 *  fence covers the copies of single calls. Execute them in stream order before the kernels of the next step,
 *  or before you retire the step in flight; else another request may get the source, or hit it, while it is
 *  read.
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

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_REQUEST_H */
