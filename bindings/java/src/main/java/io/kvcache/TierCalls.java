// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Tier} has that follows from the C headers. Written by scripts/generate. */
public abstract class TierCalls {
  TierCalls() {}

  abstract void call(Manager.Call call) throws KvCacheException;

  /** Kinds of a Tier's jobs. */
  public enum Kind {
    /** Which pages are there? May lease them. */
    EXISTS,
    /** Read pages. */
    GET,
    /** Write pages. */
    PUT,
    /** Forget pages. */
    REMOVE
  }

  /**
   * State of a tier, and counters since it was created: kvc_tier_stats.
   *
   * @param pages Gauges; 0 = unknown.
   * @param capacityPages Gauges; 0 = unknown.
   * @param bytes The same in bytes.
   * @param capacityBytes The same in bytes.
   * @param maxJobs Jobs at one time, those not polled included.
   * @param waitingJobs Gauges.
   * @param runningJobs Gauges.
   * @param doneJobs Gauges.
   * @param waitingStoreBytes Gauge: bytes of puts that wait.
   * @param refusedLoads Jobs refused because of maxJobs.
   * @param refusedPrefetches Jobs refused because of maxJobs.
   * @param refusedStores Jobs refused because of maxJobs.
   * @param refusedBytes Jobs refused because of maxStoreBytes.
   * @param evictions Pages that gave way to others, because of the bound of the tier.
   * @param recovered Pages found when the tier was opened.
   * @param badHeaders Misses, because the header was not one of this page.
   * @param badPayloads Misses, because the checksum did not match.
   * @param failures Of the system or server.
   * @param lastErrno Of the last failure; 0 = none, or not known.
   * @param fallbacks I/O past the page cache or by ioUring that the system refused: done without.
   * @param outages Times that reads or writes of a server were given up, after failures in a row.
   * @param available true = in use; false = given up (outages), and nothing has succeeded since.
   * @param usesUring true = ioUring does the I/O.
   * @param diskEvictions Pages that gave way because the disk was full, or for keepFree.
   * @param expired Pages removed because nobody used them for ttl.
   * @param removed Pages removed by jobs.
   * @param mismatches Pages whose key came again with another size, which replaced them.
   */
  public record Stats(long pages, long capacityPages, long bytes, long capacityBytes, long maxJobs, long waitingJobs, long runningJobs,
      long doneJobs, long waitingStoreBytes, long refusedLoads, long refusedPrefetches, long refusedStores, long refusedBytes, long evictions,
      long recovered, long badHeaders, long badPayloads, long failures, long lastErrno, long fallbacks, long outages, boolean available,
      boolean usesUring, long diskEvictions, long expired, long removed, long mismatches) {
    static Stats read(kvc_tier_stats i) {
      return new Stats(i.getPages(), i.getCapacity_pages(), i.getBytes(), i.getCapacity_bytes(), i.getMax_jobs(), i.getWaiting_jobs(),
          i.getRunning_jobs(), i.getDone_jobs(), i.getWaiting_store_bytes(), i.getRefused_loads(), i.getRefused_prefetches(),
          i.getRefused_stores(), i.getRefused_bytes(), i.getEvictions(), i.getRecovered(), i.getBad_headers(), i.getBad_payloads(),
          i.getFailures(), i.getLast_errno(), i.getFallbacks(), i.getOutages(), i.getAvailable() != 0, i.getUses_uring() != 0,
          i.getDisk_evictions(), i.getExpired(), i.getRemoved(), i.getMismatches());
    }
  }

  /**
   * What the jobs of one kind came to: kvc_tier_counts.
   *
   * @param jobs Accepted.
   * @param items Of ended jobs.
   * @param bytes Got or put, of items with KVC_PAGE_OK.
   * @param ok Items by result.
   * @param misses Items by result.
   * @param pending Items by result.
   * @param expired Items by result.
   * @param noSpace Items by result.
   * @param failed Items by result.
   * @param timeouts Items by result.
   * @param cancelled Items by result.
   * @param unavailable Items by result.
   */
  public record Counts(long jobs, long items, long bytes, long ok, long misses, long pending, long expired, long noSpace, long failed,
      long timeouts, long cancelled, long unavailable) {
    static Counts read(kvc_tier_counts i) {
      return new Counts(i.getJobs(), i.getItems(), i.getBytes(), i.getOk(), i.getMisses(), i.getPending(), i.getExpired(), i.getNo_space(),
          i.getFailed(), i.getTimeouts(), i.getCancelled(), i.getUnavailable());
    }
  }

  /**
   * State and counters. Thread-safe. Since 0.3.
   *
   * @throws KvCacheException INVALID_ARGUMENT
   */
  public Stats stats() throws KvCacheException {
    try (kvc_tier_stats info = new kvc_tier_stats()) {
      call(c -> Native.kvc_tier_read_stats(c, info));
      return Stats.read(info);
    }
  }

  /**
   * Counters of one kind of job. Thread-safe. Since 0.3.
   *
   * @param kind KVC_TIER_EXISTS, ...
   * @throws KvCacheException INVALID_ARGUMENT (no such kind)
   */
  public Counts counts(Kind kind) throws KvCacheException {
    try (kvc_tier_counts info = new kvc_tier_counts()) {
      call(c -> Native.kvc_tier_read_counts(c, kind.ordinal(), info));
      return Counts.read(info);
    }
  }
}
