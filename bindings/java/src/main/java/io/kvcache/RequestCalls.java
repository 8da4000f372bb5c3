// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Request} has that follows from the C headers. Written by scripts/generate. */
public abstract class RequestCalls {
  RequestCalls() {}

  abstract void call(Manager.Call call) throws KvCacheException;

  abstract long id();

  /**
   * State of a request: kvc_request_info.
   *
   * @param namespaceId As configured.
   * @param userData As configured.
   * @param numTokens Known tokens.
   * @param numCommitted Tokens whose KV is written.
   * @param numCached Tokens of the hit at the last admission.
   * @param capacity Tokens that have slots; 0 while waiting.
   * @param numBlocks Blocks held in all groups.
   * @param lostReuseTokens Tokens that one group had cached and another had not, at the last admission.
   * @param minTruncateTokens Smallest non-zero length that Request.truncate can restore. Without sink tokens it can restore every greater length
   *     too; with them it may refuse lengths between the sinks and the present window.
   * @param admitted true = holds blocks, false = waiting.
   * @param flags KVC_REQUEST_* as configured.
   * @param nextCheckpoint State groups: end your next step here, and commit it. The smallest count above numCommitted that is: the end of the last
   *     full block before the prompt's last token, with or without dropTailBlocks; the end of what the other groups had cached at the admission; a
   *     multiple of a group's retentionTokens. 0 = none, no state group, a waiting request, or one that publishes nothing. Since 0.3.
   * @param crossTokens As configured. Since 0.3.
   * @param numCrossCached crossTokens if the last admission found the KV of all of the encoder's tokens, so that the encoder need not run; else 0.
   *     A fork has crossTokens here if they are written. Since 0.3.
   * @param lostGroup If lostReuseTokens is not 0: the group that alone could reuse least (the first of equal ones), and why most of the tokens
   *     were lost (KVC_LOST_*). Else 0. Since 0.3.
   * @param lostReason If lostReuseTokens is not 0: the group that alone could reuse least (the first of equal ones), and why most of the tokens
   *     were lost (KVC_LOST_*). Else 0. Since 0.3.
   */
  public record Info(long namespaceId, long userData, long numTokens, long numCommitted, long numCached, long capacity, long numBlocks,
      long lostReuseTokens, long minTruncateTokens, boolean admitted, int flags, long nextCheckpoint, long crossTokens, long numCrossCached,
      int lostGroup, int lostReason) {
    static Info read(kvc_request_info i) {
      return new Info(i.getNamespace_id(), i.getUser_data(), i.getNum_tokens(), i.getNum_committed(), i.getNum_cached(), i.getCapacity(),
          i.getNum_blocks(), i.getLost_reuse_tokens(), i.getMin_truncate_tokens(), i.getAdmitted() != 0, (int) i.getFlags(),
          i.getNext_checkpoint(), i.getCross_tokens(), i.getNum_cross_cached(), (int) i.getLost_group(), (int) i.getLost_reason());
    }
  }

  /**
   * Gives the request slots for `capacity` tokens in all, without token ids (the next chunk of a prefill, asynchronous scheduling). Does nothing
   * if the capacity is that large. May need copies: Manager.takePending. The request keeps these slots until it is truncated, preempted or freed:
   * appends within them (known tokens and lookahead) need no block and are never NO_SPACE, unless the request was forked or a block of it was
   * pinned meanwhile. Since 0.1.
   *
   * @throws KvCacheException NO_SPACE, AGAIN, OVER_QUOTA, NEVER_FITS, NOT_FOUND, BUSY (waiting), LIMIT (maxRequestTokens), OUT_OF_MEMORY
   */
  public void reserve(long capacity) throws KvCacheException {
    Sizes.count("capacity", capacity);
    call(c -> Native.kvc_manager_reserve_tokens(c, id(), capacity));
  }

  /**
   * Keeps the first numTokens tokens (absolute) and returns the rest. Blocks that this request published past them are unpublished, unless others
   * can reach them: a longer prefix is known, or a block of the position, in any group, has another holder or a copy. The same rule applies to the
   * published block that is cut. If it stays published, it is copied before the next write. With a state group, 0 and lengths from the committed
   * one on are possible; a length whose token has no state block leaves slots for the committed tokens alone, fewer than asked: see
   * Request.Info.capacity. If a kernel has run past the committed tokens, restore their state before the next step. To go back to a checkpoint,
   * preempt the request, truncate it and admit it again. Extra keys that begin behind the kept tokens are dropped. If a kept one goes on behind
   * them, what comes there later is never taken for what that key stands for. Do not cut inside a span whose tokens see later ones (images in
   * Gemma 3): the kept ones were computed with what is gone. Since 0.1.
   *
   * @throws KvCacheException INVALID_ARGUMENT (more than known), NOT_FOUND; UNSUPPORTED if a window or a state needed at that length is gone (the
   *     text has the next lower and higher possible lengths; 0 is always possible); OUT_OF_MEMORY
   */
  public void truncate(long numTokens) throws KvCacheException {
    Sizes.count("numTokens", numTokens);
    call(c -> Native.kvc_manager_truncate_request(c, id(), numTokens));
  }

  /**
   * Returns all blocks of an admitted request, which then waits. It keeps its tokens. What it published can be hit when it is admitted again.
   * Since 0.1.
   *
   * @throws KvCacheException NOT_FOUND, BUSY (waiting already), OUT_OF_MEMORY
   */
  public void preempt() throws KvCacheException {
    call(c -> Native.kvc_manager_preempt_request(c, id()));
  }

  /**
   * State of a request. Since 0.1.
   *
   * @throws KvCacheException NOT_FOUND, INVALID_ARGUMENT
   */
  public Info info() throws KvCacheException {
    try (kvc_request_info info = new kvc_request_info()) {
      call(c -> Native.kvc_manager_request_info(c, id(), info));
      return Info.read(info);
    }
  }

  /**
   * Says that nobody will continue a request. When it is freed, its private tail is demoted, the last position first. The tail starts at its last
   * published position, or if it is waiting at the last known position of its tokens, and goes towards the root. It stops where a longer prefix is
   * known, another request ends, or a block is held, and at sharedTokens. A later hit, or a request that computes the position again, takes the
   * demotion back: its priority is 35. A fork is not marked. Thread-safe. Since 0.3.
   *
   * @param sharedTokens First tokens that are not demoted, such as a system prompt that only this session uses now; 0 = none.
   * @throws KvCacheException NOT_FOUND; UNSUPPORTED (without KVC_MANAGER_HINTS)
   */
  public void endSession(long sharedTokens) throws KvCacheException {
    Sizes.count("sharedTokens", sharedTokens);
    call(c -> Native.kvc_manager_end_session(c, id(), sharedTokens));
  }
}
