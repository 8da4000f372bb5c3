// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Index} has that follows from the C headers. Written by scripts/generate. */
public abstract class IndexCalls {
  IndexCalls() {}

  abstract void call(Manager.Call call) throws KvCacheException;

  /**
   * Counters of an index (Index.stats): kvc_index_stats.
   *
   * @param numWorkers Now.
   * @param numBlocks Now.
   * @param numHoldings (block, worker, medium) now.
   * @param numSets Different sets of holders now.
   * @param bytesAllocated Its memory. Large arrays take pages of the system when they are used.
   * @param bytesUsed Of them used at some time.
   * @param appliedEvents Since it was created.
   * @param ignoredEvents Had been applied before.
   * @param gaps Times that a stream without missing events skipped some.
   * @param droppedEvents Had no room: too many namespaces, or words of holders. Their stream is stale.
   * @param evictedBlocks By maxBlocks.
   * @param restarts Restarts of streams.
   * @param expiredWorkers By ttlNs.
   */
  public record Stats(long numWorkers, long numBlocks, long numHoldings, long numSets, long bytesAllocated, long bytesUsed, long appliedEvents,
      long ignoredEvents, long gaps, long droppedEvents, long evictedBlocks, long restarts, long expiredWorkers) {
    static Stats read(kvc_index_stats i) {
      return new Stats(i.getNum_workers(), i.getNum_blocks(), i.getNum_holdings(), i.getNum_sets(), i.getBytes_allocated(), i.getBytes_used(),
          i.getApplied_events(), i.getIgnored_events(), i.getGaps(), i.getDropped_events(), i.getEvicted_blocks(), i.getRestarts(),
          i.getExpired_workers());
    }
  }

  /**
   * What Index.apply has done: kvc_index_applied.
   *
   * @param applied Events applied.
   * @param ignored Events that had been applied before.
   * @param nextSequence The first event that is missing; replay from the one before.
   * @param isStale true = events are missing before the newest one.
   * @param restarts Restarts of the worker that the events showed.
   */
  public record Applied(long applied, long ignored, long nextSequence, boolean isStale, int restarts) {
    static Applied read(kvc_index_applied i) {
      return new Applied(i.getApplied(), i.getIgnored(), i.getNext_sequence(), i.getIs_stale() != 0, (int) i.getRestarts());
    }
  }

  /**
   * Removes a worker and forgets what it has, in O(maxBlocks). Since 0.3.
   *
   * @throws KvCacheException NOT_FOUND
   */
  public void removeWorker(long worker) throws KvCacheException {
    call(c -> Native.kvc_index_remove_worker(c, worker));
  }

  /**
   * Says that a worker lives, for ttlNs. Index.apply says it too. Since 0.3.
   *
   * @throws KvCacheException NOT_FOUND
   */
  public void touchWorker(long worker, long nowNs) throws KvCacheException {
    call(c -> Native.kvc_index_touch_worker(c, worker, nowNs));
  }

  /** Removes the workers that were silent for more than ttlNs before nowNs. Since 0.3. */
  public long expire(long nowNs) throws KvCacheException {
    long[] out = new long[1];
    call(c -> Native.kvc_index_expire(c, nowNs, out));
    return out[0];
  }

  /**
   * Begins a resync: forgets what a worker has in a medium, in O(maxBlocks). Then apply all events of Manager.prefixes, and end it. Since 0.3.
   *
   * @param medium A medium, or KVC_INDEX_ALL_MEDIA.
   * @throws KvCacheException NOT_FOUND (worker); INVALID_ARGUMENT (medium)
   */
  public void beginResync(long worker, int medium) throws KvCacheException {
    call(c -> Native.kvc_index_begin_resync(c, worker, medium));
  }

  /**
   * Ends a resync: the stream is complete up to nextSequence. Since 0.3.
   *
   * @param nextSequence The eventCursor of Manager.prefixes.
   * @throws KvCacheException NOT_FOUND (worker); INVALID_ARGUMENT (medium); BUSY (no resync has begun)
   */
  public void endResync(long worker, int medium, long nextSequence) throws KvCacheException {
    call(c -> Native.kvc_index_end_resync(c, worker, medium, nextSequence));
  }

  /** Reads the counters. Since 0.3. */
  public Stats stats() throws KvCacheException {
    try (kvc_index_stats info = new kvc_index_stats()) {
      call(c -> Native.kvc_index_read_stats(c, info));
      return Stats.read(info);
    }
  }
}
