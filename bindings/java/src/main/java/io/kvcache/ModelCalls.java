// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Model} has that follows from the C headers. Written by scripts/generate. */
public abstract class ModelCalls {
  ModelCalls() {}

  /**
   * Answer of Model.estimate, in bytes and blocks. Layers with keys and values form the full group, or with a window the window group; those with
   * a state the state group; cross-attention the cross group. A group without layers has zeros. A manager has those with layers in this order:
   * kvc_memory_estimate.
   *
   * @param bytesPerToken Keys and values of one token in the full and the window group, as if no layer had a window.
   * @param fullBlockBytes One block of the full group, all its layers.
   * @param windowBlockBytes One block of the window group, all its layers.
   * @param fullBlocks Blocks of a sequence in the full group: ceil(tokens / blockSize).
   * @param windowBlocks Most blocks of a sequence in the window group while it grows to `tokens`: min(ceil(tokens / blockSize), ceil((windowTokens
   *     - 1) / blockSize) + ceil((chunkTokens - 1) / blockSize) + 1).
   * @param sequenceBytes The sum of blocks * block bytes of all groups, and residualBytes.
   * @param totalBytes numSequences * sequenceBytes.
   * @param maxTokens Largest `tokens` for which numSequences sequences fit the budget: a multiple of blockSize, possibly above maxContext. 0 = not
   *     one block fits; -1 = any length fits (no full group).
   * @param maxSequences Largest numSequences of `tokens` tokens that fits the budget; may be 0. Pools are divided for them if the query asks for
   *     as many: see poolBlocks.
   * @param numFullLayers Layers of the full group.
   * @param numWindowLayers Layers of the window group.
   * @param residualBytes channelKeys: the bfloat16 keys of a sequence's residual block in all layers, and of the open block of cross-attention.
   *     Else 0.
   * @param budgetBytes The budget: that of the query, or memoryFraction of the free memory.
   * @param poolBlocks Blocks that the budget pays for after residualBytes of numSequences sequences: of the pool of the first group. A manager
   *     gets as many from Config.memory. Groups whose blocks have equal sizes share one pool. Otherwise each has its own. First it gets what
   *     numSequences running sequences of `tokens` tokens need (blocks * block bytes), or its share of the budget if that is too small. What is
   *     left is divided by what a cached sequence keeps: the same blocks, but of a window group with retentionTokens a sixth of those that hits at
   *     all multiples need, if that is more (docs/BENCHMARKS.md). The first pool gets the rest. So `tokens` and checkpointTokens decide how many
   *     states there are, and with them how many requests run at once. 0 = the budget is below one block of each pool.
   * @param windowPoolBlocks Blocks of the window group's own pool; 0 = it takes from an earlier group's, or is the first.
   * @param stateBlockBytes The state of all state layers after some number of tokens. Since 0.3.
   * @param crossBlockBytes One block of encoder tokens in all layers that read them. Since 0.3.
   * @param stateBlocks Most blocks of a sequence in the state group: 2, or 1 if `tokens` are one block, and a checkpoint for every
   *     checkpointTokens. Since 0.3.
   * @param crossBlocks ceil(crossTokens / blockSize). Since 0.3.
   * @param statePoolBlocks As windowPoolBlocks, of the state and the cross group. Since 0.3.
   * @param crossPoolBlocks Since 0.3.
   * @param numStateLayers Layers of the state group. Since 0.3.
   * @param numCrossLayers Layers of the cross group. Since 0.3.
   * @param numPools Pools that the groups take from, whatever the budget. Since 0.3.
   * @param windowPool Pool of the window group; the first group's is 0. Since 0.3.
   * @param statePool Pool of the state group. Since 0.3.
   * @param crossPool Pool of the cross group. Since 0.3.
   */
  public record Estimate(long bytesPerToken, long fullBlockBytes, long windowBlockBytes, long fullBlocks, long windowBlocks, long sequenceBytes,
      long totalBytes, long maxTokens, long maxSequences, int numFullLayers, int numWindowLayers, long residualBytes, long budgetBytes,
      long poolBlocks, long windowPoolBlocks, long stateBlockBytes, long crossBlockBytes, long stateBlocks, long crossBlocks,
      long statePoolBlocks, long crossPoolBlocks, int numStateLayers, int numCrossLayers, int numPools, int windowPool, int statePool,
      int crossPool) {
    static Estimate read(kvc_memory_estimate i) {
      return new Estimate(i.getBytes_per_token(), i.getFull_block_bytes(), i.getWindow_block_bytes(), i.getFull_blocks(), i.getWindow_blocks(),
          i.getSequence_bytes(), i.getTotal_bytes(), i.getMax_tokens(), i.getMax_sequences(), (int) i.getNum_full_layers(),
          (int) i.getNum_window_layers(), i.getResidual_bytes(), i.getBudget_bytes(), i.getPool_blocks(), i.getWindow_pool_blocks(),
          i.getState_block_bytes(), i.getCross_block_bytes(), i.getState_blocks(), i.getCross_blocks(), i.getState_pool_blocks(),
          i.getCross_pool_blocks(), (int) i.getNum_state_layers(), (int) i.getNum_cross_layers(), (int) i.getNum_pools(),
          (int) i.getWindow_pool(), (int) i.getState_pool(), (int) i.getCross_pool());
    }
  }
}
