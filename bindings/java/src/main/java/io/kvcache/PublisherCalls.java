// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** What {@link Publisher} has that follows from the C headers. Written by scripts/generate. */
public abstract class PublisherCalls {
  PublisherCalls() {}

  abstract void call(Manager.Call call) throws KvCacheException;

  /** What blocks are called. */
  public enum Hash {
    /** kvc_event.digest. */
    DIGEST,
    /** As vLLM with --prefix-caching-hash-algo sha256_cbor. Extra keys: a digest where vLLM has a name. */
    VLLM,
    /** As SGLang. */
    SGLANG
  }

  /**
   * Counters of a publisher, from its creation on: kvc_publisher_stats.
   *
   * @param nextSequence Batches published, also the number of the next one.
   * @param storedBlocks Told in BlockStored.
   * @param removedBlocks Told in BlockRemoved.
   * @param cancelledEvents Not told: stored and removed, or removed and stored, in one batch.
   * @param bytes Of all payloads.
   * @param resyncs AllBlocksCleared with all that is cached behind it; the first one too.
   * @param lostEvents Left the manager's ring before they were read. A resync followed.
   * @param unresolvedBlocks Not told: VLLM, SGLANG, and the parent is in none of the `groups`.
   * @param slowBatches Did not reach a subscriber whose queue is full. It must ask for replay.
   * @param failedBatches Not taken by the transport. Subscribers must ask for replay.
   * @param replayRequests Answered.
   * @param replayedBatches Sent in answers.
   * @param replayMisses Requests for a batch that is not kept any more.
   * @param badRequests That are no requests.
   * @param keptBatches For replay, now.
   * @param keptBytes Of their payloads.
   */
  public record Stats(long nextSequence, long storedBlocks, long removedBlocks, long cancelledEvents, long bytes, long resyncs, long lostEvents,
      long unresolvedBlocks, long slowBatches, long failedBatches, long replayRequests, long replayedBatches, long replayMisses, long badRequests,
      long keptBatches, long keptBytes) {
    static Stats read(kvc_publisher_stats i) {
      return new Stats(i.getNext_sequence(), i.getStored_blocks(), i.getRemoved_blocks(), i.getCancelled_events(), i.getBytes(), i.getResyncs(),
          i.getLost_events(), i.getUnresolved_blocks(), i.getSlow_batches(), i.getFailed_batches(), i.getReplay_requests(),
          i.getReplayed_batches(), i.getReplay_misses(), i.getBad_requests(), i.getKept_batches(), i.getKept_bytes());
    }
  }

  /**
   * Publishes the events that the manager has now, and answers requests for replay. Without KVC_PUBLISHER_THREAD call it after each step, or from
   * a thread of yours. Succeeds also if the transport failed (Publisher.Stats.failedBatches). Any thread may call. Since 0.3.
   *
   * @return Batches published by this call.
   * @throws KvCacheException OUT_OF_MEMORY
   */
  public long poll() throws KvCacheException {
    long[] out = new long[1];
    call(c -> Native.kvc_publisher_poll(c, out));
    return out[0];
  }

  /** Makes the next look publish AllBlocksCleared and all that is cached, for subscribers that join late. Any thread may call. Since 0.3. */
  public void resync() throws KvCacheException {
    call(c -> Native.kvc_publisher_resync(c));
  }

  /**
   * Reads the counters. Any thread may call. Since 0.3.
   *
   * @throws KvCacheException INVALID_ARGUMENT
   */
  public Stats stats() throws KvCacheException {
    try (kvc_publisher_stats info = new kvc_publisher_stats()) {
      call(c -> Native.kvc_publisher_read_stats(c, info));
      return Stats.read(info);
    }
  }
}
