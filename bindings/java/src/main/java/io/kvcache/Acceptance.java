// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.Objects;

/**
 * Counts of verdicts by depth: kvc_acceptance. One for each class of requests that should be judged alike. One thread at a time. A depth is tried if all
 * nodes above it were accepted and the draft has a node there; 32 depths are counted one by one.
 */
public final class Acceptance {
  private static final int DEPTHS = 32, WORDS = 4 + 2 * DEPTHS;
  private final LongBuffer words = Buffers.longs(WORDS).put(0, WORDS * 8);

  /** Makes one whose counts are 0. */
  public Acceptance() {}

  /** Adds the verdict of drafts. */
  public void add(Drafts drafts, Verdict verdict) throws KvCacheException {
    drafts.count(words, verdict);
  }

  /** Halves all counts: older verdicts count less, and drafts come back after {@link #bestLength} has said 0. */
  public void halve() throws KvCacheException {
    Native.kvc_acceptance_halve(words);
  }

  /**
   * A length of drafts.
   *
   * @param nodes the length
   * @param numTokens expected tokens of a step
   */
  public record Length(int nodes, double numTokens) {}

  /** Returns the length of drafts with the most expected tokens per cost. costs: of a step with a draft of 0, 1, ... nodes, in any unit. */
  public Length bestLength(double... costs) throws KvCacheException {
    ByteBuffer all = Buffers.bytes(Math.multiplyExact(8, costs.length)), expected = Buffers.bytes(8);
    all.asDoubleBuffer().put(costs);
    IntBuffer length = Buffers.ints(1);
    Native.kvc_acceptance_length(words, all, length, expected);
    return new Length(length.get(0), expected.getDouble(0));
  }

  /** Returns the number of drafts with at least one node. */
  public long numDrafts() {
    return words.get(1);
  }

  /** Returns the number of their nodes. */
  public long numNodes() {
    return words.get(2);
  }

  /** Returns the number of accepted nodes. */
  public long numAccepted() {
    return words.get(3);
  }

  /** Returns the number of drafts in which a depth, 0 .. 31, was tried. */
  public long tried(int depth) {
    return words.get(4 + Objects.checkIndex(depth, DEPTHS));
  }

  /** Returns the number of drafts in which a node of a depth, 0 .. 31, was accepted. */
  public long accepted(int depth) {
    return words.get(4 + DEPTHS + Objects.checkIndex(depth, DEPTHS));
  }
}
