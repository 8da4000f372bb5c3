// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.util.List;

/**
 * Memory for the keys and values of a manager's blocks: kvc_storage. Any thread may use it; the caller orders calls that touch the same bytes.
 * Buffers are direct and in native order, used from position to limit. A call with a stream enqueues its work there and returns; with null the
 * work is done on return.
 */
public final class Storage extends StorageCalls implements AutoCloseable {
  final Handle handle;
  private final Shape shape;

  /** What the lengths of buffers follow from, and toString. */
  record Shape(long numBlocks, int numLayers, DType dtype, int numHeads, int headDim, int vHeadDim, int blockSize, boolean latent, long blockBytes,
      long slab, long slabBytes) {
    /** Indices, offsets and lengths must not lie in the slab, which the call changes. */
    void apart(Buffer... orders) {
      Sizes.apart(slab, slab + slabBytes, orders);
    }
  }

  /** Creates a storage. */
  public Storage(StorageConfig config) throws KvCacheException {
    ByteBuffer memory = config.memory;
    try (kvc_storage_config c = config.struct(); kvc_storage_info info = new kvc_storage_info()) {
      long[] out = new long[1];
      Native.kvc_storage_adopt(c, memory, out);
      handle = new Handle("storage", out[0], it -> {
        Native.kvc_storage_destroy(it);
        Reference.reachabilityFence(memory);
      });
      handle.ownedBy(this);
      Native.kvc_storage_properties(out[0], info);
      shape = new Shape(info.getNum_blocks(), info.getNum_layers(), config.dtype, info.getNum_heads(), info.getHead_dim(), info.getV_head_dim(),
          info.getBlock_size(), (info.getFlags() & StorageConfig.LATENT) != 0, info.getBlock_bytes(), Native.kvc_storage_address(out[0]),
          info.getSlab_bytes());
    }
  }

  @Override
  public void close() {
    handle.close();
  }

  private interface Work {
    void run(long storage, long stream) throws KvCacheException;
  }

  private void run(Stream stream, Work work, Object... buffers) throws KvCacheException {
    long address = handle.enter();
    try {
      if (stream == null) {
        work.run(address, 0);
      } else {
        stream.enqueue(it -> work.run(address, it), this, buffers);
      }
    } finally {
      handle.exit();
      Reference.reachabilityFence(this);
    }
  }

  private static kvc_rows struct(Sizes.Rows of, DType dtype, int firstLayer) {
    Sizes.count("firstLayer", firstLayer);
    kvc_rows rows = new kvc_rows();
    rows.setDtype(dtype.code);
    rows.setFirst_layer(firstLayer);
    rows.setNum_layers(of.layers());
    return rows;
  }

  /**
   * Writes keys [layers][tokens][heads][headDim] and values [layers][tokens][heads][vHeadDim] (null for latent attention) to the slots of the
   * tokens; slot -1 skips a token. It writes all tokens or none.
   */
  public void store(ByteBuffer k, ByteBuffer v, DType dtype, LongBuffer slots, int firstLayer, int layers, Stream stream) throws KvCacheException {
    store(k, v, dtype, slots, firstLayer, layers, new Rope.Rotation(null, null, 0, 0, false), stream);
  }

  /** The same, with the keys rotated as {@link Rope#apply} would rotate them; k does not change. */
  public void store(ByteBuffer k, ByteBuffer v, DType dtype, LongBuffer slots, int firstLayer, int layers, Rope.Rotation rotation, Stream stream)
      throws KvCacheException {
    Sizes.Rows a = new Sizes.Rows(shape, k, v, dtype, slots, layers, false);
    Sizes.count("firstElement", rotation.firstElement());
    int ropeDim = rotation.ropeDim() != 0 ? rotation.ropeDim() : shape.headDim;
    Sizes.Rotation r = new Sizes.Rotation(rotation.table(), rotation.rows(), ropeDim, a.slots().remaining());
    shape.apart(r.rows());
    try (kvc_rows rows = struct(a, dtype, firstLayer)) {
      rows.setRope_dim(ropeDim);
      rows.setRope_first_element(rotation.firstElement());
      rows.setFlags(rotation.interleaved() ? Native.KVC_ROWS_ROPE_INTERLEAVED : 0);
      run(stream, (s, q) -> Native.kvc_storage_store(s, rows, a.slots().remaining(), a.k(), a.v(), a.slots(), null, r.table(), r.rows(), q), a, r);
    }
  }

  /** Reads keys and values from the slots of the tokens. Parameters as for store; the rows of tokens with slot -1 stay unchanged. */
  public void gather(ByteBuffer k, ByteBuffer v, DType dtype, LongBuffer slots, int firstLayer, int layers, Stream stream) throws KvCacheException {
    Sizes.Rows a = new Sizes.Rows(shape, k, v, dtype, slots, layers, true);
    try (kvc_rows rows = struct(a, dtype, firstLayer)) {
      run(stream, (s, q) -> Native.kvc_storage_gather(s, rows, a.slots().remaining(), a.k(), a.v(), a.slots(), null, q), a);
    }
  }

  /** Compares keys and values, as store takes them, with the stored ones. Returns metrics of the keys, and of the values (null if latent). */
  public Metrics[] measure(ByteBuffer k, ByteBuffer v, DType dtype, LongBuffer slots, int firstLayer, int layers) throws KvCacheException {
    Sizes.Rows a = new Sizes.Rows(shape, k, v, dtype, slots, layers, false);
    try (kvc_rows rows = struct(a, dtype, firstLayer);
        kvc_quant_metrics keys = new kvc_quant_metrics();
        kvc_quant_metrics values = shape.latent ? null : new kvc_quant_metrics()) {
      run(null, (s, q) -> Native.kvc_storage_measure(s, rows, a.slots().remaining(), a.k(), a.v(), a.slots(), null, keys, values));
      return new Metrics[] {Metrics.read(keys), values == null ? null : Metrics.read(values)};
    }
  }

  private static ByteBuffer copies(IntBuffer pairs) {
    if (pairs.remaining() % 2 != 0) {
      throw new IllegalArgumentException("pairs has " + pairs.remaining() + " entries; it needs (source, destination) pairs");
    }
    ByteBuffer copies = Buffers.bytes(Math.multiplyExact(4, pairs.remaining()));
    copies.asIntBuffer().put(pairs.duplicate());
    return copies;
  }

  /**
   * Copies tokens from another storage of the same layers, heads, types and scales, whose block size may differ, bit by bit, in memory of the host.
   * Not for memory of a device, tiled keys and channel keys.
   */
  public void copyTokens(Storage from, List<Manager.TokenCopy> copies) throws KvCacheException {
    ByteBuffer records = records(copies);
    from.run(null, (source, unused) -> run(null, (s, q) -> Native.kvc_storage_copy_tokens(source, s, records)));
  }

  /**
   * Moves tokens inside the storage, in order, bit by bit, in memory of the host: accepted drafts ({@link Drafts#moves}). Not for memory of a device, tiled
   * keys and channel keys.
   */
  public void moveTokens(List<Manager.TokenCopy> moves) throws KvCacheException {
    ByteBuffer records = records(moves);
    run(null, (s, q) -> Native.kvc_storage_move_tokens(s, records));
  }

  private static ByteBuffer records(List<Manager.TokenCopy> copies) {
    ByteBuffer records = Buffers.bytes(Math.multiplyExact(24, copies.size()));
    for (Manager.TokenCopy c : copies) {
      records.putInt(c.group()).putInt(c.source()).putInt(c.destination()).putInt(c.offset()).putInt(c.newOffset()).putInt(c.numTokens());
    }
    return records.flip();
  }

  /** Copies blocks in all layers, in order: (source, destination) pairs, as in {@link Step#copies}. */
  public void copyBlocks(IntBuffer pairs, Stream stream) throws KvCacheException {
    ByteBuffer copies = copies(pairs);
    run(stream, (s, q) -> Native.kvc_storage_copy_blocks(s, copies, q));
  }

  /**
   * Copies blocks to pages: (block, page) pairs. A page holds all layers of a block. Page p begins at byte p * pageBytes (0 = blockBytes),
   * aligned to 16.
   */
  public void swapOut(IntBuffer pairs, ByteBuffer pages, long pageBytes, Stream stream) throws KvCacheException {
    Sizes.count("pageBytes", pageBytes);
    ByteBuffer copies = copies(pairs);
    run(stream, (s, q) -> Native.kvc_storage_swap_out(s, copies, pages, pageBytes, q), pages);
  }

  /** Copies pages of swapOut to any blocks of a storage of the same configuration: (page, block) pairs. */
  public void swapIn(IntBuffer pairs, ByteBuffer pages, long pageBytes, Stream stream) throws KvCacheException {
    Sizes.count("pageBytes", pageBytes);
    ByteBuffer copies = copies(pairs);
    run(stream, (s, q) -> Native.kvc_storage_swap_in(s, copies, pages, pageBytes, q), pages);
  }

  /** Clears blocks in all layers, scales included. */
  public void zeroBlocks(IntBuffer blocks, Stream stream) throws KvCacheException {
    shape.apart(Buffers.readable(blocks));
    run(stream, (s, q) -> Native.kvc_storage_zero_blocks(s, blocks, q));
  }

  /** Bytes that {@link #trim} freed: of device memory and of host memory. */
  public record Trimmed(long deviceBytes, long hostBytes) {}

  /**
   * Gives back memory that calls have left for later calls: scratch memory on the CPU; on a GPU the idle pieces of workspace, and of pinned memory for
   * copies of index arrays. Blocks stay as they are, and so does what captured graphs use.
   */
  public Trimmed trim() throws KvCacheException {
    long[] onDevice = {0}, onHost = {0};
    run(null, (s, q) -> Native.kvc_storage_trim(s, onDevice, onHost));
    return new Trimmed(onDevice[0], onHost[0]);
  }

  /**
   * Gives the memory of blocks that nobody uses back to the system, such as those that left a pool ({@link Manager#resize}). Returns its bytes. What the
   * blocks hold is undefined afterwards. Only for memory that the storage took from the system itself.
   */
  public long discardBlocks(long firstBlock, long numBlocks) throws KvCacheException {
    Sizes.count("firstBlock", firstBlock);
    Sizes.count("numBlocks", numBlocks);
    long[] bytes = {0};
    run(null, (s, q) -> Native.kvc_storage_discard_blocks(s, firstBlock, numBlocks, bytes));
    return bytes[0];
  }

  /** Quantizes the residual blocks among these, with channel keys. Call it before their bytes leave the slab. */
  public void quantizeBlocks(IntBuffer blocks, Stream stream) throws KvCacheException {
    shape.apart(Buffers.readable(blocks));
    run(stream, (s, q) -> Native.kvc_storage_quantize_blocks(s, blocks, q));
  }

  /** Computes paged attention: prefill and decode, any mix of requests. */
  public void attend(Attention attention, Stream stream) throws KvCacheException {
    Attention a = attention.checked(shape, true);
    try (kvc_attention c = a.struct(shape); kvc_attention_launch l = a.launch.struct()) {
      run(stream, (s, q) -> Native.kvc_storage_attend(s, c, a.q, a.out, a.lse, a.qOffsets, a.qStarts, a.kvLens, a.blockTables, a.alibiSlopes,
          a.sinkLogits, a.mask, a.maskOffsets, a.maskStarts, a.blockMask, l, a.launch.plan(), a.launch.workspace(), q), a);
    }
  }

  /** Describes how attend would run a call, and runs nothing. */
  public Attention.Info explain(Attention attention) throws KvCacheException {
    Attention a = attention.checked(shape, false);
    try (kvc_attention c = a.struct(shape); kvc_attention_launch l = a.launch.struct(); kvc_attention_info i = new kvc_attention_info()) {
      run(null, (s, q) -> Native.kvc_storage_explain(s, c, a.q, null, null, a.qOffsets, a.qStarts, a.kvLens, a.blockTables, a.alibiSlopes,
          a.sinkLogits, a.mask, a.maskOffsets, a.maskStarts, a.blockMask, l, a.launch.plan(), a.launch.workspace(), i));
      return Attention.Info.read(i);
    }
  }

  /**
   * Computes the largest and smallest value of each element over the keys of full blocks: float16 [numBlocks][numHeads][2][headDim], of which only
   * the entries of blocks are written.
   */
  public void keyBounds(int layer, IntBuffer blocks, ByteBuffer bounds, Stream stream) throws KvCacheException {
    Sizes.count("layer", layer);
    ByteBuffer own = Sizes.bounds(shape, bounds, true);
    Sizes.apart(new Buffer[] {own}, Buffers.readable(blocks));
    run(stream, (s, q) -> Native.kvc_storage_key_bounds(s, layer, blocks, own, q), own);
  }

  /**
   * Picks the topK blocks of each request and KV head by their bounds, and always the first sinkBlocks and the last recentBlocks. Returns a block
   * mask.
   */
  public ByteBuffer selectBlocks(Attention attention, ByteBuffer bounds, long topK, long sinkBlocks, long recentBlocks, Stream stream)
      throws KvCacheException {
    return selectBlocks(attention, bounds, new BlockChoice(topK, 0, 0, sinkBlocks, recentBlocks), stream);
  }

  /** Picks blocks of each request and KV head by their bounds. Returns a block mask. */
  public ByteBuffer selectBlocks(Attention attention, ByteBuffer bounds, BlockChoice how, Stream stream) throws KvCacheException {
    ByteBuffer own = Sizes.bounds(shape, bounds, false);
    Attention a = attention.checked(shape, false);
    try (kvc_attention c = a.struct(shape); kvc_attention_launch l = a.launch.struct(); kvc_block_choice choice = how.struct()) {
      long stride = (c.getTable_stride() + 7) / 8;
      ByteBuffer picked = Buffers.bytes(Sizes.picked(a.kvLens.remaining(), shape, stride));
      choice.setBlock_mask_stride(stride);
      run(stream, (s, q) -> Native.kvc_storage_select_blocks(s, c, a.q, null, null, a.qOffsets, a.qStarts, a.kvLens, a.blockTables, a.alibiSlopes,
          null, null, null, null, null, l, a.launch.plan(), a.launch.workspace(), choice, own, picked, q), a, own, picked);
      return picked;
    }
  }

  /** Bytes of one block in all layers. */
  public long blockBytes() {
    return shape.blockBytes;
  }

  /**
   * Returns the bytes of all blocks in place, at most 2^31 - 1. Do not use them after close. A storage that is not closed lives as long as this
   * buffer.
   */
  public ByteBuffer slab() {
    long address = handle.enter();
    try {
      ByteBuffer slab = Native.kvc_storage_bytes(address);
      handle.ownedBy(slab);
      return slab.order(ByteOrder.nativeOrder());
    } finally {
      handle.exit();
    }
  }

  /** Properties of the pages of a storage. fingerprint: 32 bytes. Bytes of a whole page, and of the storage's part. */
  public record PageInfo(byte[] fingerprint, long pageBytes, long partBytes) {}

  /** Tells fingerprint and size of the pages of the storage: its blocks in an order that depends on no layout, device or number of ranks. */
  public PageInfo pageInfo(PageConfig c) throws KvCacheException {
    ByteBuffer fingerprint = Buffers.bytes(32);
    long[] page = new long[1], part = new long[1];
    run(null, (s, q) -> Native.kvc_storage_page_properties(s, c.model, c.weights, c.numerics, c.numLayers, c.numHeads, c.firstLayer, c.firstHead, fingerprint,
        page, part));
    byte[] bytes = new byte[32];
    fingerprint.get(bytes);
    return new PageInfo(bytes, page[0], part[0]);
  }

  /** Lists the storage's part of a page: (offset, bytes) pairs, ascending, for {@link JobOptions#runs}. */
  public LongBuffer pageRuns(PageConfig c) throws KvCacheException {
    return listed((s, room, count) -> Native.kvc_storage_page_runs(s, c.model, c.weights, c.numerics, c.numLayers, c.numHeads, c.firstLayer, c.firstHead,
        room, count));
  }

  /** Copies blocks in host memory to pages: of each the storage's part. Part i begins at byte i * stride (0 = partBytes). */
  public void packPages(IntBuffer blocks, ByteBuffer pages, long stride) throws KvCacheException {
    Sizes.count("stride", stride);
    Sizes.apart(new Buffer[] {Buffers.writable(pages)}, Buffers.readable(blocks));
    run(null, (s, q) -> Native.kvc_storage_pack_pages(s, blocks, pages, stride));
  }

  /** Copies pages to blocks: reverses packPages. */
  public void unpackPages(IntBuffer blocks, ByteBuffer pages, long stride) throws KvCacheException {
    Sizes.count("stride", stride);
    shape.apart(Buffers.readable(blocks));
    run(null, (s, q) -> Native.kvc_storage_unpack_pages(s, blocks, pages, stride));
  }

  /** Lists the bytes of a block in the slab: (offset, bytes) pairs, ascending. */
  public LongBuffer runs(int block) throws KvCacheException {
    return listed((s, room, count) -> Native.kvc_storage_runs(s, block, null, room, count));
  }

  private interface Listing {
    void list(long storage, ByteBuffer room, long[] count) throws KvCacheException;
  }

  private LongBuffer listed(Listing listing) throws KvCacheException {
    return Buffers.grown(16, 64, (room, count) -> run(null, (s, q) -> listing.list(s, room, count))).asLongBuffer();
  }

  @Override
  public String toString() {
    try {
      handle.check();
    } catch (IllegalStateException closed) {
      return "Storage[closed]";
    }
    return "Storage[" + shape.numBlocks + " blocks of " + shape.blockSize + " tokens, " + shape.numLayers + " layers, " + shape.numHeads + " heads of "
        + shape.headDim + " elements, " + shape.dtype + ", " + shape.slabBytes + " bytes]";
  }
}
