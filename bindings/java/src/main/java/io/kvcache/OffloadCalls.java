// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Offload} has that follows from the C headers. Written by scripts/generate. */
public abstract class OffloadCalls {
  OffloadCalls() {}

  abstract void call(Manager.Call call) throws KvCacheException;

  /** How far the lookup of a request is. */
  public enum State {
    /** Nothing is under way: admit it. */
    NONE,
    /** The tiers are asked, or another request loads the same content. */
    LOOKING,
    /** Pages are read. */
    LOADING,
    /** Admit it now: what was loaded is held for holdNs. */
    READY
  }

  /** Why a lookup is ready. NONE: it is not. */
  public enum Reason {
    /** It is not ready. */
    NONE,
    /** The tiers have nothing that the manager lacks. */
    NOTHING,
    /** Computing is expected to be faster (computeNsPerToken), or too little was found (minLoadTokens). */
    SLOWER,
    /** The pools had no blocks. */
    NO_ROOM,
    /** A page failed: less was loaded than was found. */
    FAILED,
    /** All that was found is loaded. */
    LOADED,
    /** Not seen: a lookup that was cancelled is forgotten. */
    CANCELLED
  }

  /**
   * How far the lookup of a request is: kvc_offload_info.
   *
   * @param state KVC_OFFLOAD_NONE, ...
   * @param reason Of READY: KVC_OFFLOAD_NOTHING, ...; else 0.
   * @param numCached Tokens that the manager had cached.
   * @param numFound Tokens beyond them that the tiers have.
   * @param numLoaded Tokens that are cached now because they were loaded.
   */
  public record Info(State state, Reason reason, long numCached, long numFound, long numLoaded) {
    static Info read(kvc_offload_info i) {
      return new Info(State.values()[(int) i.getState()], Reason.values()[(int) i.getReason()], i.getNum_cached(), i.getNum_found(),
          i.getNum_loaded());
    }
  }

  /**
   * State of an offload, and counters since it was created: kvc_offload_stats.
   *
   * @param waitingBlocks Gauge: to be stored.
   * @param busyPages Gauge: staging pages in use.
   * @param busyLookups Gauge.
   * @param publishedBlocks Seen by WRITE_THROUGH.
   * @param droppedEvents Of them lost, because the manager's events were read too late.
   * @param droppedBlocks Not stored, because too many waited.
   * @param goneBlocks Not stored, because they were evicted before.
   * @param lookups Begun.
   * @param slowerLoads Not begun: computing is expected to be faster, or too little was found.
   * @param refusedLoads Loads for which the pools had no room.
   * @param loads Begun.
   * @param shortLoads Of them ended with less than was found.
   * @param loadedTokens Made cached.
   * @param failedPublications Loads that the manager did not take.
   */
  public record Stats(long waitingBlocks, long busyPages, long busyLookups, long publishedBlocks, long droppedEvents, long droppedBlocks,
      long goneBlocks, long lookups, long slowerLoads, long refusedLoads, long loads, long shortLoads, long loadedTokens,
      long failedPublications) {
    static Stats read(kvc_offload_stats i) {
      return new Stats(i.getWaiting_blocks(), i.getBusy_pages(), i.getBusy_lookups(), i.getPublished_blocks(), i.getDropped_events(),
          i.getDropped_blocks(), i.getGone_blocks(), i.getLookups(), i.getSlower_loads(), i.getRefused_loads(), i.getLoads(), i.getShort_loads(),
          i.getLoaded_tokens(), i.getFailed_publications());
    }
  }

  /**
   * Counters of one tier of an offload: kvc_offload_tier_stats.
   *
   * @param hits Pages asked for.
   * @param misses Pages asked for.
   * @param loadedPages Read.
   * @param loadedBytes Read.
   * @param failedLoads Pages that were found and could not be read, or did not check.
   * @param storedPages Written, or there already.
   * @param storedBytes Written, or there already.
   * @param refusedStores Dropped: the tier's queue was full, or it is left alone.
   * @param failedStores The tier had no space, failed, or did not come to it in time.
   * @param waits Loads that the queue refused at first.
   * @param loadNsPerByte Gauge: what loads took lately; 0 = not measured.
   * @param outages Times that reads or writes were given up, after failures in a row.
   * @param available Gauge: 0 = they were given up, and none has succeeded since.
   * @param difference Why pages that were there when the offload was made are misses: the first field that differs and both values, such as
   *     `weights is "v1" there and "v2" here`; ended by 0. Empty: the tier had pages of these fields, or none that are described. Printable ASCII.
   */
  public record TierStats(long hits, long misses, long loadedPages, long loadedBytes, long failedLoads, long storedPages, long storedBytes,
      long refusedStores, long failedStores, long waits, double loadNsPerByte, long outages, long available, String difference) {
    static TierStats read(kvc_offload_tier_stats i) {
      return new TierStats(i.getHits(), i.getMisses(), i.getLoaded_pages(), i.getLoaded_bytes(), i.getFailed_loads(), i.getStored_pages(),
          i.getStored_bytes(), i.getRefused_stores(), i.getFailed_stores(), i.getWaits(), i.getLoad_ns_per_byte(), i.getOutages(),
          i.getAvailable(), i.getDifference());
    }
  }

  /**
   * Tells how far it is. Since 0.3.
   *
   * @throws KvCacheException INVALID_ARGUMENT
   */
  public Info query(Request request) throws KvCacheException {
    try (kvc_offload_info info = new kvc_offload_info()) {
      call(c -> Native.kvc_offload_query(c, request.id(), info));
      return Info.read(info);
    }
  }

  /** Ends a lookup and gives back its blocks. Succeeds also if there is none. Since 0.3. */
  public void cancel(Request request) throws KvCacheException {
    call(c -> Native.kvc_offload_cancel(c, request.id()));
  }

  /**
   * Stores the published blocks of an admitted request, whatever the policy says. Call it before you preempt the request: a lookup brings them
   * back. Since 0.3.
   *
   * @return How many it has.
   * @throws KvCacheException INVALID_ARGUMENT
   */
  public long storeRequest(Request request) throws KvCacheException {
    long[] out = new long[1];
    call(c -> Native.kvc_offload_store_request(c, request.id(), out));
    return out[0];
  }

  /**
   * State and counters. Since 0.3.
   *
   * @throws KvCacheException INVALID_ARGUMENT
   */
  public Stats stats() throws KvCacheException {
    try (kvc_offload_stats info = new kvc_offload_stats()) {
      call(c -> Native.kvc_offload_read_stats(c, info));
      return Stats.read(info);
    }
  }
}
