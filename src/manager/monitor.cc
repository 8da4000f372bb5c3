// SPDX-License-Identifier: Apache-2.0
#include "manager/monitor.h"

namespace kvc {

void Monitor::publish() {
  const BlockPool& pool = blocks_.pool();
  PoolCounts all = {};
  for (size_t p = 0; p < pool.num_pools(); ++p) {
    const PoolCounts& counts = pool.counts(p);
    all.size += counts.size;
    all.free += counts.free;
    all.lru += counts.lru;
    all.fenced += counts.fenced;
    all.stale += counts.stale;
    all.reserved += counts.reserved;
    all.pinned += counts.pinned;
    all.filling += counts.filling;
  }
  counters_.blocks_total = all.size;
  counters_.blocks_free = all.free + all.stale;
  counters_.blocks_cached = all.lru - all.stale;
  counters_.blocks_fenced = all.fenced;
  counters_.blocks_reserved = all.reserved;
  counters_.blocks_pinned = all.pinned;
  counters_.blocks_filling = all.filling;
  counters_.blocks_live = all.held() - all.reserved - all.pinned - all.filling;
  counters_.live_requests = requests_.admissions.num_admitted();
  counters_.waiting_requests = requests_.count() - requests_.admissions.num_admitted();
  counters_.rejected_candidates = blocks_.tree().rejected_candidates();
  counters_.metadata_bytes = memory_.bytes() + own_bytes_;
  counters_.events_dropped = events_.dropped();
  events_.end_call();
  ++changes_;
  snapshot_.publish(counters_);
}

}  // namespace kvc
