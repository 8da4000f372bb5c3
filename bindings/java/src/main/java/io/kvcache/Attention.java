// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;

/**
 * Queries and the keys that they attend to: kvc_attention. Request r has queries qOffsets[r] .. qOffsets[r + 1] - 1. They are the last of its
 * kvLens[r] tokens, or begin at position qStarts[r]. Buffers are direct and in native order, used from position to limit.
 */
public final class Attention extends AttentionCalls {
  /** Shapes: q [queries][numQHeads][headDim]; out [queries][numQHeads][vHeadDim]; lse float32 [queries][numQHeads], or null. */
  public ByteBuffer q, out, lse;
  /**
   * Elements from one query of q to the next, and from one head to the next, if q is a part of a larger buffer, such as the output of a fused QKV
   * projection. q begins with the first row; elements after the last row are not read. 0 = contiguous.
   */
  public long qTokenStride, qHeadStride;
  /** The same for out, whose rows must not overlap. Gaps between them are not written. */
  public long outTokenStride, outHeadStride;
  /** [requests + 1], [requests], [requests] or null. */
  public LongBuffer qOffsets, kvLens, qStarts;
  /** [requests][entries]. */
  public IntBuffer blockTables;
  public int layer, numQHeads;
  /** Type of q and out: FLOAT32, FLOAT16 or BFLOAT16. */
  public DType dtype = DType.FLOAT32;
  /** 0 = 1 / sqrt(headDim); 0 = none. */
  public float scale, softCap;
  public long window, sinks;
  public boolean notCausal;
  /** Float32 and float16 queries may be computed like bfloat16 ones: faster on some CPUs. */
  public boolean allowBf16;
  /** float32 [numQHeads], or null. */
  public ByteBuffer alibiSlopes;
  /** float32 [numQHeads], or null: a learned logit per head (gpt-oss); -infinity = none. */
  public ByteBuffer sinkLogits;
  /** Bits, the lowest of a byte first, or null. Those of request r begin at bit maskOffsets[r], for positions from maskStarts[r] (null: 0) on. */
  public ByteBuffer mask;
  public LongBuffer maskOffsets, maskStarts;
  /** [requests][numHeads][bytes], from {@link Storage#selectBlocks}, or null. */
  public ByteBuffer blockMask;
  /** Number of first tokens that lie in the same blocks for all requests. */
  public long sharedTokens;
  /** How a GPU runs it; null = defaults. */
  public Launch launch;

  /**
   * How a GPU runs attention: kvc_attention_launch. The CPU ignores it.
   *
   * @param plan [Info.planBytes], or null. The first of several layers with the same lengths writes its plan, the partition of the work, into it;
   *     the other layers reuse it with planned
   * @param planned plan holds the plan of an earlier layer
   * @param workspace [Info.workspaceBytes] (selectBlocks: [Info.selectionBytes]) for intermediate results; null = memory of the library
   */
  public record Launch(ByteBuffer plan, boolean planned, ByteBuffer workspace) {
    private static final Launch DEFAULTS = new Launch(null, false, null);

    private Launch checked() {
      return new Launch(plan == null ? null : Sizes.result("plan", plan, 1, plan.remaining()), planned,
          workspace == null ? null : Sizes.result("workspace", workspace, 1, workspace.remaining()));
    }

    kvc_attention_launch struct() {
      kvc_attention_launch c = new kvc_attention_launch();
      c.setFlags(planned ? Native.KVC_LAUNCH_PLANNED : 0);
      return c;
    }
  }

  /** A copy with new slices of all buffers, as {@link Sizes} makes them after its checks. outputs: with out and lse. */
  Attention checked(Storage.Shape shape, boolean outputs) {
    Sizes.count("layer", layer);
    Sizes.count("numQHeads", numQHeads);
    Sizes.count("window", window);
    Sizes.count("sinks", sinks);
    Sizes.count("sharedTokens", sharedTokens);
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
    a.launch = launch == null ? Launch.DEFAULTS : launch.checked();
    for (int r = 0; r < requests; ++r) {
      a.checkMasks(r, shape.blockSize(), stride);
    }
    Buffer[] written = {a.out, a.lse, a.launch.plan, a.launch.workspace};
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
    a.allowBf16 = allowBf16;
    a.sharedTokens = sharedTokens;
    a.qTokenStride = qTokenStride;
    a.qHeadStride = qHeadStride;
    a.outTokenStride = outTokenStride;
    a.outHeadStride = outHeadStride;
    return a;
  }

  /** Checks the bits of request r. Lengths are unsigned in C. */
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

  /** The struct of a checked copy. */
  kvc_attention struct(Storage.Shape shape) {
    int requests = kvLens.remaining();
    kvc_attention c = new kvc_attention();
    c.setNum_requests(requests);
    c.setTable_stride(requests == 0 ? 0 : blockTables.remaining() / requests);
    c.setLayer(layer);
    c.setNum_q_heads(numQHeads);
    c.setDtype(dtype.code);
    c.setFlags((notCausal ? Native.KVC_ATTENTION_NOT_CAUSAL : 0) | (allowBf16 ? Native.KVC_ATTENTION_ALLOW_BF16 : 0));
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

  /** Writes the mask bits of a tree of draft tokens, and returns the depths of its nodes. Parent -1 = the last token before the tree. */
  public static IntBuffer treeMask(IntBuffer parents, ByteBuffer mask) throws KvCacheException {
    int nodes = parents.remaining();
    IntBuffer from = Sizes.ints("parents", parents, nodes);
    ByteBuffer bits = Sizes.result("mask", mask, 1, ((long) nodes * nodes + 7) / 8);
    Sizes.apart(new Buffer[] {bits}, from);
    IntBuffer depths = Buffers.ints(nodes);
    Native.kvc_tree_mask(from, bits, 0, depths);
    return depths;
  }

  /**
   * Merges partial results of the same queries over disjoint sets of keys, outs [partials][rows][vDim] and lses [partials][rows], into
   * out [rows][vDim] and lse [rows] (or null).
   */
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
