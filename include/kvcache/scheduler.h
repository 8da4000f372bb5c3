/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_SCHEDULER_H
#define KVCACHE_SCHEDULER_H

/** @file kvcache/scheduler.h
 *  @brief The scheduler: which requests an engine's next step computes, and how many tokens of each.
 *
 *  A scheduler owns the requests of one manager. It batches them continuously: each plan is one step of the
 *  engine, and a request joins or leaves between any two. The manual is docs/SCHEDULER.md.
 *
 *      kvc_scheduler_add(s, &job, &request);              // at any time
 *      // in the engine's loop:
 *      kvc_scheduler_plan(s, now, &plan);
 *      ... copy plan.copies, run the model on the tokens of plan.requests, sample ...
 *      kvc_scheduler_finish(s, &result);                  // the sampled tokens
 *
 *  A PLAN gives each item a request, the position of its first token, and a number of tokens. Decodes come
 *  first: one token each and its drafts. Then prompts get chunks within max_tokens: those that have begun,
 *  then waiting requests, which are admitted in the order of the policy. Every token of a prompt that is not
 *  cached is planned once. An item that ends at the last known token samples: its result brings the next
 *  token.
 *
 *  The plan carries out one or more steps of the manager (kvc_manager_step): commits of what has finished,
 *  frees, extensions, preemptions, admissions. While a scheduler has requests, no other steps may be made,
 *  and its requests must not be changed by calls of the manager that it does not name here. Reads are
 *  allowed.
 *
 *  ASYNCHRONOUS SCHEDULING. With max_plans 2, plan n + 1 is made before the tokens of plan n are known: a
 *  decode then computes a token whose id the engine's device already has. Plans finish in their order. A
 *  request whose item in flight has drafts waits for that plan's end.
 *
 *  PREEMPTION. If a running request lacks a block, the requests that the policy serves last give theirs back,
 *  wait, and are computed again from what is still cached. With an offload (kvcache/offload.h) their blocks
 *  are stored first, and every waiting request is looked up in the tiers before it is admitted: they are
 *  swapped out and in.
 *
 *  No request starves: one that has waited for max_wait_ns comes before all others, in the order of arrival,
 *  nobody passes it, and it is preempted last.
 *
 *  Time is yours: now_ns, in ns, of a monotonic clock; 0 = unchanged. The same calls give the same plans.
 *  Calls on one scheduler may come from any thread. It locks itself, then its manager.
 *
 *  <kvcache.h> states the conventions of all calls. */

#include <kvcache/request.h>
#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** kvc_scheduler_config.policy: the order of waiting requests. Equal ones are ordered by arrival. */
enum {
  KVC_SCHEDULE_FCFS = 0,     /**< By arrival. */
  KVC_SCHEDULE_PRIORITY = 1, /**< By priority, the lowest number first. */
  /** The shortest first: by tokens of the prompt and expected new tokens. */
  KVC_SCHEDULE_SHORTEST = 2,
  /** Fair shares of tenants: deficit round robin. A tenant in its turn gets weight * max_tokens tokens of
   *  credit, and pays for each token that is planned for it; its requests are admitted while it has credit.
   *  Within a tenant by arrival. */
  KVC_SCHEDULE_FAIR = 3,
  /** FCFS; SHORTEST from when the waiting prompts have more than adaptive_plans * max_tokens tokens until
   *  they have less than a quarter of that. kvc_scheduler_stats tells which, and how often it changed. */
  KVC_SCHEDULE_ADAPTIVE = 4
};

/** kvc_scheduler_config.admission: what must fit, besides the first chunk, when a request is admitted. */
enum {
  KVC_ADMIT_CHUNK = 0,  /**< Nothing more. The most requests run, and most are preempted. */
  KVC_ADMIT_PROMPT = 1, /**< All its known tokens. */
  /** The predicted peak: the most blocks that the running requests and it will hold at one time, if each gets
   *  its expected new tokens. Blocks that requests share count for each of them. */
  KVC_ADMIT_PEAK = 2,
  /** The worst peak: the same, if each gets max_new_tokens. Nothing is preempted then. */
  KVC_ADMIT_WORST = 3
};

/** kvc_scheduler_config.flags. */
enum {
  /** Of the first 128 waiting requests in the policy's order, those with the longest cached prefix come
   *  first; with PRIORITY among equal priorities, with FAIR among those of the tenant whose turn it is. */
  KVC_SCHEDULER_CACHE_AWARE = 1,
  /** The first 128 waiting requests in the policy's order come in the order of a depth-first walk of the tree
   *  of their cached prefixes: of branches that part, the one with the most of these requests first, then the
   *  one whose first request is earlier in the policy's order; a request after those whose cached prefix goes
   *  on from its own. With PRIORITY among equal priorities, with FAIR among those of the tenant whose turn it
   *  is. Not together with CACHE_AWARE. Since 0.3. */
  KVC_SCHEDULER_DEPTH_FIRST = 2
};

/** Shape and limits of a scheduler. Zero is the default of every field but manager. */
typedef struct kvc_scheduler_config {
  size_t struct_size;   /**< sizeof(kvc_scheduler_config) */
  kvc_manager* manager; /**< Whose requests. It must outlive the scheduler, and has no other scheduler. */
  /** Looks waiting requests up in tiers, and stores those that are preempted; NULL = none. It has the same
   *  manager and must outlive the scheduler. The engine polls it, and not while it plans. */
  kvc_offload* offload;
  uint32_t policy;       /**< KVC_SCHEDULE_* */
  uint32_t admission;    /**< KVC_ADMIT_* */
  uint32_t flags;        /**< KVC_SCHEDULER_* */
  uint32_t max_running;  /**< Admitted requests, and rows of block_tables; 0 = 256, at most 65,536. */
  uint32_t max_tokens;   /**< Tokens of a plan, at least max_running; 0 = 2048, at most 2^24. */
  uint32_t max_chunk;    /**< Tokens of one prompt in a plan; 0 = max_tokens. */
  uint32_t max_drafts;   /**< Draft tokens of a request in a plan; at most 1,024. */
  uint32_t max_plans;    /**< Plans in flight: 0 = 1, at most 8. */
  uint32_t max_adapters; /**< Different adapters of admitted requests; 0 = any number, at most 4,096. */
  uint32_t max_tenants;  /**< Tenants are numbered from 0; 0 = 1, at most 65,536. */
  /** Tokens of encoder inputs that a plan may encode; 0 = any number. The inputs that the first token of a
   *  chunk needs are encoded together even if they are more, and no others in that plan before them. */
  uint64_t max_encoder_tokens;
  /** Tokens of one request with all that it generates: gives the row length of block_tables; 0 = that of the
   *  manager's max_request_tokens, or of its pool if that has fewer. */
  uint64_t max_request_tokens;
  /** How long a request may be passed by others; 0 = 10 s, UINT64_MAX = for ever. */
  uint64_t max_wait_ns;
  /** Pressure is high from when this share of the blocks is neither free nor cached until the share is
   *  low_watermark. Nothing is admitted meanwhile, while a request runs; 0 = never. Both 0 to 1. */
  double high_watermark, low_watermark;
  uint32_t adaptive_plans; /**< ADAPTIVE; 0 = 8. */
  uint32_t reserved;       /**< 0 */
  /** Told at the end of a plan when pressure has become high (1) or low (0), with the share of the blocks. It
   *  must not call the scheduler. NULL = none. */
  void (*on_pressure)(void* user_data, int32_t high, double usage);
  void* user_data;                /**< Passed to on_pressure. */
  const kvc_allocator* allocator; /**< NULL = aligned heap memory. */
} kvc_scheduler_config;

/** An input of a request that an encoder turns into embeddings, such as an image: it must be encoded in or
 *  before the step that computes its first token. Frozen. */
typedef struct kvc_encoder_input {
  uint64_t first_token; /**< Position of its first token in the prompt. */
  uint64_t num_tokens;  /**< At least 1. What counts for max_encoder_tokens. */
} kvc_encoder_input;

/** kvc_schedule_job.flags. */
enum {
  /** It waits for something that the engine prepares, such as a grammar: kvc_scheduler_set_ready. */
  KVC_JOB_NOT_READY = 1
};

/** A request to schedule. */
typedef struct kvc_schedule_job {
  size_t struct_size;       /**< sizeof(kvc_schedule_job) */
  const kvc_prompt* prompt; /**< At least one token. The scheduler's manager keeps a copy. */
  /** Options; NULL = defaults. Plans say what a request gets: slots, lookahead, headroom and external_tokens
   *  must be 0, and the flags PUBLISH_ENQUEUED and SHARE_FILLING unset. wait_until_ns needs the time. */
  const kvc_request_config* config;
  uint64_t max_new_tokens; /**< It ends when it has got so many; at least 1. */
  /** The engine's prediction of the length of the answer. 0 = the library predicts it when the request is
   *  added: with KVC_MANAGER_HEADROOM as the 75th percentile of ended requests (kvc_manager_expected_tokens);
   *  without, or as long as there are none, as the exponentially weighted mean of its tenant's requests. */
  uint64_t expected_new_tokens;
  int32_t priority; /**< PRIORITY: a lower number is served first. */
  uint32_t tenant;  /**< FAIR: below max_tenants. */
  uint64_t adapter; /**< Number of its adapter (LoRA) for max_adapters; 0 = none. */
  /** [num_inputs] in any order; copied. They may overlap, but at most KVC_MAX_KEYS_OF_TOKEN cover a token. An
   *  input that is given twice is encoded twice. */
  const kvc_encoder_input* inputs;
  size_t num_inputs; /**< At most 65,536. */
  uint32_t flags;    /**< KVC_JOB_* */
  uint32_t reserved; /**< 0 */
  uint64_t now_ns;   /**< Its arrival; 0 = the latest time that the scheduler was told. */
} kvc_schedule_job;

/** kvc_ended_request.reason. */
enum {
  KVC_ENDED_STOPPED = 1, /**< kvc_plan_result.stopped. */
  KVC_ENDED_LENGTH = 2,  /**< It has max_new_tokens, or max_request_tokens of the scheduler. */
  /** It lacks blocks although no other request runs (or none of its namespace, whose quota refuses them): the
   *  pool or the quota is too small for it, or something else holds its blocks. At once, whoever runs, if it
   *  is KVC_ERROR_NEVER_FITS. */
  KVC_ENDED_NO_SPACE = 3
};

/** A request that the scheduler has ended. Frozen. */
typedef struct kvc_ended_request {
  uint64_t request;        /**< Its id, which names nothing any more. */
  uint32_t reason;         /**< KVC_ENDED_* */
  uint32_t num_new_tokens; /**< Tokens that it got after its prompt. */
} kvc_ended_request;

/** An encoder input to encode before the step. Frozen. */
typedef struct kvc_encoder_run {
  uint32_t item;  /**< Of the plan. */
  uint32_t input; /**< Index in kvc_schedule_job.inputs. */
} kvc_encoder_run;

/** One step of the engine. All arrays are the scheduler's: they are valid until kvc_scheduler_finish of this
 *  plan, block_tables until the next plan is made. Copy tables to the device before. */
typedef struct kvc_plan {
  size_t struct_size;       /**< sizeof(kvc_plan) */
  uint64_t plan_id;         /**< 1, 2, ... */
  uint64_t step_id;         /**< Newest step of the manager. */
  size_t num_items;         /**< May be 0: nothing can run now; plan again at once if num_ended is not 0.
                             *   Such a plan is finished already. */
  size_t num_tokens;        /**< token_offsets[num_items]. */
  const uint64_t* requests; /**< [num_items] */
  const int32_t* rows; /**< [num_items] Row of block_tables: the same from admission to preemption or end. */
  const uint64_t* first_tokens;  /**< [num_items] Position of its first token: so many are written. */
  const uint64_t* token_offsets; /**< [num_items + 1] Its tokens are first_tokens[i] + 0, 1, ... */
  const uint32_t* num_drafts;    /**< [num_items] How many of its tokens are drafts, the last ones. */
  const uint8_t* samples;        /**< [num_items] 1 = its result brings tokens. */
  /** [num_items] 1 = admitted by this plan: its row is new. */
  const uint8_t* is_new;
  /** [num_groups][num_rows][row_stride] Block ids; -1 where there is none. */
  const int32_t* block_tables;
  size_t num_groups; /**< Groups of the manager. */
  size_t num_rows;   /**< max_running. */
  size_t row_stride; /**< Entries of a row. */
  const int64_t*
      slots; /**< [num_groups][slot_stride] Where token token_offsets[i] + t of the plan is written. */
  size_t slot_stride;              /**< max_tokens. */
  const kvc_block_copy* copies;    /**< [num_copies] Before the step, in order: kvc_storage_copy_blocks. */
  size_t num_copies;               /**< Entries of copies. */
  const kvc_table_change* changes; /**< [num_changes] What became different in block_tables. */
  size_t num_changes;              /**< Entries of changes. */
  /** 1 = more became different than `changes` has room for: take the whole tables. Rows of is_new items are
   *  not in `changes`: take them whole. */
  uint32_t whole_tables;
  uint32_t reserved;                   /**< 0 */
  const uint64_t* preempted;           /**< [num_preempted] Requests that gave back their blocks and rows. */
  size_t num_preempted;                /**< Entries of preempted. */
  const kvc_encoder_run* encoder_runs; /**< [num_encoder_runs] */
  size_t num_encoder_runs;             /**< Entries of encoder_runs. */
  const kvc_ended_request* ended;      /**< [num_ended] Requests that ended because they cannot run. */
  size_t num_ended;                    /**< Entries of ended. */
} kvc_plan;

/** kvc_plan_result.flags. */
enum {
  /** Steps and copies of this plan and the later ones in flight are lost: their tokens are planned again. */
  KVC_RESULT_FAILED = 1
};

/** What came out of a plan. */
typedef struct kvc_plan_result {
  size_t struct_size; /**< sizeof(kvc_plan_result) */
  uint64_t plan_id;   /**< The oldest plan that is not finished. */
  size_t num_items;   /**< That of the plan. */
  /** [num_items + 1] into tokens. An item that samples brings 1 token, or with drafts the accepted ones and
   *  the next: 1 to num_drafts + 1. Others bring none. Tokens of requests that have ended since are ignored.
   *  NULL = each item that samples brings one token, in the order of the items; the plan must have no drafts.
   *  Not read with FAILED. */
  const uint64_t* token_offsets;
  const int32_t* tokens;    /**< Sampled tokens. */
  const uint8_t* stopped;   /**< [num_items] 1 = the request has ended with these tokens; NULL = none has. */
  uint32_t flags;           /**< KVC_RESULT_* */
  uint32_t reserved;        /**< 0 */
  kvc_ended_request* ended; /**< Out [num_items] Requests that have ended; NULL = not wanted. */
  size_t num_ended;         /**< Out. */
} kvc_plan_result;

/** kvc_scheduled_info.state. */
enum {
  KVC_SCHEDULED_NOT_READY = 1, /**< Waits for kvc_scheduler_set_ready. */
  KVC_SCHEDULED_WAITING = 2,   /**< Waits to be admitted. */
  KVC_SCHEDULED_LOADING = 3,   /**< Waits for the offload. */
  KVC_SCHEDULED_RUNNING = 4    /**< Admitted. */
};

/** kvc_scheduled_info.wait_reason: why the last plan has not admitted a request. */
enum {
  KVC_WAIT_NONE = 0,  /**< It does not wait. */
  KVC_WAIT_READY = 1, /**< For kvc_scheduler_set_ready. */
  KVC_WAIT_LOAD = 2,  /**< For the offload, or for room in it. */
  KVC_WAIT_PLANS = 3, /**< It was preempted, and plans in flight still compute it. */
  /** Others come first, the plan had no tokens or rows left, or no plan was made since it began to wait. */
  KVC_WAIT_TURN = 4,
  KVC_WAIT_SPACE = 5, /**< For blocks. */
  KVC_WAIT_PEAK = 6,  /**< For blocks that running requests are expected to need (KVC_ADMIT_PEAK, WORST). */
  KVC_WAIT_PRESSURE = 7, /**< For pressure to end: high_watermark was reached, low_watermark was not yet. */
  KVC_WAIT_QUOTA = 8,    /**< Its namespace is over its quota. */
  KVC_WAIT_ADAPTER = 9,  /**< max_adapters others run. */
  KVC_WAIT_ENCODER = 10, /**< The step had no room for its encoder inputs. */
  KVC_WAIT_FILLING = 11  /**< For a request that computes its prefix (wait_until_ns). */
};

/** State of a scheduled request. */
typedef struct kvc_scheduled_info {
  size_t struct_size;       /**< sizeof(kvc_scheduled_info) */
  uint32_t state;           /**< KVC_SCHEDULED_* */
  int32_t row;              /**< Of block_tables; -1 = none. */
  uint64_t num_tokens;      /**< Known tokens. */
  uint64_t num_prompt;      /**< Tokens of the prompt. */
  uint64_t num_planned;     /**< Tokens that are computed, cached, or in flight. */
  uint64_t num_cached;      /**< Tokens of the hit at the last admission. */
  uint64_t num_preemptions; /**< So far. */
  uint64_t arrival_ns;      /**< As told. */
  int32_t priority;         /**< As set. */
  uint32_t tenant;          /**< As set. */
  uint32_t wait_reason;     /**< KVC_WAIT_* */
  uint32_t reserved;        /**< 0 */
} kvc_scheduled_info;

/** Counters since creation, and gauges. */
typedef struct kvc_scheduler_stats {
  size_t struct_size;                         /**< sizeof(kvc_scheduler_stats) */
  uint64_t waiting, running, plans_in_flight; /**< Gauges. waiting: all that are not admitted. */
  uint64_t added, aborted, ended;             /**< Requests. */
  uint64_t plans;                             /**< Plans with items. */
  uint64_t prompt_tokens;                     /**< Planned tokens of prompts, and of recomputation. */
  uint64_t decode_tokens;                     /**< Planned tokens of decodes, without drafts. */
  uint64_t draft_tokens;                      /**< Planned drafts. */
  uint64_t accepted_drafts;                   /**< Of them accepted. */
  uint64_t admissions;                        /**< First ones. */
  uint64_t cached_tokens;                     /**< Tokens of their hits. */
  uint64_t preemptions;                       /**< Requests that gave their blocks back. */
  uint64_t recomputed_tokens; /**< Tokens that were computed once more after a preemption or a failed plan. */
  uint64_t refused_space, refused_peak, refused_adapter, refused_encoder, refused_quota,
      refused_filling;       /**< Attempts to admit a request that ended so. */
  uint64_t aged;             /**< Requests that reached max_wait_ns. */
  uint64_t policy_changes;   /**< ADAPTIVE. */
  uint64_t pressure_changes; /**< Times that pressure became high. */
  uint32_t policy;           /**< Gauge: the order in force. */
  uint32_t pressure;         /**< Gauge: 1 = high. */
} kvc_scheduler_stats;

/** Creates a scheduler. Takes all memory that plans need, but for encoder inputs.
 *  @param[out] scheduler Free it with kvc_scheduler_destroy, before its manager.
 *  @return KVC_OK; INVALID_ARGUMENT (a field out of range), BUSY (the manager has a scheduler),
 *  OUT_OF_MEMORY. Since 0.3. */
KVC_API kvc_status kvc_scheduler_create(const kvc_scheduler_config* config, kvc_scheduler** scheduler);

/** Frees a scheduler with all its requests; those of the manager are freed too. NULL is ignored. Since 0.3.
 */
KVC_API void kvc_scheduler_destroy(kvc_scheduler* s);

/** Adds a request. It is hashed before the scheduler locks itself.
 *  @param[out] request Its id, also for the manager's calls that read.
 *  @return KVC_OK; INVALID_ARGUMENT (no token; a field out of range; a time before the latest; more tokens
 *  than max_request_tokens less one, or than the pools can hold), NOT_FOUND (namespace), LIMIT (max_requests
 *  of the manager), UNSUPPORTED, OUT_OF_MEMORY. A failed call adds nothing. Since 0.3. */
KVC_API kvc_status kvc_scheduler_add(kvc_scheduler* s, const kvc_schedule_job* job, uint64_t* request);

/** Ends a request, also one of a plan in flight: its blocks are given back with the next plan, and become
 *  available when the plans in flight have finished.
 *  @return KVC_OK; NOT_FOUND (it has ended). Since 0.3. */
KVC_API kvc_status kvc_scheduler_abort(kvc_scheduler* s, uint64_t request);

/** Says that what a request of KVC_JOB_NOT_READY waits for is there. @return KVC_OK, also if it is ready;
 *  NOT_FOUND. Since 0.3. */
KVC_API kvc_status kvc_scheduler_set_ready(kvc_scheduler* s, uint64_t request);

/** Changes a priority. @return KVC_OK; NOT_FOUND. Since 0.3. */
KVC_API kvc_status kvc_scheduler_set_priority(kvc_scheduler* s, uint64_t request, int32_t priority);

/** Sets the weight of a tenant, 1 at first. @param[in] weight 2^-16 to 65,536. @return KVC_OK;
 *  INVALID_ARGUMENT. Since 0.3. */
KVC_API kvc_status kvc_scheduler_set_weight(kvc_scheduler* s, uint32_t tenant, double weight);

/** Says how many drafts the next plan may add to the decode of each request: for that plan alone. A plan may
 *  take fewer, the first ones.
 *  @param[in] requests [num_requests]. @param[in] num_drafts [num_requests] at most max_drafts.
 *  @return KVC_OK; NOT_FOUND, INVALID_ARGUMENT: nothing is set. Since 0.3. */
KVC_API kvc_status kvc_scheduler_set_drafts(kvc_scheduler* s, const uint64_t* requests,
                                            const uint32_t* num_drafts, size_t num_requests);

/** Makes the next plan. @param[in] now_ns Not before the latest time; 0 = unchanged. @param[out] plan The
 *  caller sets struct_size.
 *  @return KVC_OK; INVALID_ARGUMENT (the time), BUSY (max_plans are in flight: finish the oldest),
 *  OUT_OF_MEMORY. A failed call plans nothing. Since 0.3. */
KVC_API kvc_status kvc_scheduler_plan(kvc_scheduler* s, uint64_t now_ns, kvc_plan* plan);

/** Takes the result of the oldest plan in flight. All kernels of its step have finished, or are ordered
 *  before those of later plans.
 *  @return KVC_OK; INVALID_ARGUMENT (not the oldest plan; another number of items; tokens of an item that
 *  does not sample, or too few or too many; no token_offsets with drafts; a token out of range),
 *  OUT_OF_MEMORY: nothing is taken. Since 0.3. */
KVC_API kvc_status kvc_scheduler_finish(kvc_scheduler* s, kvc_plan_result* result);

/** State of a request. @param[out] info The caller sets struct_size. @return KVC_OK; NOT_FOUND. Since 0.3. */
KVC_API kvc_status kvc_scheduler_request_info(kvc_scheduler* s, uint64_t request, kvc_scheduled_info* info);

/** Counters and gauges. @param[out] stats The caller sets struct_size. @return KVC_OK, INVALID_ARGUMENT.
 *  Since 0.3. */
KVC_API kvc_status kvc_scheduler_read_stats(kvc_scheduler* s, kvc_scheduler_stats* stats);

/** Checks every invariant of the state, in O(requests). @return KVC_OK; CORRUPT (the text has the first
 *  broken invariant). Since 0.3. */
KVC_API kvc_status kvc_scheduler_check(kvc_scheduler* s);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_SCHEDULER_H */
