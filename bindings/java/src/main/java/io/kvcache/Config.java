// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

import java.lang.ref.Reference;
import java.util.List;
import java.util.Objects;

/**
 * Shape and limits of a manager: {@code new Config().numBlocks(4096)}. Only the number of blocks has no default. See kvc_manager_config.
 */
public final class Config extends ConfigCalls {
  long[] pools = {0};
  long[] rooms = {};
  List<Group> groups = List.of();
  Model model;
  Model.Query memory;
  int blockSize, vocabSize, flags, maxQuotas;
  long maxNodes, maxRequests, maxRequestTokens, eventCapacity, seed, watermarkBlocks, policyHistory, recordBytes;
  Policy policy = Policy.LRU;
  double policyWeight;

  /**
   * A group of layers with one block table per request.
   *
   * @param windowTokens tokens that a query reads, itself included; 0 = full attention, or chunks
   * @param numSinkTokens with a window: first tokens that stay readable
   * @param retentionTokens with a window or chunks: also keep what a hit needs that ends at a multiple of this many tokens
   * @param pool index of its pool
   * @param chunkTokens chunked local attention: a query reads the earlier tokens of its chunk of so many tokens, and itself; 0 = no chunks
   * @param state recurrent state (Mamba, linear attention): a block holds the state after some number of tokens, after c tokens the one at
   *     position (c - 1) / blockSize of the table. A step from c to e tokens reads it there and writes the new one at (e - 1) / blockSize.
   *     Only steps' ends have blocks. A commit that ends at a multiple of blockSize publishes the state there, and hits end at such
   *     checkpoints: see {@link Request.Info#nextCheckpoint}
   * @param maxCheckpoints with a state: cached states at most; the group needs a pool of its own; 0 = as many as the pool has room for
   * @param isCross cross-attention: a query reads the tokens of the request's encoder
   */
  public record Group(
      long windowTokens, int numSinkTokens, long retentionTokens, int pool, long chunkTokens, boolean state, long maxCheckpoints,
      boolean isCross) {
    /** Refuses negative numbers. */
    public Group {
      Sizes.count("windowTokens", windowTokens);
      Sizes.count("numSinkTokens", numSinkTokens);
      Sizes.count("retentionTokens", retentionTokens);
      Sizes.count("pool", pool);
      Sizes.count("chunkTokens", chunkTokens);
      Sizes.count("maxCheckpoints", maxCheckpoints);
    }

    /** Without cross-attention. */
    public Group(long windowTokens, int numSinkTokens, long retentionTokens, int pool, long chunkTokens, boolean state, long maxCheckpoints) {
      this(windowTokens, numSinkTokens, retentionTokens, pool, chunkTokens, state, maxCheckpoints, false);
    }

    /** Without a state. */
    public Group(long windowTokens, int numSinkTokens, long retentionTokens, int pool, long chunkTokens) {
      this(windowTokens, numSinkTokens, retentionTokens, pool, chunkTokens, false, 0, false);
    }

    /** A recurrent state in a pool. */
    public static Group state(int pool, long retentionTokens, long maxCheckpoints) {
      return new Group(0, 0, retentionTokens, pool, 0, true, maxCheckpoints, false);
    }

    /** Cross-attention, in a pool. Such groups are the last ones, behind another one. */
    public static Group cross(int pool) {
      return new Group(0, 0, 0, pool, 0, false, 0, true);
    }

    /** Full attention, or a sliding window. */
    public Group(long windowTokens, int numSinkTokens, long retentionTokens, int pool) {
      this(windowTokens, numSinkTokens, retentionTokens, pool, 0);
    }

    /** Full attention in pool 0. */
    public Group() {
      this(0, 0, 0, 0);
    }
  }

  /** Blocks of the only pool, or the blocks of each pool. */
  public Config numBlocks(long... blocks) {
    for (long count : blocks) {
      Sizes.count("numBlocks", count);
    }
    pools = blocks.clone();
    return this;
  }

  /**
   * Instead of numBlocks and groups: the blocks and groups that a model has within a budget, such as
   * {@code new Config().memory(Model.find("llama-3.1-8b"), Model.Query.ofBudget(DType.BFLOAT16, 8L << 30))}.
   */
  public Config memory(Model of, Model.Query budget) {
    model = Objects.requireNonNull(of, "model");
    memory = Objects.requireNonNull(budget, "budget");
    return this;
  }

  /** Tokens per block, 16 by default. */
  public Config blockSize(int tokens) {
    blockSize = Sizes.count("blockSize", tokens);
    return this;
  }

  /** Token ids must be below this; 0 = only non-negative. */
  public Config vocabSize(int size) {
    vocabSize = Sizes.count("vocabSize", size);
    return this;
  }

  /** One group of full attention by default. */
  public Config groups(Group... list) {
    groups = List.of(list);
    return this;
  }

  /** Prefix positions to remember. */
  public Config maxNodes(long nodes) {
    maxNodes = Sizes.count("maxNodes", nodes);
    return this;
  }

  /** Requests at one time, 1024 by default. */
  public Config maxRequests(long requests) {
    maxRequests = Sizes.count("maxRequests", requests);
    return this;
  }

  /** Tokens of one request, 2^24 by default. */
  public Config maxRequestTokens(long tokens) {
    maxRequestTokens = Sizes.count("maxRequestTokens", tokens);
    return this;
  }

  /** Events kept for {@link Manager#events}; none by default. */
  public Config eventCapacity(long events) {
    eventCapacity = Sizes.count("eventCapacity", events);
    return this;
  }

  /** Secret of the table hash, random by default. It never changes a result. */
  public Config seed(long secret) {
    seed = secret;
    return this;
  }

  /** Blocks that an admission must leave available. */
  public Config watermarkBlocks(long blocks) {
    watermarkBlocks = Sizes.count("watermarkBlocks", blocks);
    return this;
  }

  /** {@link Policy#LRU} by default. */
  public Config policy(Policy choice) {
    policy = Objects.requireNonNull(choice, "policy");
    return this;
  }

  /** FREQUENCY: what a doubling of the uses is worth, in pools, 0 to 1000; 0 = 1. FRAGMENTATION: 0 = as LRU .. 1 = all fragments leave first. */
  public Config policyWeight(double weight) {
    policyWeight = weight;
    return this;
  }

  /** FREQUENCY: evicted positions whose uses are remembered; 0 = 4 times the blocks. */
  public Config policyHistory(long positions) {
    policyHistory = Sizes.count("policyHistory", positions);
    return this;
  }

  /** Namespaces that may have a quota ({@link Manager#setQuota}), at most 63; 0 by default. */
  public Config maxQuotas(int namespaces) {
    Sizes.count("maxQuotas", namespaces);
    maxQuotas = namespaces;
    return this;
  }

  /** Blocks to which {@link Manager#resize} may enlarge each pool; none = as many as they have. Room costs addresses, not memory. */
  public Config maxBlocks(long... blocks) {
    for (long count : blocks) {
      Sizes.count("maxBlocks", count);
    }
    rooms = blocks.clone();
    return this;
  }

  /** Remembers how many tokens ended requests got, for {@link RequestOptions#headroom} and {@link Manager#expectedTokens}. */
  public Config headroom() {
    flags |= Native.KVC_MANAGER_HEADROOM;
    return this;
  }

  /** Hits may end inside a block: the cached block that shares most of the tokens after the hit is copied ({@link Manager#takePending}, {@link Step}). */
  public Config partialReuse() {
    flags |= Native.KVC_MANAGER_PARTIAL_REUSE;
    return this;
  }

  /** Room in bytes for a log of the calls ({@link Manager#takeLog}), at least 4096; 0, the default, is no log. */
  public Config recordBytes(long bytes) {
    recordBytes = Sizes.count("recordBytes", bytes);
    return this;
  }

  /** Reserves block id 0 for the engine. */
  public Config nullBlock() {
    flags |= Native.KVC_MANAGER_NULL_BLOCK;
    return this;
  }

  /** Publishes nothing: nothing is found again. */
  public Config noPrefixCache() {
    flags |= Native.KVC_MANAGER_NO_PREFIX_CACHE;
    return this;
  }

  /** {@link Manager#takePending} lists the blocks that move from one namespace to another, to be cleared. */
  public Config zeroCrossNamespace() {
    flags |= Native.KVC_MANAGER_ZERO_CROSS_NAMESPACE;
    return this;
  }

  /** {@link Manager#takePending} lists all blocks that are handed out, to be cleared. */
  public Config zeroAlways() {
    flags |= Native.KVC_MANAGER_ZERO_ALWAYS;
    return this;
  }

  /** Takes all memory of the manager from the system at creation, not when it is first used. */
  public Config touchMemory() {
    flags |= Native.KVC_MANAGER_TOUCH_MEMORY;
    return this;
  }

  /** Follow which request computes which tokens: {@link RequestOptions#waitUntilNs}, {@link Manager#failStep}. */
  public Config fills() {
    flags |= Native.KVC_MANAGER_FILLS;
    return this;
  }

  /** Evicts by priorities before the policy: {@link Request#setPriority}, {@link Request#endSession}, {@link Manager#setPrefixPriority}. */
  public Config hints() {
    flags |= Native.KVC_MANAGER_HINTS;
    return this;
  }

  interface Creating {
    void create(kvc_manager_config config, long[] address) throws KvCacheException;
  }

  long create() throws KvCacheException {
    return create(Native::kvc_manager_create);
  }

  long create(Creating creating) throws KvCacheException {
    if (rooms.length != 0 && rooms.length != Math.max(pools.length, 1)) {
      throw new IllegalArgumentException("maxBlocks has " + rooms.length + " numbers for " + Math.max(pools.length, 1) + " pools; give one for each, or none");
    }
    kvc_pool_config poolArray = pools.length > 1 ? Native.new_kvc_pool_configs(pools.length) : null;
    kvc_group_config groupArray = groups.isEmpty() ? null : Native.new_kvc_group_configs(groups.size());
    try (kvc_manager_config config = new kvc_manager_config(); kvc_memory_query query = model == null ? null : Model.query(memory)) {
      config.setBlock_size(blockSize);
      config.setVocab_size(vocabSize);
      config.setFlags(flags);
      config.setMax_nodes(maxNodes);
      config.setMax_requests(maxRequests);
      config.setMax_request_tokens(maxRequestTokens);
      config.setEvent_capacity(eventCapacity);
      config.setSeed(seed);
      config.setWatermark_blocks(watermarkBlocks);
      config.setPolicy(policy.ordinal());
      config.setPolicy_weight(policyWeight);
      config.setPolicy_history(policyHistory);
      config.setMax_quotas(maxQuotas);
      config.setRecord_bytes(recordBytes);
      if (poolArray == null) {
        config.setNum_blocks(pools.length == 0 ? 0 : pools[0]);
        config.setMax_blocks(rooms.length == 0 ? 0 : rooms[0]);
      } else {
        fill(config, poolArray);
      }
      if (groupArray != null) {
        fill(config, groupArray);
      }
      if (query != null) {
        config.set_memory(model.c, query);
      }
      long[] address = new long[1];
      creating.create(config, address);
      return address[0];
    } finally {
      Reference.reachabilityFence(model);
      if (poolArray != null) {
        Native.delete_kvc_pool_configs(poolArray);
      }
      if (groupArray != null) {
        Native.delete_kvc_group_configs(groupArray);
      }
    }
  }

  private void fill(kvc_manager_config config, kvc_pool_config array) {
    config.setPools(array);
    config.setNum_pools(pools.length);
    for (int i = 0; i < pools.length; ++i) {
      try (kvc_pool_config pool = new kvc_pool_config()) {
        pool.setNum_blocks(pools[i]);
        pool.setMax_blocks(rooms.length == 0 ? 0 : rooms[i]);
        Native.kvc_pool_configs_setitem(array, i, pool);
      }
    }
  }

  private void fill(kvc_manager_config config, kvc_group_config array) {
    config.setGroups(array);
    config.setNum_groups(groups.size());
    for (int i = 0; i < groups.size(); ++i) {
      Group from = groups.get(i);
      kvc_group_config group = new kvc_group_config();
      group.setKind(
          from.isCross() ? Native.KVC_GROUP_CROSS
              : from.state() ? Native.KVC_GROUP_STATE
              : from.windowTokens() != 0 ? Native.KVC_GROUP_SLIDING_WINDOW
              : from.chunkTokens() != 0 ? Native.KVC_GROUP_CHUNKED_LOCAL
              : Native.KVC_GROUP_FULL);
      group.setMax_checkpoints(from.maxCheckpoints());
      group.setChunk_tokens(from.chunkTokens());
      group.setWindow_tokens(from.windowTokens());
      group.setNum_sink_tokens(from.numSinkTokens());
      group.setRetention_tokens(from.retentionTokens());
      group.setPool(from.pool());
      Native.kvc_group_configs_setitem(array, i, group);
      group.close();
    }
  }
}
