// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.Buffer;
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
  /**
   * Elements from one query's rows of q to the next one's, and from one head's row to the next one's, where q is a part of a larger buffer, such as
   * the result of a fused QKV projection. q begins with the first row; what follows the last row is not read. 0 = contiguous.
   */
  public long qTokenStride, qHeadStride;
  /** The same for out, whose rows must not overlap. What lies between them is not written. */
  public long outTokenStride, outHeadStride;
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
  /** float32 [numQHeads], or null: a learned logit without a value for each head, as gpt-oss has; -infinity = none. */
  public ByteBuffer sinkLogits;
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
  /** [Plan.workspaceBytes] (for selectBlocks: [Plan.selectionBytes]) for what the call needs beside its arrays, or null. */
  public ByteBuffer workspace;

  /** The same with buffers of the call's own, as {@link Sizes} makes them, once all agree. outputs: with out and lse. */
  Attention checked(Storage.Shape shape, boolean outputs) {
    Attention a = new Attention();
    int requests = Sizes.longs("kvLens", kvLens, kvLens == null ? 0 : kvLens.remaining()).remaining(), heads = shape.numHeads();
    a.kvLens = Sizes.longs("kvLens", kvLens, requests);
    a.qOffsets = Sizes.longs("qOffsets", qOffsets, requests + 1L);
    long queries = a.qOffsets.get(requests), rows = Sizes.product(queries, numQHeads);
    int entries = requests == 0 || blockTables == null ? 0 : blockTables.remaining() / requests;
    long stride = requests == 0 || blockMask == null ? 0 : blockMask.remaining() / ((long) requests * heads);
    a.q = q == null && !outputs ? null : Sizes.apart("q", q, dtype.unit(), queries, numQHeads, shape.headDim(), qTokenStride, qHeadStride);
    Buffers.writable(outputs ? out : null);
    a.out = outputs ? Sizes.apart("out", out, dtype.unit(), queries, numQHeads, shape.vHeadDim(), outTokenStride, outHeadStride) : null;
    a.lse = !outputs || lse == null ? null : Sizes.result("lse", lse, 4, rows);
    a.qStarts = qStarts == null ? null : Sizes.longs("qStarts", qStarts, requests);
    a.blockTables = Sizes.ints("blockTables", blockTables, requests, entries);
    a.alibiSlopes = alibiSlopes == null ? null : Sizes.bytes("alibiSlopes", alibiSlopes, 4, numQHeads);
    a.sinkLogits = sinkLogits == null ? null : Sizes.bytes("sinkLogits", sinkLogits, 4, numQHeads);
    a.mask = mask == null ? null : Sizes.bytes("mask", mask, 1, mask.remaining());
    a.maskOffsets = mask == null ? null : Sizes.longs("maskOffsets", maskOffsets, requests);
    a.maskStarts = maskStarts == null ? null : Sizes.longs("maskStarts", maskStarts, requests);
    a.blockMask = blockMask == null ? null : Sizes.bytes("blockMask", blockMask, 1, requests, heads, stride);
    a.schedule = schedule == null ? null : Sizes.result("schedule", schedule, 1, schedule.remaining());
    a.workspace = workspace == null ? null : Sizes.result("workspace", workspace, 1, workspace.remaining());
    for (int r = 0; r < requests; ++r) {
      a.checkMasks(r, shape.blockSize(), stride);
    }
    Buffer[] written = {a.out, a.lse, a.schedule, a.workspace};
    Buffer[] orders = {a.qOffsets, a.kvLens, a.qStarts, a.blockTables, a.maskOffsets, a.maskStarts, a.blockMask};
    Sizes.apart(written, orders);
    a.layer = layer;
    a.numQHeads = numQHeads;
    a.dtype = dtype;
    a.scale = scale;
    a.softCap = softCap;
    a.window = window;
    a.sinks = sinks;
    a.notCausal = notCausal;
    a.sharedTokens = sharedTokens;
    a.scheduled = scheduled;
    a.qTokenStride = qTokenStride;
    a.qHeadStride = qHeadStride;
    a.outTokenStride = outTokenStride;
    a.outHeadStride = outHeadStride;
    return a;
  }

  /** The bits of request r. Lengths are unsigned in C. */
  private void checkMasks(int r, int blockSize, long stride) {
    long length = kvLens.get(r), start = maskStarts == null ? 0 : maskStarts.get(r), queries = qOffsets.get(r + 1) - qOffsets.get(r);
    if (length < 0 || queries < 0 || start < 0 || start > length) {
      throw Sizes.invalid("request %d: %d queries, %d tokens, a mask from %d on; offsets never decrease, and a mask begins within the tokens", r,
          queries, length, start);
    }
    long blocks = length / blockSize + (length % blockSize != 0 ? 1 : 0);
    if (blockMask != null && 8 * stride < blocks) {
      throw Sizes.invalid("a row of blockMask has %d bits; request %d has %d blocks", 8 * stride, r, blocks);
    }
    if (mask != null) {
      long room = 8L * mask.remaining(), first = maskOffsets.get(r), needed = Sizes.product(queries, length - start);
      if (first < 0 || first > room || needed > room - first) {
        throw Sizes.invalid("mask has %d bits; request %d needs %s bits from maskOffsets[%d] = %s on", room, r, Long.toUnsignedString(needed), r,
            Long.toUnsignedString(first));
      }
    }
  }

  /** The struct of one that is checked. */
  kvc_attention struct(Storage.Shape shape) {
    int requests = kvLens.remaining();
    kvc_attention c = new kvc_attention();
    c.setNum_requests(requests);
    c.setTable_stride(requests == 0 ? 0 : blockTables.remaining() / requests);
    c.setLayer(layer);
    c.setNum_q_heads(numQHeads);
    c.setDtype(dtype.code);
    c.setFlags((notCausal ? Native.KVC_ATTENTION_NOT_CAUSAL : 0) | (scheduled ? Native.KVC_ATTENTION_SCHEDULED : 0));
    c.setScale(scale);
    c.setSoft_cap(softCap);
    c.setWindow(window);
    c.setSinks(sinks);
    c.setBlock_mask_stride(requests == 0 || blockMask == null ? 0 : blockMask.remaining() / ((long) requests * shape.numHeads()));
    c.setShared_tokens(sharedTokens);
    c.setQ_token_stride(qTokenStride);
    c.setQ_head_stride(qHeadStride);
    c.setOut_token_stride(outTokenStride);
    c.setOut_head_stride(outHeadStride);
    return c;
  }

  /** How something would be computed: kvc_attention_plan. */
  public record Plan(String kernels, String keys, String values, int numWorkers, boolean sparse, long numPieces, long numSplits, long scratchBytes,
      long sharedTokens, long scheduleBytes, long workspaceBytes, long selectionBytes) {}

  /** Depths of the nodes of a tree of draft tokens, whose mask bits are written to an empty mask; -1 = hangs on the last token before it. */
  public static IntBuffer treeMask(IntBuffer parents, ByteBuffer mask) throws KvCacheException {
    int nodes = parents.remaining();
    IntBuffer from = Sizes.ints("parents", parents, nodes);
    ByteBuffer bits = Sizes.result("mask", mask, 1, ((long) nodes * nodes + 7) / 8);
    Sizes.apart(new Buffer[] {bits}, from);
    IntBuffer depths = Buffers.ints(nodes);
    Native.kvc_tree_mask(from, bits, 0, depths);
    return depths;
  }

  /** Merges attention over disjoint sets of keys: outs [partials][rows][vDim], lses [partials][rows] into out [rows][vDim], lse [rows] or null. */
  public static void merge(ByteBuffer outs, ByteBuffer lses, int partials, int vDim, DType dtype, ByteBuffer out, ByteBuffer lse)
      throws KvCacheException {
    if (partials < 0 || vDim < 1) {
      throw Sizes.invalid("partials is %d and vDim %d; partials must be at least 0, vDim at least 1", partials, vDim);
    }
    long rows = Sizes.rows("out", out, Sizes.product(dtype.unit(), vDim));
    Native.kvc_attention_merge(Sizes.bytes("outs", outs, dtype.unit(), partials, rows, vDim), Sizes.bytes("lses", lses, 4, partials, rows), partials, rows,
        vDim, dtype.code, Sizes.result("out", out, dtype.unit(), rows, vDim), lse == null ? null : Sizes.result("lse", lse, 4, rows));
  }
}
