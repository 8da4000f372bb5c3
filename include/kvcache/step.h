/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_STEP_H
#define KVCACHE_STEP_H

/** @file kvcache/step.h
 *  @brief One engine step as one call: commits, frees, extensions and admissions of many requests.
 *
 *  <kvcache.h> states the terms, the conventions of all calls and the threading; it includes this header. */

#include <kvcache/request.h>
#include <kvcache/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_step.flags. */
enum {
  KVC_STEP_WHOLE_ROWS = 1, /**< Rewrite every table row of this step: its memory moved or was lost. */
  /** Continue to admit after an admission that had no space. One that is NEVER_FITS stops nothing anyway. */
  KVC_STEP_ADMIT_PAST_REFUSAL = 2,
  /** Admit all admissions of the step, or none. Its other items run as without this flag. All hits are found
   *  and held before any admission takes a block: none evicts another's hit, and a shared hit counts once. If
   *  all fit, each status is OK. Else none is admitted: each that failed has its own status, and the rest are
   *  SKIPPED: they fit, or were not tried (the flag before this one tries all). Hits are full blocks, and
   *  no admission shares, or waits for, what another one fills. The manager is locked meanwhile. `admitted`
   *  and `admit_requests` must be two arrays. Since 0.3. */
  KVC_STEP_ADMIT_ALL_OR_NONE = 4
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
 *  extend (of `requests`), admit. Arrays that a step writes must not overlap those that it reads. */
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
  /** Ids of the extended tokens: they become known, and the capacity grows up to known + lookahead. NULL =
   *  slots only: the capacity grows by the count. NULL is for all items of a step. To mix prompt chunks and
   *  decode steps, pass NULL and bring the decode ids in commit_tokens. */
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
  /** Out [num_frees + num_preempts + num_truncates + num_requests + num_admissions], in that order. Each is
   *  the status of the single call; or SKIPPED; or BUFFER_TOO_SMALL for a table longer than row_stride. If
   *  the commit of a request fails, neither commit nor extension is done. If its extension fails, its commit
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
   *  for its tokens from `cached` on, follow from its row of block_tables: row[t / block_size] * block_size +
   *  t % block_size; kvc_manager_export_slots writes them too. May be NULL. */
  int64_t* slots;
  /** Out: copies to execute before the step's kernels. An extension needs one if its last block is shared (by
   *  a fork), pinned, held externally or published (after a truncation). An admission with partial reuse
   *  needs one if its hit ends inside a block. May be NULL if none can be. */
  kvc_block_copy* copies;
  /** Out: entries below num_blocks written to block_tables in this step. May be NULL. */
  kvc_table_change* changes;
  size_t num_slots;   /**< Out: extend_offsets[num_requests]. */
  size_t num_copies;  /**< Out. */
  size_t num_changes; /**< Out. */
  /** Out: admissions with NO_SPACE, AGAIN, OVER_QUOTA, NEVER_FITS, FILLING, SKIPPED or BUFFER_TOO_SMALL. */
  size_t num_refused;
  /** Out: blocks missing for the first admission with NO_SPACE, AGAIN or OVER_QUOTA. */
  uint64_t shortage_blocks;
  void* internal; /**< Set by kvc_step_create; NULL in a step of your own. */
  /** Time of the engine's monotonic clock (kvc_manager_set_time), which passes before all phases; 0 =
   *  unchanged. An earlier time than before is INVALID_ARGUMENT for the call. Since 0.3. */
  uint64_t now_ns;
  /** [num_admissions] Tokens after the hit that get slots: the chunk that the step has room for. Replaces
   *  kvc_request_config.slots of the request if it is admitted. 0 = as the request has it; NULL = all 0.
   *  Since 0.3. */
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
 *  counts of the step are unset again, those of refused items too, and admit_namespaces and admit_slots are 0
 *  again. Set them again to retry an item. A call that fails consumes nothing. Entries beyond the counts, and
 *  arrays of your own, never change. All other inputs begin with 0 and keep their values. 0 means: no
 *  request, no extension, no ids, the default namespace, no commit. In admit_requests it creates a request
 *  from admit_tokens. block_tables begin with -1.
 *  @return KVC_OK; INVALID_ARGUMENT (sizes that overflow), OUT_OF_MEMORY. Since 0.1. */
KVC_API kvc_status kvc_step_create(kvc_manager* m, const kvc_step_limits* limits, kvc_step** step);

/** Frees a step of kvc_step_create. NULL is ignored. Since 0.1. */
KVC_API void kvc_step_destroy(kvc_step* step);

/** Describes an array of a step of kvc_step_create. @param[in] array KVC_STEP_*. @param[out] view Data,
 *  type, shape, strides.
 *  @return KVC_OK; INVALID_ARGUMENT (no such array, or not a step of kvc_step_create). Since 0.1. */
KVC_API kvc_status kvc_step_view(const kvc_step* step, int32_t array, kvc_view* view);

/** Executes one engine step: see kvc_step. The call as a whole fails only in validation, before any change.
 *  After that every item has its own status and is all or nothing. Later phases of the step can use what
 *  earlier ones released, unless steps are in flight. Then a released block is FENCED until the newest step
 *  issued before its release is retired. Sources of copies are held until this step is retired. In one step
 *  no block is both source and destination, or both source and newly taken. A synchronous engine passes the
 *  previous step_id in retired_step; then nothing is fenced. If items fail, kvc_last_error() has the text of
 *  the first that failed, in the order of the phases, with its array and index, such as "frees[2]: ..."
 *  ("admissions[i]" for admissions).
 *  @return KVC_OK (look at status[]); INVALID_ARGUMENT (pointers, offsets, rows, a row of two items,
 *  counts past the arrays of a step of kvc_step_create, a step of another manager, retired_step in the
 *  future); OUT_OF_MEMORY (row numbers above max_requests); BUFFER_TOO_SMALL (slot_capacity, copy_capacity
 *  or change_capacity; num_slots, num_copies or num_changes is what is needed). Since 0.1. */
KVC_API kvc_status kvc_manager_step(kvc_manager* m, kvc_step* step);

/** States that the kernels of all steps up to step_id have finished. Blocks fenced for these steps become
 *  available. Must not be called for a step before kvc_manager_step has returned it; this is not checked.
 *  @return KVC_OK; INVALID_ARGUMENT (a step not issued). Since 0.1. */
KVC_API kvc_status kvc_manager_retire_step(kvc_manager* m, uint64_t step_id);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_STEP_H */
