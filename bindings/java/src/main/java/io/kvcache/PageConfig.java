// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.nio.ByteBuffer;

/** What must be equal for two processes to use each other's pages, and which part of them a storage has: kvc_page_config. */
public final class PageConfig {
  final ByteBuffer model, weights;
  ByteBuffer numerics;
  int numLayers, numHeads, firstLayer, firstHead;

  /** Name of the model, and version or digest of its weights. */
  public PageConfig(byte[] model, byte[] weights) {
    this.model = Buffers.copy(model);
    this.weights = Buffers.copy(weights);
  }

  /** What else changes values, such as kernels. */
  public PageConfig numerics(byte[] value) {
    numerics = Buffers.copy(value);
    return this;
  }

  /** Layers and KV heads of a whole page, over all ranks; 0 = those of the storage. */
  public PageConfig whole(int layers, int heads) {
    numLayers = Sizes.count("layers", layers);
    numHeads = Sizes.count("heads", heads);
    return this;
  }

  /** Where the storage's layers and heads begin in the page. */
  public PageConfig first(int layer, int head) {
    firstLayer = Sizes.count("layer", layer);
    firstHead = Sizes.count("head", head);
    return this;
  }
}
