// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.LongBuffer;

/** Options of a job of a {@link Tier}. null = all defaults. */
public final class JobOptions {
  /** What the threads of a tier take first: a request waits for it; a request will want it; nobody waits for it. */
  public enum Priority { LOAD, PREFETCH, STORE }

  Priority priority;
  long timeoutNs, leaseNs, nowNs = Long.MIN_VALUE, pageBytes;
  LongBuffer runs;
  long[] generations;

  /** Default: LOAD for exists and get, STORE for put and remove. Prefetches and stores are refused before a tier's queue is full. */
  public JobOptions priority(Priority value) {
    priority = value;
    return this;
  }

  /** Pages that are not begun within it end with TIMEOUT. 0 = no limit. */
  public JobOptions timeoutNs(long value) {
    timeoutNs = Sizes.count("timeoutNs", value);
    return this;
  }

  /** Exists: hits stay at least so long from now on. 0 = no lease. */
  public JobOptions leaseNs(long value) {
    leaseNs = Sizes.count("leaseNs", value);
    return this;
  }

  /** Time of the caller, for leases. Default: System.nanoTime(). */
  public JobOptions nowNs(long value) {
    nowNs = Sizes.count("nowNs", value);
    return this;
  }

  /**
   * Get: only these (offset, bytes) of each page, ascending, one behind the other, as {@link Storage#pageRuns}. null = all. wholeBytes: bytes of a whole
   * page; 0 = the pageBytes of the tier. They are copied.
   */
  public JobOptions runs(LongBuffer value, long wholeBytes) {
    pageBytes = Sizes.count("wholeBytes", wholeBytes);
    if (value != null && (value.remaining() == 0 || value.remaining() % 2 != 0)) {
      throw Sizes.invalid("runs has %d numbers; it needs two for each run, and a run", value.remaining());
    }
    runs = value == null ? null : Buffers.longs(value.remaining()).put(value.duplicate()).flip();
    return this;
  }

  /** Get: {@link Tier.Done#generations} of a lease, one for each page; the result is EXPIRED if the page is another one now. null = any. */
  public JobOptions generations(long... value) {
    generations = value == null ? null : value.clone();
    return this;
  }
}
