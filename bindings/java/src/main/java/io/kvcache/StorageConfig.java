// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;

/** Shape, type and place of a storage: {@code new StorageConfig(blocks, layers, heads, headDim)}. See kvc_storage_config. */
public final class StorageConfig {
  final long numBlocks;
  final int numLayers, numHeads, headDim;
  int vHeadDim, blockSize, layout, flags, scaleGroup, alignment, numThreads, channelTokens, residualBlocks;
  float keyScale, valueScale;
  DType dtype = DType.BFLOAT16;
  ByteBuffer memory;

  /** Flags: KVC_STORAGE_*. */
  public static final int LATENT = Native.KVC_STORAGE_LATENT,
      TILED_KEYS = Native.KVC_STORAGE_TILED_KEYS,
      ASYMMETRIC = Native.KVC_STORAGE_ASYMMETRIC,
      NOT_ZEROED = Native.KVC_STORAGE_NOT_ZEROED,
      CHANNEL_KEYS = Native.KVC_STORAGE_CHANNEL_KEYS,
      HADAMARD = Native.KVC_STORAGE_HADAMARD;

  /** A storage with as many blocks as the manager's pool. */
  public StorageConfig(long numBlocks, int numLayers, int numHeads, int headDim) {
    this.numBlocks = Sizes.count("numBlocks", numBlocks);
    this.numLayers = Sizes.count("numLayers", numLayers);
    this.numHeads = Sizes.count("numHeads", numHeads);
    this.headDim = Sizes.count("headDim", headDim);
  }

  /** Stored type, bfloat16 by default. */
  public StorageConfig dtype(DType type) {
    dtype = type;
    return this;
  }

  /** Tokens per block, 16 by default. */
  public StorageConfig blockSize(int tokens) {
    blockSize = Sizes.count("blockSize", tokens);
    return this;
  }

  /** Elements of a value row; by default those of a key row. */
  public StorageConfig valueDim(int elements) {
    vHeadDim = Sizes.count("valueDim", elements);
    return this;
  }

  /** KVC_LAYOUT_*. */
  public StorageConfig layout(int order) {
    layout = order;
    return this;
  }

  /** KVC_STORAGE_*, see the constants here. */
  public StorageConfig flags(int bits) {
    flags = bits;
    return this;
  }

  /** Elements of a row that share a scale. */
  public StorageConfig scaleGroup(int elements) {
    scaleGroup = Sizes.count("scaleGroup", elements);
    return this;
  }

  /** One scale for all keys and one for all values, instead of scales in the blocks. */
  public StorageConfig scales(float keys, float values) {
    keyScale = keys;
    valueScale = values;
    return this;
  }

  /** With {@link #CHANNEL_KEYS}: tokens that share a channel's scale (0 = all of a block), and residual blocks per layer (0 = 64). */
  public StorageConfig channels(int tokens, int blocks) {
    channelTokens = Sizes.count("tokens", tokens);
    residualBlocks = Sizes.count("blocks", blocks);
    return this;
  }

  /** Alignment of each block in bytes, 64 by default. */
  public StorageConfig alignment(int bytes) {
    alignment = Sizes.count("alignment", bytes);
    return this;
  }

  /** Threads of one call, the caller included; 1 by default. */
  public StorageConfig numThreads(int threads) {
    numThreads = Sizes.count("numThreads", threads);
    return this;
  }

  /** A direct buffer to use as memory, from position to limit, aligned to the alignment. The storage keeps it alive. */
  public StorageConfig memory(ByteBuffer buffer) {
    memory = buffer;
    return this;
  }

  kvc_storage_config struct() {
    kvc_storage_config c = new kvc_storage_config();
    c.setNum_blocks(numBlocks);
    c.setNum_layers(numLayers);
    c.setNum_heads(numHeads);
    c.setHead_dim(headDim);
    c.setV_head_dim(vHeadDim);
    c.setBlock_size(blockSize);
    c.setDtype(dtype.code);
    c.setLayout(layout);
    c.setFlags(flags);
    c.setScale_group(scaleGroup);
    c.setAlignment(alignment);
    c.setNum_threads(numThreads);
    c.setK_scale(keyScale);
    c.setV_scale(valueScale);
    c.setChannel_tokens(channelTokens);
    c.setResidual_blocks(residualBlocks);
    return c;
  }

  /** Returns the bytes of one block, and of all blocks. */
  public long[] size() throws KvCacheException {
    try (kvc_storage_config c = struct()) {
      long[] block = new long[1], slab = new long[1];
      Native.kvc_storage_size(c, block, slab);
      return new long[] {block[0], slab[0]};
    }
  }
}
