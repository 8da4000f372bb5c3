// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;

/** Rotary embedding: tables of cosines and sines, and rows turned in place. */
public final class Rope {
  private Rope() {}

  /** Cosines and sines of positions: float32 [positions][2][pairs]. */
  public static ByteBuffer table(Model.Frequencies frequencies, LongBuffer positions) throws KvCacheException {
    int pairs = Math.multiplyExact(8, frequencies.turns().length);
    ByteBuffer turns = Buffers.bytes(pairs), table = Buffers.bytes(Math.multiplyExact(pairs, positions.remaining()));
    turns.asDoubleBuffer().put(frequencies.turns());
    Native.kvc_rope_table(turns, frequencies.attentionFactor(), positions, table);
    return table;
  }

  /**
   * How a store turns keys on their way.
   *
   * @param table of {@link #table}; null = keys are stored as they are
   * @param rows the table's row of each token, skipped ones included; null = row t for token t
   * @param ropeDim elements that turn, 0 = all, from firstElement on (of latent keys the last ones)
   * @param interleaved elements 2 i and 2 i + 1 turn together, instead of i and i + ropeDim / 2
   */
  public record Turn(ByteBuffer table, LongBuffer rows, int ropeDim, int firstElement, boolean interleaved) {}

  /**
   * Turns queries or keys x [tokens][heads][headDim] in place; a failure changes nothing.
   *
   * @param rows the table's row of each token; null = row t for token t
   * @param ropeDim elements that turn, 0 = all, from firstElement on
   * @param interleaved elements 2 i and 2 i + 1 turn together, instead of i and i + ropeDim / 2
   */
  public static void apply(ByteBuffer x, DType dtype, int heads, int headDim, int ropeDim, int firstElement, boolean interleaved, ByteBuffer table,
      LongBuffer rows) throws KvCacheException {
    long tokens = Sizes.rows("x", x, Sizes.product(dtype.unit(), heads, headDim));
    ByteBuffer own = Sizes.result("x", x, dtype.unit(), tokens, heads, headDim);
    Sizes.Turn turn = new Sizes.Turn(table, rows, ropeDim != 0 ? ropeDim : headDim, tokens);
    Sizes.apart(new Buffer[] {own}, turn.rows());
    kvc_rope_rows c = new kvc_rope_rows();
    try {
      c.setNum_heads(heads);
      c.setHead_dim(headDim);
      c.setRope_dim(ropeDim);
      c.setFirst_element(firstElement);
      c.setDtype(dtype.code);
      c.setFlags(interleaved ? Native.KVC_ROPE_ROWS_INTERLEAVED : 0);
      Native.kvc_rope_apply(c, own, tokens, turn.table(), turn.rows());
    } finally {
      c.delete();
    }
  }
}
