// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.Arrays;

/** An index of the n-grams of many sequences, each in a row, that drafts by prompt lookup: kvc_draft. Any thread may use it. */
public final class Draft implements AutoCloseable {
  private final Handle handle;

  /**
   * Creates an index whose rows are empty.
   *
   * @param maxRows 1 .. 65536
   * @param minNgram shortest suffix to look up; 0 = 2
   * @param maxNgram longest, at most 32; 0 = 4
   * @param rowCapacity tokens of each row that memory is taken for at once; a longer row grows
   */
  public Draft(int maxRows, int minNgram, int maxNgram, int rowCapacity) throws KvCacheException {
    long[] out = new long[1];
    try (kvc_draft_config c = new kvc_draft_config()) {
      c.setMax_rows(Sizes.count("maxRows", maxRows));
      c.setMin_ngram(Sizes.count("minNgram", minNgram));
      c.setMax_ngram(Sizes.count("maxNgram", maxNgram));
      c.setRow_capacity(Sizes.count("rowCapacity", rowCapacity));
      Native.kvc_draft_create(c, out);
    }
    handle = new Handle("draft", out[0], Native::kvc_draft_destroy);
    handle.ownedBy(this);
  }

  @Override
  public void close() {
    handle.close();
  }

  /** Appends tokens to a row: the prompt, and after each step what the request gained. */
  public void append(int row, int... tokens) throws KvCacheException {
    append(new int[] {row}, new int[][] {tokens});
  }

  /** Appends tokens to rows, each row once; all or none. */
  public void append(int[] rows, int[][] tokens) throws KvCacheException {
    if (rows.length != tokens.length) {
      throw Sizes.invalid("tokens has %d sequences; it needs %d, one for each row", tokens.length, rows.length);
    }
    LongBuffer starts = Buffers.longs(rows.length + 1);
    IntBuffer all = Buffers.ints(Arrays.stream(tokens).mapToInt(one -> one.length).reduce(0, Math::addExact));
    for (int i = 0; i < tokens.length; ++i) {
      all.put(tokens[i]);
      starts.put(i + 1, all.position());
    }
    use(d -> Native.kvc_draft_append(d, Buffers.of(rows), starts, all.flip()));
  }

  /** Keeps the first tokens of a row; 0 = empty, for another request. */
  public void truncate(int row, long numTokens) throws KvCacheException {
    use(d -> Native.kvc_draft_truncate(d, row, Sizes.count("numTokens", numTokens)));
  }

  /** Returns chains for rows, of at most maxLengths tokens each. */
  public Drafts propose(int[] rows, int[] maxLengths) throws KvCacheException {
    if (rows.length != maxLengths.length) {
      throw Sizes.invalid("maxLengths has %d elements; it needs %d", maxLengths.length, rows.length);
    }
    int most = 0;
    for (int length : maxLengths) {
      most = Math.addExact(most, length(length));
    }
    LongBuffer ends = Buffers.longs(rows.length + 1);
    IntBuffer drafted = Buffers.ints(most);
    long[] count = new long[1];
    use(d -> Native.kvc_draft_propose(d, Buffers.of(rows), Buffers.of(maxLengths), ends, drafted, count));
    int[] tokens = new int[(int) count[0]];
    long[] offsets = new long[rows.length + 1];
    drafted.get(tokens);
    ends.get(offsets);
    return new Drafts(tokens, null, offsets);
  }

  /**
   * Drafts what followed the most recent occurrence of the longest suffix of minNgram .. maxNgram tokens: maxLength tokens, or none without an occurrence.
   * It reads the whole sequence.
   */
  public static int[] lookup(IntBuffer tokens, int minNgram, int maxNgram, int maxLength) throws KvCacheException {
    IntBuffer draft = Buffers.ints(length(maxLength));
    long[] count = new long[1];
    Native.kvc_draft_lookup(tokens, Sizes.count("minNgram", minNgram), Sizes.count("maxNgram", maxNgram), draft, count);
    int[] found = new int[(int) count[0]];
    draft.get(found);
    return found;
  }

  private static int length(int length) {
    if (length < 0 || length > 65536) {
      throw Sizes.invalid("the length of a draft is %d; it must be 0 .. 65536", length);
    }
    return length;
  }

  private void use(Manager.Call call) throws KvCacheException {
    handle.call(this, call);
  }
}
