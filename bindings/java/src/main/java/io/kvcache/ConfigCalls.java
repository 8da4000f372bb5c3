// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Config} has that follows from the C headers. Written by scripts/generate. */
public abstract class ConfigCalls {
  ConfigCalls() {}

  /** Which cached block is evicted first. */
  public enum Policy {
    /** Evicts the least recently released block first; of one request the last block first. */
    LRU,
    /**
     * Evicts the block with the least t + A * log2(uses) first. t is when it was released, counted in blocks of its pool that became cached; A is
     * policyWeight * blocks of the pool. Uses are the requests that held the block's prefix position by a hit or by publishing it, remembered for
     * policyHistory evicted positions; 128 and more are equal. For prompts that come back after others. Since 0.3.
     */
    FREQUENCY,
    /**
     * Evicts fragments first: cached blocks that no hit can use, because another full-attention group has no block at their position. Only a
     * manager with several groups has them. Since 0.3.
     */
    FRAGMENTATION
  }
}
