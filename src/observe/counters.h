// SPDX-License-Identifier: Apache-2.0
// The counters of a manager, and a snapshot of them that readers take without the lock: a sequence lock over
// relaxed atomics, with one writer at a time (under the manager's lock) and any number of readers.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kvc {

// Field order of kvc_stats after struct_size, all uint64_t: a static_assert in stats.cc keeps both in step.
struct Counters {
  uint64_t epoch;
  uint64_t blocks_total, blocks_free, blocks_cached, blocks_live, blocks_reserved, blocks_filling,
      blocks_fenced, blocks_pinned;
  uint64_t live_requests, waiting_requests;
  uint64_t admissions, prompt_tokens, cached_tokens, block_queries, block_hits, lost_reuse_tokens;
  uint64_t readmissions, refusals, preemptions, evictions, copies, duplicates, published_blocks,
      unpublished_blocks;
  uint64_t rejected_candidates, nodes_used, metadata_bytes, events_dropped;
  uint64_t filling_hits, filling_waits;
  uint64_t partial_hits, partial_tokens;
};

class Snapshot {
 public:
  void publish(const Counters& counters);
  Counters read() const;

 private:
  static constexpr size_t kWords = sizeof(Counters) / sizeof(uint64_t);
  std::atomic<uint64_t> version_{0};  // odd while a write is under way
  std::atomic<uint64_t> words_[kWords] = {};
};

}  // namespace kvc
