// SPDX-License-Identifier: Apache-2.0
package io.kvcache;

/** Counters since creation, and gauges, as of the last finished call: kvc_stats. */
public record Stats(long epoch, long blocksTotal, long blocksFree, long blocksCached, long blocksLive, long blocksReserved, long blocksFilling,
    long blocksFenced, long blocksPinned, long liveRequests, long waitingRequests, long admissions, long promptTokens, long cachedTokens,
    long blockQueries, long blockHits, long lostReuseTokens, long readmissions, long refusals, long preemptions, long evictions, long copies,
    long duplicates, long publishedBlocks, long unpublishedBlocks, long rejectedCandidates, long nodesUsed, long metadataBytes,
    long eventsDropped, long fillingHits, long fillingWaits, long partialHits, long partialTokens) {
  static Stats read(kvc_stats s) {
    return new Stats(s.getEpoch(), s.getBlocks_total(), s.getBlocks_free(), s.getBlocks_cached(), s.getBlocks_live(), s.getBlocks_reserved(),
        s.getBlocks_filling(), s.getBlocks_fenced(), s.getBlocks_pinned(), s.getLive_requests(), s.getWaiting_requests(), s.getAdmissions(),
        s.getPrompt_tokens(), s.getCached_tokens(), s.getBlock_queries(), s.getBlock_hits(), s.getLost_reuse_tokens(), s.getReadmissions(),
        s.getRefusals(), s.getPreemptions(), s.getEvictions(), s.getCopies(), s.getDuplicates(), s.getPublished_blocks(),
        s.getUnpublished_blocks(), s.getRejected_candidates(), s.getNodes_used(), s.getMetadata_bytes(),
        s.getEvents_dropped(), s.getFilling_hits(), s.getFilling_waits(), s.getPartial_hits(), s.getPartial_tokens());
  }

  /** Part of the blocks that is held (neither free nor cached): 0 .. 1. */
  public double usage() {
    return 1 - (double) (blocksFree + blocksCached) / blocksTotal;
  }
}
