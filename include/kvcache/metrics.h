/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KVCACHE_METRICS_H
#define KVCACHE_METRICS_H

/** @file kvcache/metrics.h
 *  @brief Metrics: counters, gauges, latencies and memory of the library's objects, as OpenMetrics text and
 *  as structs. docs/METRICS.md lists all names.
 *
 *      const kvc_label labels[] = {{"model", "llama"}};
 *      kvc_metrics_source sources[2] = {
 *          {.struct_size = sizeof *sources, .manager = m, .labels = labels, .num_labels = 1},
 *          {.struct_size = sizeof *sources, .tier = t, .labels = labels, .num_labels = 1}};
 *      kvc_metrics_enable_latencies(sources, 2);          // once, after creation
 *      ...
 *      // for each scrape of /metrics, which the engine serves
 *      kvc_metrics_render(sources, 2, 0, text, sizeof text, &size);
 *
 *  Reading changes nothing: no state, no order of eviction, no counter.
 *
 *  <kvcache.h> states the conventions of all calls. */

#include <kvcache/types.h>

KVC_EXPERIMENTAL

#ifdef __cplusplus
extern "C" {
#endif

/** A label of metrics. Frozen. */
typedef struct kvc_label {
  const char* name;  /**< Letters, digits and '_', not with a digit or "__" first; none of docs/METRICS.md. */
  const char* value; /**< UTF-8; the text escapes what it must. */
} kvc_label;

/** An object whose metrics are wanted: exactly one pointer is set. Calls on the object may run meanwhile, but
 *  those on one offload must not overlap, and this is one. */
typedef struct kvc_metrics_source {
  size_t struct_size;       /**< sizeof(kvc_metrics_source) */
  kvc_manager* manager;     /**< A manager, */
  kvc_storage* storage;     /**< or a storage, */
  kvc_tier* tier;           /**< or a tier, */
  kvc_offload* offload;     /**< or an offload, */
  kvc_scheduler* scheduler; /**< or a scheduler. */
  const kvc_label* labels;  /**< [num_labels] Labels of all its metrics. */
  size_t num_labels;        /**< At most 64. */
} kvc_metrics_source;

/** Flags of kvc_metrics_render. */
enum {
  /** Adds the names of vLLM for what has the same meaning there (docs/METRICS.md), for its dashboards. */
  KVC_METRICS_VLLM_NAMES = 1
};

/** What a latency measures. The object that it belongs to is in brackets. */
enum {
  /** [manager] kvc_manager_allocate_request, kvc_manager_admit_request; a kvc_manager_admit_batch as one. */
  KVC_LATENCY_ADMIT = 1,
  KVC_LATENCY_STEP = 2,   /**< [manager] kvc_manager_step. */
  KVC_LATENCY_PLAN = 3,   /**< [scheduler] kvc_scheduler_plan, with the steps of its manager. */
  KVC_LATENCY_FINISH = 4, /**< [scheduler] kvc_scheduler_finish. */
  /** [storage] kvc_storage_store. With a stream: until the work is enqueued. */
  KVC_LATENCY_STORE = 5,
  KVC_LATENCY_GATHER = 6, /**< [storage] kvc_storage_gather, in the same way. */
  KVC_LATENCY_POLL = 7,   /**< [offload] kvc_offload_poll. */
  /** [offload] A load, from its first page until its blocks are cached, by the times of kvc_offload_poll. */
  KVC_LATENCY_LOAD = 8,
  KVC_LATENCY_TIER_EXISTS = 9, /**< [tier] A job of KVC_TIER_EXISTS, from kvc_tier_submit to its end. */
  KVC_LATENCY_TIER_GET = 10,   /**< [tier] In the same way. */
  KVC_LATENCY_TIER_PUT = 11,   /**< [tier] In the same way. */
  KVC_LATENCY_TIER_REMOVE = 12 /**< [tier] In the same way. */
};

/** A distribution of durations since kvc_metrics_enable_latencies. Percentiles are within 0.8 % of a recorded
 *  duration; durations above 73 minutes count as that. All are 0 if nothing was recorded. */
typedef struct kvc_latency {
  size_t struct_size;                       /**< sizeof(kvc_latency) */
  uint64_t count;                           /**< Recorded durations, of failed calls too. */
  uint64_t sum_ns;                          /**< Their sum, in ns. */
  uint64_t max_ns;                          /**< The longest, in ns. */
  uint64_t p50_ns, p90_ns, p99_ns, p999_ns; /**< 50, 90, 99 and 99.9 % are at most so long, in ns. */
} kvc_latency;

/** Memory by kind, in bytes: what objects have from their allocators now, and the most that they have had.
 *  The peaks of several objects are added. Memory that they have otherwise, such as stacks of threads and
 *  open files, is not counted. */
typedef struct kvc_memory_profile {
  size_t struct_size;                           /**< sizeof(kvc_memory_profile) */
  uint64_t metadata_bytes, metadata_peak_bytes; /**< Managers: blocks, positions, requests, logs. */
  uint64_t slab_bytes, slab_peak_bytes;         /**< Storages: blocks. External memory is the caller's. */
  /** Storages: residual keys, and scratch memory that kvc_storage_trim gives back. That of GPUs is not
   *  counted. */
  uint64_t workspace_bytes, workspace_peak_bytes;
  uint64_t tier_bytes, tier_peak_bytes;           /**< Tiers: queues, indexes, pages in memory. */
  uint64_t offload_bytes, offload_peak_bytes;     /**< Offloads: tables and staging pages. */
  uint64_t scheduler_bytes, scheduler_peak_bytes; /**< Schedulers: jobs, plans and tables. */
} kvc_memory_profile;

/** Writes the metrics of the sources as OpenMetrics 1.0 text (content type `application/openmetrics-text;
 *  version=1.0.0; charset=utf-8`). A family appears once, with the samples of all sources, and the text ends
 *  with "# EOF". Numbers may grow between two calls: give the buffer some room beyond the needed size.
 *  @param[in]  sources  [num_sources], at most 65,536. No two of one kind may have the same labels.
 *  @param[in]  flags    KVC_METRICS_*.
 *  @param[out] text     [capacity] The text, without a terminating 0. Unchanged on failure.
 *  @param[out] size     Bytes of the text.
 *  @return KVC_OK; BUFFER_TOO_SMALL (size is what is needed); INVALID_ARGUMENT (a source without an object or
 *  with several, a bad, doubled or reserved label, two sources with the same labels); UNSUPPORTED (a flag);
 *  OUT_OF_MEMORY. Thread-safe but for offloads. Source: openmetrics.io, specification 1.0. Since 0.3. */
KVC_API kvc_status kvc_metrics_render(const kvc_metrics_source* sources, size_t num_sources, uint32_t flags,
                                      char* text, size_t capacity, size_t* size);

/** Makes objects measure their calls by CLOCK_MONOTONIC until they are destroyed. Each latency takes 19 KiB
 *  from the object's allocator. No result of a call depends on it. Doing it twice changes nothing. Storages
 *  have no latencies of work in streams.
 *  @param[in] sources [num_sources] Labels are ignored. No other call on the objects may run: do it right
 *  after their creation.
 *  @return KVC_OK; INVALID_ARGUMENT; OUT_OF_MEMORY (nothing is enabled). Since 0.3. */
KVC_API kvc_status kvc_metrics_enable_latencies(const kvc_metrics_source* sources, size_t num_sources);

/** Reads one latency. @param[in] source The object; its labels are ignored. @param[in] latency
 *  KVC_LATENCY_*. @param[out] out The caller sets struct_size.
 *  @return KVC_OK; INVALID_ARGUMENT (no latency of this object), BUSY (not enabled). Thread-safe. Since
 *  0.3. */
KVC_API kvc_status kvc_metrics_read_latency(const kvc_metrics_source* source, uint32_t latency,
                                            kvc_latency* out);

/** Adds up the memory of objects, by kind. @param[in] sources [num_sources] Labels are ignored; an object
 *  that is given twice counts twice. @param[out] profile The caller sets struct_size.
 *  @return KVC_OK; INVALID_ARGUMENT. Thread-safe. Since 0.3. */
KVC_API kvc_status kvc_metrics_read_memory(const kvc_metrics_source* sources, size_t num_sources,
                                           kvc_memory_profile* profile);

#ifdef __cplusplus
}
#endif
#endif /* KVCACHE_METRICS_H */
