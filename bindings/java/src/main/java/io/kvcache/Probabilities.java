// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;

/**
 * Distributions of the target (p) and of what drew a draft (q), and random numbers: kvc_probabilities. Rows: for each request first that after its last
 * known token, then one for each node of its draft. Floats and doubles are bytes in native order.
 */
public final class Probabilities {
  /** Size of the vocabulary. */
  public final int vocab;
  /** Rows are taken to sum to 1, and only those that a token is drawn from are read. */
  public boolean trusted;
  /** [rows][vocab] floats, or with pIds [rows][width]: what the engine would sample from. */
  public ByteBuffer p;
  /** [rows][width] tokens of the entries of p, rising, -1 from the row's end on; null = all. */
  public IntBuffer pIds;
  /** [numQRows][vocab] floats, or with qIds [numQRows][width]: what nodes were drawn from; null = all nodes are certain. */
  public ByteBuffer q;
  /** As pIds. */
  public IntBuffer qIds;
  /** Rows of q. */
  public int numQRows;
  /** [nodes] the row of q of each node, -1 = certain; null = node i has row i. */
  public LongBuffer qRows;
  /** [rows] doubles, independent and uniform in [0, 1), new for each call. */
  public ByteBuffer uniforms;

  /** Creates one whose arrays are to be set. */
  public Probabilities(int vocab, ByteBuffer p, ByteBuffer uniforms) {
    this.vocab = vocab;
    this.p = p;
    this.uniforms = uniforms;
  }

  int flags() {
    return trusted ? Native.KVC_PROBABILITIES_TRUSTED : 0;
  }
}
