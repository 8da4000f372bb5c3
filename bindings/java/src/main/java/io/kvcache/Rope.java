// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;

/** Rotary embedding: tables of cosines and sines, and rotation of rows in place. */
public final class Rope {
  private Rope() {}

  /** Returns the cosines and sines of positions: float32 [positions][2][pairs]. */
  public static ByteBuffer table(Model.Frequencies frequencies, LongBuffer positions) throws KvCacheException {
    int row = Math.multiplyExact(8, frequencies.values().length);
    ByteBuffer values = Buffers.bytes(row), table = Buffers.bytes(Math.multiplyExact(row, positions.remaining()));
    values.asDoubleBuffer().put(frequencies.values());
    Native.kvc_rope_table(values, frequencies.attentionFactor(), positions, table);
    return table;
  }

  /**
   * How {@link Storage#store} rotates keys.
   *
   * @param table from {@link #table}; null = keys are stored unchanged
   * @param rows row of the table for each token, also for skipped ones; null = row t for token t
   * @param ropeDim elements that rotate; 0 = all
   * @param firstElement the first of them (latent keys: headDim - ropeDim)
   * @param interleaved elements 2 i and 2 i + 1 form a pair, instead of i and i + ropeDim / 2
   */
  public record Rotation(ByteBuffer table, LongBuffer rows, int ropeDim, int firstElement, boolean interleaved) {}

  /**
   * Rotates queries or keys x [tokens][heads][headDim] in place. A failed call changes nothing.
   *
   * @param rows row of the table for each token; null = row t for token t
   * @param ropeDim elements that rotate; 0 = all
   * @param firstElement the first of them
   * @param interleaved elements 2 i and 2 i + 1 form a pair, instead of i and i + ropeDim / 2
   */
  public static void apply(ByteBuffer x, DType dtype, int heads, int headDim, int ropeDim, int firstElement, boolean interleaved, ByteBuffer table,
      LongBuffer rows) throws KvCacheException {
    Sizes.count("heads", heads);
    Sizes.count("headDim", headDim);
    Sizes.count("ropeDim", ropeDim);
    Sizes.count("firstElement", firstElement);
    long tokens = Sizes.rows("x", x, Sizes.product(dtype.unit(), heads, headDim));
    ByteBuffer own = Sizes.result("x", x, dtype.unit(), tokens, heads, headDim);
    Sizes.Rotation rotation = new Sizes.Rotation(table, rows, ropeDim != 0 ? ropeDim : headDim, tokens);
    Sizes.apart(new Buffer[] {own}, rotation.rows());
    try (kvc_rope_rows c = new kvc_rope_rows()) {
      c.setNum_heads(heads);
      c.setHead_dim(headDim);
      c.setRope_dim(ropeDim);
      c.setFirst_element(firstElement);
      c.setDtype(dtype.code);
      c.setFlags(interleaved ? Native.KVC_ROPE_ROWS_INTERLEAVED : 0);
      Native.kvc_rope_apply(c, own, tokens, rotation.table(), rotation.rows());
    }
  }
}
