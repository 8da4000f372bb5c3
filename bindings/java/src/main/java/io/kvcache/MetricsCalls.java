// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Metrics} has that follows from the C headers. Written by scripts/generate. */
public abstract class MetricsCalls {
  MetricsCalls() {}

  /** What a latency measures; the object that it belongs to is in brackets. */
  public enum Latency {
    /** [manager] Manager.allocate, Request.admit; a Manager.admitBatch as one. */
    ADMIT,
    /** [manager] Step.run. */
    STEP,
    /** [scheduler] Scheduler.plan, with the steps of its manager. */
    PLAN,
    /** [scheduler] kvc_scheduler_finish. */
    FINISH,
    /** [storage] Storage.store. With a stream: until the work is enqueued. */
    STORE,
    /** [storage] Storage.gather, in the same way. */
    GATHER,
    /** [offload] Offload.poll. */
    POLL,
    /** [offload] A load, from its first page until its blocks are cached, by the times of Offload.poll. */
    LOAD,
    /** [tier] A job of KVC_TIER_EXISTS, from kvc_tier_submit to its end. */
    TIER_EXISTS,
    /** [tier] In the same way. */
    TIER_GET,
    /** [tier] In the same way. */
    TIER_PUT,
    /** [tier] In the same way. */
    TIER_REMOVE
  }

  /**
   * A distribution of durations since Metrics.enableLatencies. Percentiles are within 0.8 % of a recorded duration; durations above 73 minutes
   * count as that. All are 0 if nothing was recorded: kvc_latency.
   *
   * @param count Recorded durations, of failed calls too.
   * @param sumNs Their sum, in ns.
   * @param maxNs The longest, in ns.
   * @param p50Ns 50, 90, 99 and 99.9 % are at most so long, in ns.
   * @param p90Ns 50, 90, 99 and 99.9 % are at most so long, in ns.
   * @param p99Ns 50, 90, 99 and 99.9 % are at most so long, in ns.
   * @param p999Ns 50, 90, 99 and 99.9 % are at most so long, in ns.
   */
  public record LatencyInfo(long count, long sumNs, long maxNs, long p50Ns, long p90Ns, long p99Ns, long p999Ns) {
    static LatencyInfo read(kvc_latency i) {
      return new LatencyInfo(i.getCount(), i.getSum_ns(), i.getMax_ns(), i.getP50_ns(), i.getP90_ns(), i.getP99_ns(), i.getP999_ns());
    }
  }

  /**
   * Memory by kind, in bytes: what objects have from their allocators now, and the most that they have had. The peaks of several objects are
   * added. Memory that they have otherwise, such as stacks of threads and open files, is not counted: kvc_memory_profile.
   *
   * @param metadataBytes Managers: blocks, positions, requests, logs.
   * @param metadataPeakBytes Managers: blocks, positions, requests, logs.
   * @param slabBytes Storages: blocks. External memory is the caller's.
   * @param slabPeakBytes Storages: blocks. External memory is the caller's.
   * @param workspaceBytes Storages: residual keys, and scratch memory that Storage.trim gives back. That of GPUs is not counted.
   * @param workspacePeakBytes Storages: residual keys, and scratch memory that Storage.trim gives back. That of GPUs is not counted.
   * @param tierBytes Tiers: queues, indexes, pages in memory.
   * @param tierPeakBytes Tiers: queues, indexes, pages in memory.
   * @param offloadBytes Offloads: tables and staging pages.
   * @param offloadPeakBytes Offloads: tables and staging pages.
   * @param schedulerBytes Schedulers: jobs, plans and tables.
   * @param schedulerPeakBytes Schedulers: jobs, plans and tables.
   */
  public record MemoryProfile(long metadataBytes, long metadataPeakBytes, long slabBytes, long slabPeakBytes, long workspaceBytes,
      long workspacePeakBytes, long tierBytes, long tierPeakBytes, long offloadBytes, long offloadPeakBytes, long schedulerBytes,
      long schedulerPeakBytes) {
    static MemoryProfile read(kvc_memory_profile i) {
      return new MemoryProfile(i.getMetadata_bytes(), i.getMetadata_peak_bytes(), i.getSlab_bytes(), i.getSlab_peak_bytes(),
          i.getWorkspace_bytes(), i.getWorkspace_peak_bytes(), i.getTier_bytes(), i.getTier_peak_bytes(), i.getOffload_bytes(),
          i.getOffload_peak_bytes(), i.getScheduler_bytes(), i.getScheduler_peak_bytes());
    }
  }
}
