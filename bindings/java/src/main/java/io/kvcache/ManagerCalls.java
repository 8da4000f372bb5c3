// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Manager} has that follows from the C headers. Written by scripts/generate. */
public abstract class ManagerCalls {
  ManagerCalls() {}

  abstract void call(Manager.Call call) throws KvCacheException;

  /**
   * What a curve has seen (Manager.curve): kvc_curve_info.
   *
   * @param sampleRate Share of the blocks that it follows.
   * @param maxSamples Samples that maxBlocks blocks have.
   * @param maxBlocks Largest size to ask for.
   * @param halfLife Block queries; 0 = none.
   * @param queries Block queries, earlier ones as halfLife says.
   * @param sampled Sampled queries, without those that requests do not allow.
   * @param numSamples Blocks that it follows now.
   * @param bytes Its memory, from the manager's allocator.
   */
  public record CurveInfo(double sampleRate, long maxSamples, long maxBlocks, long halfLife, double queries, double sampled, long numSamples,
      long bytes) {
    static CurveInfo read(kvc_curve_info i) {
      return new CurveInfo(i.getSample_rate(), i.getMax_samples(), i.getMax_blocks(), i.getHalf_life(), i.getQueries(), i.getSampled(),
          i.getNum_samples(), i.getBytes());
    }
  }

  /**
   * The log of a manager: kvc_log_info.
   *
   * @param capacity Config.recordBytes; 0 = nothing is recorded.
   * @param bytes Bytes that Manager.takeLog would give now.
   * @param calls Calls logged since creation, taken or not.
   * @param lostCalls Calls after the log was full. If this is not 0, recording has ended.
   */
  public record LogInfo(long capacity, long bytes, long calls, long lostCalls) {
    static LogInfo read(kvc_log_info i) {
      return new LogInfo(i.getCapacity(), i.getBytes(), i.getCalls(), i.getLost_calls());
    }
  }

  /**
   * The share of a namespace in one pool: kvc_quota_info.
   *
   * @param minBlocks As set.
   * @param maxBlocks As set; 0 = no maximum.
   * @param held Gauge: blocks that its requests, pins and external holds hold.
   * @param cached Gauge: its cached blocks.
   * @param fenced Gauge: its released blocks that steps in flight may still write to.
   * @param available Gauge: blocks that an admission or an extension of the namespace may take, hits on cached blocks and the watermark included.
   * @param refusals Admissions and extensions that its maximum in this pool refused (OVER_QUOTA), since it has the quota.
   * @param blockQueries As in Stats, of this namespace, since it has the quota; the same in all pools.
   * @param blockHits As in Stats, of this namespace, since it has the quota; the same in all pools.
   */
  public record QuotaInfo(long minBlocks, long maxBlocks, long held, long cached, long fenced, long available, long refusals, long blockQueries,
      long blockHits) {
    static QuotaInfo read(kvc_quota_info i) {
      return new QuotaInfo(i.getMin_blocks(), i.getMax_blocks(), i.getHeld(), i.getCached(), i.getFenced(), i.getAvailable(), i.getRefusals(),
          i.getBlock_queries(), i.getBlock_hits());
    }
  }

  /**
   * Blocks of one pool by state. The states sum to numBlocks: kvc_pool_info.
   *
   * @param firstBlock Lowest block id, null block included.
   * @param numBlocks Usable blocks that it has now.
   * @param free Blocks by state.
   * @param cached Blocks by state.
   * @param live Blocks by state.
   * @param reserved Blocks by state.
   * @param filling Blocks by state.
   * @param fenced Blocks by state.
   * @param pinned Blocks by state.
   * @param maxBlocks As configured: its ids are below firstBlock + maxBlocks. Since 0.3.
   */
  public record PoolInfo(long firstBlock, long numBlocks, long free, long cached, long live, long reserved, long filling, long fenced,
      long pinned, long maxBlocks) {
    static PoolInfo read(kvc_pool_info i) {
      return new PoolInfo(i.getFirst_block(), i.getNum_blocks(), i.getFree(), i.getCached(), i.getLive(), i.getReserved(), i.getFilling(),
          i.getFenced(), i.getPinned(), i.getMax_blocks());
    }
  }

  /**
   * The lost reuse of a group: sums over the admissions that Stats.admissions counts. Each had a prefix that one group alone could have reused the
   * most of (Stats.lostReuseTokens is that less the hit): kvc_lost_reuse.
   *
   * @param admissions Admissions that add to the numbers below.
   * @param blockTokens Tokens that this group could not reuse because a block was missing: KVC_LOST_BLOCK.
   * @param windowTokens The same, a block of its window or chunk: KVC_LOST_WINDOW.
   * @param stateTokens The same, a checkpoint: KVC_LOST_STATE.
   * @param agreementTokens KVC_LOST_AGREEMENT: that every group alone could reuse and all together could not. Counted in the group that could
   *     reuse least, the first of equal ones.
   * @param nodeTokens KVC_LOST_NODES: in full blocks that requests knew and did not publish when all positions were in use, the same in each
   *     group. Not counted in admissions and Stats.lostReuseTokens.
   */
  public record LostReuse(long admissions, long blockTokens, long windowTokens, long stateTokens, long agreementTokens, long nodeTokens) {
    static LostReuse read(kvc_lost_reuse i) {
      return new LostReuse(i.getAdmissions(), i.getBlock_tokens(), i.getWindow_tokens(), i.getState_tokens(), i.getAgreement_tokens(),
          i.getNode_tokens());
    }
  }

  /**
   * State of one block: kvc_block_info.
   *
   * @param tokenOffset If published: position of its first token.
   * @param state KVC_BLOCK_*
   * @param pool Index of its pool.
   * @param requests References of requests.
   * @param externalHolds Holds of Manager.acquireBlocks and Manager.acquirePrefix.
   * @param pins Holds of Manager.pin.
   * @param published true = attached to a prefix position.
   * @param numCopies Published blocks with the same identity and group, itself included; 0 if not published.
   * @param group Group of its present content; -1 if never used.
   */
  public record BlockInfo(long tokenOffset, int state, int pool, int requests, int externalHolds, int pins, boolean published, int numCopies,
      int group) {
    static BlockInfo read(kvc_block_info i) {
      return new BlockInfo(i.getToken_offset(), (int) i.getState(), (int) i.getPool(), (int) i.getRequests(), (int) i.getExternal_holds(),
          (int) i.getPins(), i.getPublished() != 0, (int) i.getNum_copies(), (int) i.getGroup());
    }
  }

  /**
   * Answer of Manager.probeInfo and Manager.probeRequest: kvc_probe_info.
   *
   * @param numCached Tokens that would hit.
   * @param blocksNeeded Blocks taken from the tightest pool (the least left over), hits that nobody holds included, the watermark not. Use `fits`
   *     to decide.
   * @param blocksAvailable Free and evictable blocks of that pool; with quotas those that it may take.
   * @param lostReuseTokens As in Request.Info.
   * @param fits true = the admission has space in every pool, watermark included; false = it is NO_SPACE, AGAIN, OVER_QUOTA or NEVER_FITS. It is
   *     about space alone: with waitUntilNs the admission may be FILLING all the same, or, if no time was told, INVALID_ARGUMENT.
   * @param neverFits true = an admission with the request's own slots is NEVER_FITS: end the request, unless a step can admit it with fewer
   *     (kvc_step.admitSlots), which no probe knows. false = it fits now, or may fit later. Since 0.3.
   * @param fillingRequest Manager.probeRequest: the request to wait for, which computes the block after numCached. 0 = none does; a step in flight
   *     may still write it, which is FILLING too. Manager.probeInfo: 0. Since 0.3.
   * @param nextCheckpoint Manager.probeRequest, with state groups: what Request.Info.nextCheckpoint will be right after this admission. Its first
   *     step can end there: give it nextCheckpoint - numCached slots, less the externalTokens, if that is positive; else the transfer passes it. 0
   *     = none. Manager.probeInfo: 0. Since 0.3.
   */
  public record ProbeInfo(long numCached, long blocksNeeded, long blocksAvailable, long lostReuseTokens, boolean fits, boolean neverFits,
      long fillingRequest, long nextCheckpoint) {
    static ProbeInfo read(kvc_probe_info i) {
      return new ProbeInfo(i.getNum_cached(), i.getBlocks_needed(), i.getBlocks_available(), i.getLost_reuse_tokens(), i.getFits() != 0,
          i.getNever_fits() != 0, i.getFilling_request(), i.getNext_checkpoint());
    }
  }

  /**
   * A device: kvc_device_info.
   *
   * @param memoryBytes Total memory; of the CPU at most what control groups allow; 0 = unknown.
   * @param memoryKinds Bits 1 &lt;&lt; KVC_MEMORY_* that a storage on the device may have.
   * @param numProcessors Hardware threads or multiprocessors; 0 = unknown.
   * @param freeBytes Memory that is free now; of the CPU what the process can still take, caches that the system can drop included; 0 = unknown.
   * @param name "NVIDIA H200"; "" = unknown. The library owns the text.
   * @param architecture "sm90", "gfx90a"; "" = unknown. The library owns the text.
   * @param dlpackDevice DLDeviceType of its memory: 1 CPU, 2 CUDA, 10 ROCm.
   * @param flags KVC_DEVICE_*
   * @param swapOutKernelBytes Storage.swapOut copies runs (Storage.runs of a block) that are shorter than this by a kernel, longer ones by the
   *     copy engine. An estimate without KVC_DEVICE_SWAP_MEASURED. 0 = always the copy engine; -1 = always a kernel. 0 on the CPU.
   * @param swapInKernelBytes The same for Storage.swapIn.
   */
  public record DeviceInfo(long memoryBytes, int memoryKinds, int numProcessors, long freeBytes, String name, String architecture,
      int dlpackDevice, int flags, long swapOutKernelBytes, long swapInKernelBytes) {
    static DeviceInfo read(kvc_device_info i) {
      return new DeviceInfo(i.getMemory_bytes(), (int) i.getMemory_kinds(), (int) i.getNum_processors(), i.getFree_bytes(), i.getName(),
          i.getArchitecture(), (int) i.getDlpack_device(), (int) i.getFlags(), i.getSwap_out_kernel_bytes(), i.getSwap_in_kernel_bytes());
    }
  }

  /**
   * What Manager.replayLog found: kvc_replay_info.
   *
   * @param calls Calls made again.
   * @param mismatches Calls with another status or result than in the log.
   * @param firstMismatch Number of the first of them, from 1; 0 = none.
   * @param digest Manager.digest after the last call.
   * @param lostCalls Calls that the log lost at its end, because it was full.
   * @param libraryVersion Of the library that wrote the log: major * 10000 + minor * 100 + patch.
   * @param text The first mismatch: call, result, both values. Empty without one.
   */
  public record LogReplay(long calls, long mismatches, long firstMismatch, long digest, long lostCalls, int libraryVersion, String text) {
    static LogReplay read(kvc_replay_info i) {
      return new LogReplay(i.getCalls(), i.getMismatches(), i.getFirst_mismatch(), i.getDigest(), i.getLost_calls(), (int) i.getLibrary_version(),
          i.getText());
    }
  }

  /**
   * Closes a namespace once. The last close drops its cached blocks and invalidates its id. Since 0.1.
   *
   * @throws KvCacheException NOT_FOUND; BUSY (the last close while requests, pins or registered prompts of it exist); INVALID_ARGUMENT for id 0
   */
  public void closeNamespace(long namespace) throws KvCacheException {
    call(c -> Native.kvc_manager_close_namespace(c, namespace));
  }

  /**
   * Forgets all cached content of a namespace, for example after new weights. Constant time, plus its registered prompts, whose pins end, plus the
   * samples of a curve of all namespaces. Requests keep their blocks and finish, but publish nothing more. Old content is never hit. Since 0.3.
   *
   * @param namespace A namespace; 0 = the default one alone.
   * @throws KvCacheException NOT_FOUND, LIMIT (after 2^47 resets)
   */
  public void resetNamespace(long namespace) throws KvCacheException {
    call(c -> Native.kvc_manager_reset_namespace(c, namespace));
  }

  /**
   * Forgets all cached content of all namespaces, as Manager.resetNamespace of each would. Constant time, plus all registered prompts and the
   * samples of curves. Since 0.3.
   *
   * @throws KvCacheException LIMIT (after 2^47 resets)
   */
  public void resetAll() throws KvCacheException {
    call(c -> Native.kvc_manager_reset_all(c));
  }

  /**
   * Counts of one pool. Since 0.1.
   *
   * @throws KvCacheException INVALID_ARGUMENT (no such pool)
   */
  public PoolInfo poolInfo(int pool) throws KvCacheException {
    Sizes.count("pool", pool);
    try (kvc_pool_info info = new kvc_pool_info()) {
      call(c -> Native.kvc_manager_pool_info(c, pool, info));
      return PoolInfo.read(info);
    }
  }

  /**
   * State of one block. Since 0.1.
   *
   * @throws KvCacheException INVALID_ARGUMENT (no such block, the null block)
   */
  public BlockInfo blockInfo(int block) throws KvCacheException {
    try (kvc_block_info info = new kvc_block_info()) {
      call(c -> Native.kvc_manager_block_info(c, block, info));
      return BlockInfo.read(info);
    }
  }

  /**
   * Checks every invariant of the state, in O(blocks + nodes). Since 0.1.
   *
   * @throws KvCacheException CORRUPT (the text has the first broken invariant); OUT_OF_MEMORY
   */
  public void check() throws KvCacheException {
    call(c -> Native.kvc_manager_check(c));
  }

  /**
   * Hashes the state in O(blocks + nodes): blocks, order of lists, cached prefixes by content, requests, namespaces, epochs, and whether steps are
   * in flight. Statistics, events, error texts and step numbers do not count. Equal sequences of calls give equal digests in any build, process
   * and seed. Since 0.1.
   */
  public long digest() throws KvCacheException {
    long[] out = new long[1];
    call(c -> Native.kvc_manager_digest(c, out));
    return out[0];
  }

  /**
   * The same for a waiting request, with its options: what Request.admit would do. Holds the lock for O(blocks of the prompt). Since 0.3.
   *
   * @throws KvCacheException NOT_FOUND, BUSY (admitted already), INVALID_ARGUMENT, OUT_OF_MEMORY
   */
  public ProbeInfo probeRequest(long request) throws KvCacheException {
    try (kvc_probe_info info = new kvc_probe_info()) {
      call(c -> Native.kvc_manager_probe_request(c, request, info));
      return ProbeInfo.read(info);
    }
  }

  /**
   * Tells which group loses reuse, and why: which pool to enlarge, or what to retain. Since 0.3.
   *
   * @throws KvCacheException INVALID_ARGUMENT (no such group)
   */
  public LostReuse lostReuse(int group) throws KvCacheException {
    Sizes.count("group", group);
    try (kvc_lost_reuse info = new kvc_lost_reuse()) {
      call(c -> Native.kvc_manager_lost_reuse(c, group, info));
      return LostReuse.read(info);
    }
  }

  /**
   * Ends a pin. Its blocks become the most recently used. A block is FENCED only if a request, a copy or an external hold released it while a step
   * was in flight. Since 0.1.
   *
   * @throws KvCacheException NOT_FOUND
   */
  public void unpin(long pin) throws KvCacheException {
    call(c -> Native.kvc_manager_unpin_prefix(c, pin));
  }

  /**
   * Sets the quota of a namespace in one pool. Blocks that it has already count. If it has more than maxBlocks, cached ones are evicted; what it
   * holds stays, and it gets no more until it holds less. A minimum of 0 and no maximum in every pool end the quota: its blocks come to the common
   * share, the cached ones as the most recently used. The last close of the namespace ends its quota, too. The first quota of a namespace and its
   * end hold the lock for O(blocks); a change does for O(evicted blocks). A failed call changes nothing. Since 0.3.
   *
   * @param namespace A namespace; 0 = the default one.
   * @param pool Index of a pool.
   * @param minBlocks Blocks that it is sure of; 0 = none. The minimums of all namespaces sum to at most the blocks of the pool, the null block not
   *     counted.
   * @param maxBlocks Blocks that it may have, at least minBlocks and at most those of the pool; 0 = no maximum.
   * @throws KvCacheException INVALID_ARGUMENT (no such pool, a minimum above the maximum, a maximum or a sum of minimums above the pool),
   *     NOT_FOUND (namespace), LIMIT (maxQuotas namespaces have one), NO_SPACE (others hold blocks of the minimum now), UNSUPPORTED (maxQuotas is
   *     0)
   */
  public void setQuota(long namespace, int pool, long minBlocks, long maxBlocks) throws KvCacheException {
    Sizes.count("pool", pool);
    Sizes.count("minBlocks", minBlocks);
    Sizes.count("maxBlocks", maxBlocks);
    call(c -> Native.kvc_manager_set_quota(c, namespace, pool, minBlocks, maxBlocks));
  }

  /**
   * The share of a namespace in one pool; of a namespace without a quota the common share of all such namespaces, whose minimum and maximum are 0.
   * Since 0.3.
   *
   * @param namespace A namespace; 0 = the default one.
   * @param pool Index of a pool.
   * @throws KvCacheException INVALID_ARGUMENT (no such pool), NOT_FOUND (namespace), UNSUPPORTED (maxQuotas is 0)
   */
  public QuotaInfo quotaInfo(long namespace, int pool) throws KvCacheException {
    Sizes.count("pool", pool);
    try (kvc_quota_info info = new kvc_quota_info()) {
      call(c -> Native.kvc_manager_quota_info(c, namespace, pool, info));
      return QuotaInfo.read(info);
    }
  }

  /**
   * State of the log. Thread-safe. Since 0.3.
   *
   * @throws KvCacheException INVALID_ARGUMENT
   */
  public LogInfo logInfo() throws KvCacheException {
    try (kvc_log_info info = new kvc_log_info()) {
      call(c -> Native.kvc_manager_log_info(c, info));
      return LogInfo.read(info);
    }
  }

  /**
   * Commits tokens that steps in flight still write. Full blocks of numCommitted tokens are published now, as by Request.commit, so that later
   * steps can hit them. Blocks that left a window, a chunk or a state are returned only as if numComputed tokens were committed, because steps in
   * flight read the others; the next commit returns those. For an engine whose steps run in the order in which it schedules them, on one stream: a
   * step that hits such a block reads it after the step that writes it. Commit only what a step surely writes: no drafts, and externalTokens only
   * if their transfer runs on that stream, too. The library does not see these steps, so all else that reads blocks must run after them:
   * Offload.poll and kvc_offload_flush (when they are over; on their stream only if none can fail), checkpoints, Manager.rebuild, pages and
   * external holders (when they are over), all copies that the manager asks for (on that stream), and readers of the events. If a step fails, call
   * Manager.unpublishBlocks at once for what it and all steps behind it should have written; then preempt or free the requests that hold such a
   * block, or a copy of one. As Request.commit, and INVALID_ARGUMENT if more tokens are computed than committed. UNSUPPORTED with
   * KVC_MANAGER_FILLS and fewer computed than committed tokens: there KVC_REQUEST_PUBLISH_ENQUEUED publishes what a step writes, and
   * Manager.failStep takes it back. Since 0.3.
   *
   * @param numCommitted Absolute count.
   * @param numComputed Absolute count of the tokens whose steps are over, at most numCommitted; if equal, the call is Request.commit.
   */
  public void commitAhead(long request, long numCommitted, long numComputed) throws KvCacheException {
    Sizes.count("numCommitted", numCommitted);
    Sizes.count("numComputed", numComputed);
    call(c -> Native.kvc_manager_commit_ahead(c, request, numCommitted, numComputed));
  }

  /**
   * Tokens that a request with `generated` tokens after its prompt will probably still get. Of ended requests that got at least `generated`
   * tokens, 50, 75 or 95 % (`headroom`) got at most this many more. A request counts when it is freed, if it was ever admitted, with the tokens
   * beyond those that it was created with (a fork: beyond those of its fork). Counts from 16 on are rounded up, by less than 1/8. Old requests
   * fade: whenever 65,536 have been counted, all counts are halved. With nothing to go by it is 0. Since 0.3.
   *
   * @param headroom KVC_HEADROOM_*
   * @param generated Tokens after its prompt; 0 for a new request.
   * @return Expected tokens; with KVC_HEADROOM_NONE 0.
   * @throws KvCacheException INVALID_ARGUMENT (no such number), UNSUPPORTED (without KVC_MANAGER_HEADROOM)
   */
  public long expectedTokens(RequestOptions.Headroom headroom, long generated) throws KvCacheException {
    Sizes.count("generated", generated);
    long[] out = new long[1];
    call(c -> Native.kvc_manager_expected_tokens(c, headroom.ordinal(), generated, out));
    return out[0];
  }

  /**
   * Tells the time. Ends the hints whose time has passed. Costs O(1) for each hint that ends. Thread-safe. Since 0.3.
   *
   * @param nowNs Time of the engine's monotonic clock in nanoseconds, at least that of the last call or step. The first time of a manager is 0.
   * @throws KvCacheException INVALID_ARGUMENT (an earlier time)
   */
  public void setTime(long nowNs) throws KvCacheException {
    Sizes.count("nowNs", nowNs);
    call(c -> Native.kvc_manager_set_time(c, nowNs));
  }

  /**
   * Ends a curve and frees its memory. Since 0.3.
   *
   * @throws KvCacheException NOT_FOUND (namespace, or it has no curve)
   */
  public void closeCurve(long namespace) throws KvCacheException {
    call(c -> Native.kvc_manager_close_curve(c, namespace));
  }

  /**
   * What a curve has seen. Since 0.3.
   *
   * @throws KvCacheException NOT_FOUND (namespace, or it has no curve)
   */
  public CurveInfo curve(long namespace) throws KvCacheException {
    try (kvc_curve_info info = new kvc_curve_info()) {
      call(c -> Native.kvc_manager_curve_info(c, namespace, info));
      return CurveInfo.read(info);
    }
  }

  /**
   * States that the kernels of all steps up to stepId have finished. Blocks fenced for these steps become available. Must not be called for a step
   * before Step.run has returned it; this is not checked. Since 0.1.
   *
   * @throws KvCacheException INVALID_ARGUMENT (a step not issued)
   */
  public void retireStep(long stepId) throws KvCacheException {
    Sizes.count("stepId", stepId);
    call(c -> Native.kvc_manager_retire_step(c, stepId));
  }
}
