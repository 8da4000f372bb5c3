/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_SIZING_H
#define KVCACHE_SIZING_H

/** @file kvcache/sizing.h
 *  @brief How many blocks to have: the miss-ratio curve of a manager, the analysis of a workload, and the
 *  decision to grow or to shrink.
 *
 *  A curve says which hit rate x blocks would have. A workload follows one number over time: blocks in use,
 *  requests that wait, tokens. A sizer turns such numbers into decisions and logs them. All times are the
 *  caller's: nothing here reads a clock, and equal calls give equal results.
 *
 *      kvc_curve_config config = {.struct_size = sizeof config};
 *      kvc_manager_open_curve(m, KVC_ALL_NAMESPACES, &config);
 *      ... the engine works ...
 *      uint64_t sizes[3] = {1000, 10000, 100000};
 *      double hit_rates[3];
 *      kvc_manager_read_curve(m, KVC_ALL_NAMESPACES, sizes, 3, hit_rates);
 *
 *  THREADING. Curves: as all calls of a manager. Workloads and sizers lock internally: any thread may call
 *  any function at any time, except during the destroy call. */

#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvc_workload kvc_workload; /**< Follows one number over time. */
typedef struct kvc_sizer kvc_sizer;       /**< Decides on a number of blocks. */

/* ---------------------------------------------------------------- miss-ratio curve */

/** Most curves that a manager has open at a time. */
#define KVC_MAX_CURVES 64

/** A curve (kvc_manager_open_curve). All zeros: sizes up to 8 times the blocks of the manager, and so many
 *  samples that their memory stays below 1 MiB. */
typedef struct kvc_curve_config {
  size_t struct_size; /**< sizeof(kvc_curve_config) */
  /** Share of the blocks to follow: above 0, at most 1. 1 is exact. 0 = what max_samples allows. */
  double sample_rate;
  /** Most samples, 1 .. 2^24: the rate is at most max_samples / max_blocks. 0 = 16,000; without a limit if
   *  sample_rate is set. */
  uint64_t max_samples;
  /** Largest size to ask for, 1 .. 2^32 - 1 blocks. 0 = 8 * kvc_manager_config.num_blocks. */
  uint64_t max_blocks;
  /** After so many block queries earlier ones count half, so that the curve follows the workload. 0 = all
   *  count alike. */
  uint64_t half_life;
} kvc_curve_config;

/** What a curve has seen (kvc_manager_curve_info). */
typedef struct kvc_curve_info {
  size_t struct_size;   /**< sizeof(kvc_curve_info) */
  double sample_rate;   /**< Share of the blocks that it follows. */
  uint64_t max_samples; /**< Samples that max_blocks blocks have. */
  uint64_t max_blocks;  /**< Largest size to ask for. */
  uint64_t half_life;   /**< Block queries; 0 = none. */
  double queries;       /**< Block queries, earlier ones as half_life says. */
  double sampled;       /**< Sampled queries, without those that requests do not allow. */
  uint64_t num_samples; /**< Blocks that it follows now. */
  uint64_t bytes;       /**< Its memory, from the manager's allocator. */
} kvc_curve_info;

/** Starts a miss-ratio curve of a namespace: the share of block queries (kvc_stats.block_queries) that x
 *  blocks under LRU would answer, for all x at once. It costs nothing until it is opened. Then an admission
 *  compares each key of its prompt with a limit, and looks up the share sample_rate of them in O(log
 *  max_samples). All memory is taken here.
 *
 *  Method: SHARDS (Waldspurger et al., "Efficient MRC Construction with SHARDS", USENIX FAST 2015). Two
 *  corrections use what the manager knows exactly: distances are counted apart for queries that it answered
 *  and for others. The first get their missing weight at distance 0 (SHARDS-adj), the others are scaled to
 *  their number. The number of samples bounds the error, not their share: 16,000
 *  keep it below 0.01. Of blocks of 16 tokens that may be 1 %; of blocks of 512, of which a trace has some
 *  10^5, it is a sample_rate of 0.2, and 1 % leaves an error of up to 0.05 (docs/BENCHMARKS.md).
 *
 *  What counts: the first admission of each request, with all its full prompt blocks, and the blocks that it
 *  publishes later. Not counted: admissions again after a preemption or with KVC_REQUEST_RESUMED, forks,
 *  blocks of external holds. Queries that a request does not allow (KVC_REQUEST_NO_READ, max_cached_tokens)
 *  miss at every size. Positions are those of full attention: windows and extra keys that shorten a hit do
 *  not shorten it here. Calls that evict, drop, pin or demote change nothing: the curve tells what LRU would
 *  do. A reset of the namespace empties its stack and keeps the counts. The unfinished last block of a
 *  running request is not in the curve; add one block per running request.
 *
 *  The samples depend on the keys, and so on kvc_manager_config.seed: with a seed other than 0, equal calls
 *  give equal curves in every process. At sample_rate 1 they always do.
 *  @param[in] namespace_id A namespace, as if it had the cache alone; 0 = the default one;
 *  KVC_ALL_NAMESPACES = all of them in one cache. Closing a namespace closes its curve.
 *  @param[in] config Its settings.
 *  @return KVC_OK; NOT_FOUND (namespace); BUSY (it has a curve); LIMIT (KVC_MAX_CURVES); INVALID_ARGUMENT
 *  (rate outside 0 .. 1 or not a number, sizes out of range); UNSUPPORTED (KVC_MANAGER_NO_PREFIX_CACHE);
 *  OUT_OF_MEMORY. Since 0.3. */
KVC_API kvc_status kvc_manager_open_curve(kvc_manager* m, uint64_t namespace_id,
                                          const kvc_curve_config* config);

/** Ends a curve and frees its memory. @return KVC_OK; NOT_FOUND (namespace, or it has no curve). Since 0.3.
 */
KVC_API kvc_status kvc_manager_close_curve(kvc_manager* m, uint64_t namespace_id);

/** Reads a curve, in O(num_sizes) and a constant of some microseconds.
 *  @param[in]  num_blocks [num_sizes] Sizes in blocks, ascending, at most kvc_curve_info.max_blocks.
 *  @param[out] hit_rates  [num_sizes] Share of the block queries, 0 .. 1, that a cache of num_blocks[i]
 *  blocks answers; 0 before the first query. It never falls with the size. Sizes above 512 are exact within
 *  1/256 of the size.
 *  @return KVC_OK; NOT_FOUND (namespace, or it has no curve); INVALID_ARGUMENT (not ascending, above
 *  max_blocks). Since 0.3. */
KVC_API kvc_status kvc_manager_read_curve(kvc_manager* m, uint64_t namespace_id, const uint64_t* num_blocks,
                                          size_t num_sizes, double* hit_rates);

/** What a curve has seen. @return KVC_OK; NOT_FOUND (namespace, or it has no curve). Since 0.3. */
KVC_API kvc_status kvc_manager_curve_info(kvc_manager* m, uint64_t namespace_id, kvc_curve_info* info);

/* ---------------------------------------------------------------- workload */

/** Largest kvc_workload_config.window and kvc_sizer_config.log_capacity. */
#define KVC_MAX_OBSERVATIONS 65536

/** A workload (kvc_workload_create). */
typedef struct kvc_workload_config {
  size_t struct_size;             /**< sizeof(kvc_workload_config) */
  uint64_t half_life_ns;          /**< Age at which an observation counts half. 0 = 60 s. */
  uint32_t window;                /**< Last observations for mean and variance, 2 .. 65536. 0 = 64. */
  uint32_t reserved;              /**< 0. */
  const kvc_allocator* allocator; /**< For its memory. NULL = malloc. Copied. */
} kvc_workload_config;

/** What a workload shows (kvc_workload_read_info). All 0 before the first observation. */
typedef struct kvc_workload_info {
  size_t struct_size;        /**< sizeof(kvc_workload_info) */
  uint64_t num_observations; /**< So far. */
  uint64_t last_ns;          /**< Time of the last one. */
  double last;               /**< Its value. */
  /** Exponentially weighted moving average. An observation dt after the last one has the weight
   *  a = 1 - 2^(-dt / half_life_ns). */
  double average;
  /** Level and trend of Holt's double exponential smoothing with the same a, which makes it aware of time:
   *  level = a * value + (1 - a) * (level + trend * dt); trend = a * (level - earlier level) / dt +
   *  (1 - a) * trend. The second observation sets both. */
  double level;
  double trend; /**< Per second. */
  /** Over the last `window` observations: mean, variance (divided by their number), largest value. */
  double mean;
  double variance; /**< See mean. */
  double peak;     /**< See mean. */
  double rate;     /**< Observations per second in the window; 0 with one. */
  /** (s - mean) / (s + mean) with s the standard deviation (Goh and Barabasi, 2008), for values of 0 and
   *  more: -1 = constant, 0 = s equals the mean, towards 1 = bursts. 0 if all are 0. */
  double burstiness;
  double dispersion; /**< variance / mean; 0 if the mean is 0. */
} kvc_workload_info;

/** Makes a workload. Destroy it with kvc_workload_destroy.
 *  @return KVC_OK; INVALID_ARGUMENT (window); OUT_OF_MEMORY. Since 0.3. */
KVC_API kvc_status kvc_workload_create(const kvc_workload_config* config, kvc_workload** workload);

/** Frees a workload. NULL does nothing. Since 0.3. */
KVC_API void kvc_workload_destroy(kvc_workload* workload);

/** Adds an observation, in O(1). @param[in] now_ns Its time, later than that of the last one.
 *  @param[in] value Finite; its size is at most 1e15.
 *  @return KVC_OK; INVALID_ARGUMENT. Since 0.3. */
KVC_API kvc_status kvc_workload_record(kvc_workload* workload, uint64_t now_ns, double value);

/** Reads the figures, in O(window). @return KVC_OK. Since 0.3. */
KVC_API kvc_status kvc_workload_read_info(kvc_workload* workload, kvc_workload_info* info);

/** Forecasts the value horizon_ns after the last observation: level + trend * horizon. It may be negative.
 *  @param[out] value The forecast; 0 before the first observation. @return KVC_OK. Since 0.3. */
KVC_API kvc_status kvc_workload_predict(kvc_workload* workload, uint64_t horizon_ns, double* value);

/* ---------------------------------------------------------------- decisions */

/** kvc_sizer_config.mode: which number a decision stands on. */
enum {
  KVC_SIZING_REACTIVE = 0,   /**< The last need. */
  KVC_SIZING_PREDICTIVE = 1, /**< The forecast at lead_time_ns. */
  /** The larger of both if the need is bursty; else the forecast if the trend is significant; else the
   *  level. Bursty: standard deviation / mean of the window is above burst_threshold. Significant: the
   *  forecast differs from the level by more than hysteresis * level. */
  KVC_SIZING_HYBRID = 2
};

/** kvc_sizing_decision.action. */
enum {
  KVC_SIZING_KEEP = 0,  /**< It stays. */
  KVC_SIZING_GROW = 1,  /**< It becomes larger. */
  KVC_SIZING_SHRINK = 2 /**< It becomes smaller. */
};

/** kvc_sizing_decision.basis: the number that was taken. */
enum {
  KVC_SIZING_BY_LAST = 0,     /**< The last need. */
  KVC_SIZING_BY_FORECAST = 1, /**< The forecast at lead_time_ns. */
  KVC_SIZING_BY_LEVEL = 2     /**< kvc_workload_info.level. */
};

/** kvc_sizing_decision.reason. */
enum {
  KVC_SIZING_NEED = 0,       /**< The size follows the need. */
  KVC_SIZING_HYSTERESIS = 1, /**< Kept: the change is too small. */
  KVC_SIZING_COOLDOWN = 2,   /**< Kept: the last change is too recent for a smaller size. */
  KVC_SIZING_LIMIT = 3       /**< min_blocks or max_blocks decided. */
};

/** A sizer (kvc_sizer_create). */
typedef struct kvc_sizer_config {
  size_t struct_size;             /**< sizeof(kvc_sizer_config) */
  uint64_t min_blocks;            /**< Smallest size, at least 1. 0 = 1. */
  uint64_t max_blocks;            /**< Largest size, at most 2^32 - 1. 0 = that. */
  uint64_t num_blocks;            /**< Size at the start. 0 = min_blocks. */
  uint64_t lead_time_ns;          /**< How far ahead to look: the time that a change takes. 0 = 60 s. */
  uint64_t cooldown_ns;           /**< A smaller size waits so long after the last change. 0 = no wait. */
  uint64_t half_life_ns;          /**< As kvc_workload_config. */
  double headroom;                /**< Share to have above the need, 0 .. 10. */
  double hysteresis;              /**< Changes up to this share of the size are not made, 0 .. 1. */
  double burst_threshold;         /**< See KVC_SIZING_HYBRID, up to 100. 0 = 0.5. */
  uint32_t mode;                  /**< KVC_SIZING_REACTIVE, ... */
  uint32_t window;                /**< As kvc_workload_config. */
  uint32_t log_capacity;          /**< Decisions to remember, up to 65536. 0 = 256. */
  uint32_t reserved;              /**< 0. */
  const kvc_allocator* allocator; /**< For its memory. NULL = malloc. Copied. */
} kvc_sizer_config;

/** One decision, with all numbers that it stands on. */
typedef struct kvc_sizing_decision {
  size_t struct_size;   /**< sizeof(kvc_sizing_decision) */
  uint64_t number;      /**< 0 for the first of the sizer. */
  uint64_t now_ns;      /**< Its time. */
  uint64_t from_blocks; /**< Size before. */
  uint64_t to_blocks;   /**< Size from now on. */
  uint32_t action;      /**< KVC_SIZING_KEEP, GROW or SHRINK. */
  uint32_t reason;      /**< KVC_SIZING_NEED, ... */
  uint32_t basis;       /**< KVC_SIZING_BY_LAST, ... */
  uint32_t mode;        /**< KVC_SIZING_REACTIVE, ... */
  double needed;        /**< The need that was given. */
  double level;         /**< As kvc_workload_info. */
  double trend;         /**< As kvc_workload_info, blocks per second. */
  double forecast;      /**< At lead_time_ns. */
  double variation;     /**< Standard deviation / mean of the window; 0 if the mean is 0. */
  double wanted;        /**< The number of the basis with its headroom, before limits. */
} kvc_sizing_decision;

/** Makes a sizer. Destroy it with kvc_sizer_destroy.
 *  @return KVC_OK; INVALID_ARGUMENT; UNSUPPORTED (mode); OUT_OF_MEMORY. Since 0.3. */
KVC_API kvc_status kvc_sizer_create(const kvc_sizer_config* config, kvc_sizer** sizer);

/** Frees a sizer. NULL does nothing. Since 0.3. */
KVC_API void kvc_sizer_destroy(kvc_sizer* sizer);

/** Decides on the size for an interval that has ended, logs the decision, and takes its size as the present
 *  one. The rule: wanted = number of the mode * (1 + headroom), rounded up, inside the limits. A change of
 *  at most hysteresis * size is not made; a smaller size waits for the cooldown; a larger one never waits.
 *  @param[in] now_ns End of the interval, later than the last one.
 *  @param[in] needed_blocks Blocks that the interval needed: those in use and those that refused or waiting
 *  requests lack, or the size at which the curve reaches a hit rate. 0 .. 1e15.
 *  @param[out] decision The decision; may be NULL.
 *  @return KVC_OK; INVALID_ARGUMENT. Since 0.3. */
KVC_API kvc_status kvc_sizer_decide(kvc_sizer* sizer, uint64_t now_ns, double needed_blocks,
                                    kvc_sizing_decision* decision);

/** Reads a decision of the log, which keeps the last log_capacity of them.
 *  @param[in] number Its number. @return KVC_OK; NOT_FOUND (not made yet, or no longer in the log; the text
 *  has the numbers that are). Since 0.3. */
KVC_API kvc_status kvc_sizer_read_log(kvc_sizer* sizer, uint64_t number, kvc_sizing_decision* decision);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_SIZING_H */
