// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.LongBuffer;

/** Options of an {@link Offload}: kvc_offload_config. null = all defaults. */
public final class OffloadOptions {
  /** Policies, several together: each block that is published; blocks that a lookup finds cached; the cached blocks that leave next, a few at each poll. */
  public static final int WRITE_THROUGH = Native.KVC_OFFLOAD_WRITE_THROUGH,
      SECOND_USE = Native.KVC_OFFLOAD_SECOND_USE,
      BEFORE_EVICTION = Native.KVC_OFFLOAD_BEFORE_EVICTION;

  int policy, flags, numPages, maxLookups, maxLookupBlocks, cleanBlocks;
  long timeoutNs, holdNs, minLoadTokens, retryNs;
  double computeNsPerToken;
  LongBuffer pageSizes;

  /** Which blocks are stored; 0, the default, = those of {@link Offload#storeRequest} alone. */
  public OffloadOptions policy(int policies) {
    policy = policies;
    return this;
  }

  /** False: what was loaded from one tier is not stored in the others. */
  public OffloadOptions promote(boolean value) {
    flags = value ? 0 : Native.KVC_OFFLOAD_NO_PROMOTE;
    return this;
  }

  /** Without storages: the bytes of a page of each group. There are no bytes then, sizes alone count: for simulations. */
  public OffloadOptions pageSizes(long... bytes) {
    for (long one : bytes) {
      Sizes.count("pageSizes", one);
    }
    pageSizes = Buffers.longs(bytes.length).put(bytes).flip();
    return this;
  }

  /** Staging pages in memory of the host, 64 by default. Loads keep a quarter of them. */
  public OffloadOptions numPages(int pages) {
    numPages = Sizes.count("numPages", pages);
    return this;
  }

  /** Requests at one time (16 by default), and blocks of a prompt beyond its hit that are looked up (1024). 0 = the default. */
  public OffloadOptions lookups(int requests, int blocks) {
    maxLookups = Sizes.count("requests", requests);
    maxLookupBlocks = Sizes.count("blocks", blocks);
    return this;
  }

  /** With {@link #BEFORE_EVICTION}: blocks of each pool at each poll, 64 by default. */
  public OffloadOptions cleanBlocks(int blocks) {
    cleanBlocks = Sizes.count("cleanBlocks", blocks);
    return this;
  }

  /** Limit of each job of a tier, 10 s by default. */
  public OffloadOptions timeoutNs(long value) {
    timeoutNs = Sizes.count("timeoutNs", value);
    return this;
  }

  /** How long loaded blocks wait for the admission, 1 s by default. */
  public OffloadOptions holdNs(long value) {
    holdNs = Sizes.count("holdNs", value);
    return this;
  }

  /** Time that the engine takes to compute a token of a prompt: a load that is expected to take longer is not begun. 0 = everything is loaded. */
  public OffloadOptions computeNsPerToken(double value) {
    computeNsPerToken = value;
    return this;
  }

  /** A load of fewer tokens is not begun; 0, the default, = each is. */
  public OffloadOptions minLoadTokens(long tokens) {
    minLoadTokens = Sizes.count("tokens", tokens);
    return this;
  }

  /** How long a tier that fails is left alone, 1 s by default. */
  public OffloadOptions retryNs(long value) {
    retryNs = Sizes.count("retryNs", value);
    return this;
  }
}
