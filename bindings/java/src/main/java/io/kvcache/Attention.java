// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;

/**
 * Queries and what they attend to: kvc_attention. Request r has queries qOffsets[r] .. qOffsets[r + 1] - 1, the last tokens of its kvLens[r],
 * or from position qStarts[r] on. Buffers are direct and in native order, used from position to limit.
 */
public final class Attention {
  /** Shapes: q [queries][numQHeads][headDim]; out [queries][numQHeads][vHeadDim]; lse float32 [queries][numQHeads], or null. */
  public ByteBuffer q, out, lse;
  /** [requests + 1], [requests], [requests] or null. */
  public LongBuffer qOffsets, kvLens, qStarts;
  /** [requests][entries]. */
  public IntBuffer blockTables;
  public int layer, numQHeads;
  /** Of q and out: FLOAT32, FLOAT16 or BFLOAT16. */
  public DType dtype = DType.FLOAT32;
  /** 0 = 1 / sqrt(headDim); 0 = none. */
  public float scale, softCap;
  public long window, sinks;
  public boolean notCausal;
  /** float32 [numQHeads], or null. */
  public ByteBuffer alibiSlopes;
  /** Bits, the lowest of a byte first, or null, from bit maskOffsets[r] on for positions from maskStarts[r] (null: 0) on. */
  public ByteBuffer mask;
  public LongBuffer maskOffsets, maskStarts;
  /** [requests][numHeads][bytes], of {@link Storage#selectBlocks}, or null. */
  public ByteBuffer blockMask;
  /** So many first tokens lie in the same blocks for all requests. */
  public long sharedTokens;
  /** [Plan.scheduleBytes], or null: where the first of several layers leaves who does what, which the others use with {@link #scheduled}. */
  public ByteBuffer schedule;
  public boolean scheduled;

  private static void want(String name, java.nio.Buffer buffer, long elements) {
    if (buffer != null && buffer.remaining() != elements) {
      throw new IllegalArgumentException(name + " has " + buffer.remaining() + " elements; it needs " + elements);
    }
  }

  /** The struct, once all lengths agree with it. */
  kvc_attention struct(Storage.Shape shape, boolean outputs) {
    int requests = kvLens.remaining(), heads = shape.numHeads();
    want("qOffsets", qOffsets, requests + 1L);
    int first = qOffsets.position();
    long rows = qOffsets.get(first + requests) * numQHeads;
    int entries = requests == 0 ? 0 : blockTables.remaining() / requests;
    int stride = blockMask == null || requests == 0 ? 0 : blockMask.remaining() / (requests * heads);
    want("q", q, dtype.bytes(rows * shape.headDim()));
    if (outputs) {
      want("out", out, dtype.bytes(rows * shape.vHeadDim()));
      want("lse", lse, 4 * rows);
    }
    want("qStarts", qStarts, requests);
    want("blockTables", blockTables, (long) requests * entries);
    want("alibiSlopes", alibiSlopes, 4L * numQHeads);
    want("maskStarts", maskStarts, requests);
    want("blockMask", blockMask, (long) requests * heads * stride);
    if (mask != null && (maskOffsets == null || maskOffsets.remaining() != requests)) {
      throw new IllegalArgumentException("mask needs maskOffsets, the first bit of each request");
    }
    for (int r = 0; r < requests; ++r) {
      long length = kvLens.get(kvLens.position() + r);
      if (blockMask != null && 8L * stride * shape.blockSize() < length) {
        throw new IllegalArgumentException("blockMask has bits for " + 8 * stride + " blocks; " + length + " tokens need more");
      }
      if (mask != null) {
        long start = maskStarts == null ? 0 : maskStarts.get(maskStarts.position() + r);
        long queries = qOffsets.get(first + r + 1) - qOffsets.get(first + r);
        long bits = maskOffsets.get(maskOffsets.position() + r) + queries * (length - start);
        if (bits > 8L * mask.remaining()) {
          throw new IllegalArgumentException("mask has " + 8L * mask.remaining() + " bits; request " + r + " needs " + bits);
        }
      }
    }
    kvc_attention c = new kvc_attention();
    c.setNum_requests(requests);
    c.setTable_stride(entries);
    c.setLayer(layer);
    c.setNum_q_heads(numQHeads);
    c.setDtype(dtype.code);
    c.setFlags((notCausal ? Native.KVC_ATTENTION_NOT_CAUSAL : 0) | (scheduled ? Native.KVC_ATTENTION_SCHEDULED : 0));
    c.setScale(scale);
    c.setSoft_cap(softCap);
    c.setWindow(window);
    c.setSinks(sinks);
    c.setBlock_mask_stride(stride);
    c.setShared_tokens(sharedTokens);
    return c;
  }

  /** How something would be computed: kvc_attention_plan. */
  public record Plan(String kernels, String keys, String values, int numWorkers, boolean sparse, long numPieces, long numSplits, long scratchBytes,
      long sharedTokens, long scheduleBytes) {}

  /** Depths of the nodes of a tree of draft tokens, whose mask bits are written to an empty mask; -1 = hangs on the last token before it. */
  public static IntBuffer treeMask(IntBuffer parents, ByteBuffer mask) throws KvCacheException {
    int nodes = parents.remaining();
    want("mask", mask, ((long) nodes * nodes + 7) / 8);
    IntBuffer depths = Buffers.ints(nodes);
    Native.kvc_tree_mask(parents, mask, 0, depths);
    return depths;
  }

  /** Merges attention over disjoint sets of keys: outs [partials][rows][vDim], lses [partials][rows] into out [rows][vDim], lse [rows] or null. */
  public static void merge(ByteBuffer outs, ByteBuffer lses, int partials, int vDim, DType dtype, ByteBuffer out, ByteBuffer lse)
      throws KvCacheException {
    long rows = (long) out.remaining() * 8 / dtype.bits / vDim;
    want("out", out, dtype.bytes(rows * vDim));
    want("outs", outs, dtype.bytes(partials * rows * vDim));
    want("lses", lses, 4 * partials * rows);
    want("lse", lse, 4 * rows);
    Native.kvc_attention_merge(outs, lses, partials, rows, vDim, dtype.code, out, lse);
  }
}
