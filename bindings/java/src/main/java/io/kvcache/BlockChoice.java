// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/**
 * How {@link Storage#selectBlocks} picks. Exactly one of topK, ratio and threshold is not 0.
 *
 * @param topK so many blocks with the highest bounds
 * @param ratio this part of the blocks that a query can see, above 0, at most 1; rounded up
 * @param threshold all blocks whose bound is at most this below the largest one of some query, in logits; infinity = all
 * @param sinkBlocks always the first blocks
 * @param recentBlocks always the last blocks; 0 = 1
 */
public record BlockChoice(long topK, double ratio, double threshold, long sinkBlocks, long recentBlocks) {
  /** Refuses negative counts; selectBlocks refuses all else. */
  public BlockChoice {
    Sizes.count("topK", topK);
    Sizes.count("sinkBlocks", sinkBlocks);
    Sizes.count("recentBlocks", recentBlocks);
  }

  kvc_block_choice struct() {
    kvc_block_choice c = new kvc_block_choice();
    c.setTop_k(topK);
    c.setRatio(ratio);
    c.setThreshold(threshold);
    c.setSink_blocks(sinkBlocks);
    c.setRecent_blocks(recentBlocks);
    return c;
  }
}
