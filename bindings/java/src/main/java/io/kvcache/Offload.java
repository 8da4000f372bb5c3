// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;

/**
 * Copies cached blocks of a manager to tiers, and brings them back before a request that needs them is admitted: kvc_offload.
 *
 * <pre>{@code
 * offload.lookup(request);                    // of a new or preempted request
 * // in the engine's loop:
 * offload.poll();
 * Offload.Info info = offload.query(request);
 * if (info.state() == Offload.State.READY || info.state() == Offload.State.NONE) request.admit();
 * }</pre>
 *
 * <p>No call but await waits. Any thread may call it; one call is made at a time. A page that fails, is missing or does not check shortens the prefix that
 * is loaded; the rest is computed as ever. nowNs is the caller's time, which never goes back; without it, System.nanoTime().
 *
 * <p>Until it is closed, jobs of the tiers' own fail with BUSY. It keeps manager, storages and tiers alive, whichever of them is closed first.
 */
public final class Offload extends OffloadCalls implements AutoCloseable {
  final Handle handle;
  final Object one = new Object(); // held by every call but await: they must not overlap
  private final Object[] used; // alive until after this

  /**
   * Makes an offload. storages: one for each group; null or empty = sizes alone count ({@link OffloadOptions#pageSizes}). tiers: 1 to 8, fastest first.
   * Options may be null. Statuses: INVALID_ARGUMENT, UNSUPPORTED (groups, no events, storages with parts of pages), BUSY (a tier has jobs, or an Offload
   * has it), LIMIT, OUT_OF_MEMORY.
   */
  public Offload(Manager manager, List<Storage> storages, List<Tier> tiers, PageConfig pages, OffloadOptions options) throws KvCacheException {
    OffloadOptions o = options == null ? new OffloadOptions() : options;
    List<Storage> groups = storages == null ? List.of() : List.copyOf(storages);
    List<Tier> chain = List.copyOf(tiers);
    long sizes = groups.isEmpty() ? o.pageSizes == null ? 0 : o.pageSizes.limit() : groups.size();
    int wanted = manager.numGroups();
    if (sizes != wanted) {
      throw Sizes.invalid("%s has %d entries; it needs one for each of the %d groups", groups.isEmpty() ? "pageSizes" : "storages", sizes, wanted);
    }
    List<Runnable> ends = new ArrayList<>(); // what is given back
    long[] out = new long[1];
    try {
      long m = manager.handle.enter();
      ends.add(manager.handle::exit);
      long[] s = enter(groups, ends), t = new long[chain.size()];
      for (int i = 0; i < t.length; ++i) {
        TierJobs jobs = chain.get(i).jobs;
        t[i] = jobs.lend();
        ends.add(jobs::giveBack);
      }
      Native.kvc_offload_create(m, s, o.pageSizes, t, pages.model, pages.weights, pages.numerics, pages.numLayers, pages.numHeads, pages.firstLayer,
          pages.firstHead, o.policy, o.flags, o.numPages, o.maxLookups, o.maxLookupBlocks, o.cleanBlocks, o.timeoutNs, o.holdNs, o.computeNsPerToken,
          o.minLoadTokens, o.retryNs, out);
    } catch (KvCacheException | RuntimeException error) {
      ends.forEach(Runnable::run);
      throw error;
    }
    used = new Object[] {manager, groups, chain};
    handle = new Handle("offload", out[0], address -> {
      Native.kvc_offload_destroy(address); // waits for what the tiers do
      ends.forEach(Runnable::run);
    });
    handle.ownedBy(this);
    Reference.reachabilityFence(this);
  }

  /** The addresses of storages, which stay valid until `ends` are run; 0 for null. */
  static long[] enter(List<Storage> storages, List<Runnable> ends) {
    long[] addresses = new long[storages.size()];
    for (int i = 0; i < addresses.length; ++i) {
      if (storages.get(i) != null) {
        Handle storage = storages.get(i).handle;
        addresses[i] = storage.enter();
        ends.add(storage::exit);
      }
    }
    return addresses;
  }

  /**
   * Ends all work, waits for jobs that tiers have begun, and gives the tiers back, after the calls in other threads. Blocks that wait to be stored are not;
   * call {@link #poll} until {@link #stats} has no waitingBlocks and busyPages before.
   */
  @Override
  public void close() {
    handle.close();
  }

  @Override
  void call(Manager.Call call) throws KvCacheException {
    long address = handle.enter();
    try {
      synchronized (one) {
        call.run(address);
      }
    } finally {
      handle.exit();
      Reference.reachabilityFence(this);
    }
  }

  /** Returns when a tier has done something, or so many milliseconds are over: then poll. */
  public void await(int milliseconds) {
    Sizes.count("milliseconds", milliseconds);
    long address = handle.enter();
    try {
      Native.kvc_offload_wait(address, milliseconds);
    } finally {
      handle.exit();
      Reference.reachabilityFence(this);
    }
  }

  /**
   * Moves everything on: takes what tiers have done, stores blocks, loads pages. Your work on the storages is done when you call it; before it, execute the
   * copies and moves that the manager has asked for.
   */
  public void poll() throws KvCacheException {
    poll(System.nanoTime(), null);
  }

  /** The same with the caller's time, and with the stream of the kernels that read and write blocks: copies to and from blocks are enqueued there. */
  public void poll(long nowNs, Stream stream) throws KvCacheException {
    call(o -> {
      if (stream == null) {
        Native.kvc_offload_poll(o, nowNs, 0);
      } else {
        stream.enqueue(it -> Native.kvc_offload_poll(o, nowNs, it), this);
      }
    });
  }

  /**
   * Begins to look for the tokens of a waiting request beyond its hit, and to load them. Does nothing if that is under way, and ends by itself when the
   * request is admitted or freed. Statuses: NOT_FOUND, BUSY (it is admitted), LIMIT, OUT_OF_MEMORY: then admit the request as ever.
   */
  public void lookup(Request request) throws KvCacheException {
    lookup(request, System.nanoTime());
  }

  /** The same with the caller's time. */
  public void lookup(Request request, long nowNs) throws KvCacheException {
    call(o -> Native.kvc_offload_lookup(o, request.id(), nowNs));
  }

  /** Returns counters of one tier. tier: its index. */
  public TierStats tierStats(int tier) throws KvCacheException {
    try (kvc_offload_tier_stats s = new kvc_offload_tier_stats()) {
      call(o -> Native.kvc_offload_read_tier_stats(o, Sizes.count("tier", tier), s));
      return TierStats.read(s);
    }
  }

  @Override
  public String toString() {
    try {
      handle.check();
    } catch (IllegalStateException closed) {
      return "Offload[closed]";
    }
    return "Offload[to " + used[2] + "]";
  }
}
