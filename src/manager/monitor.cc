// SPDX-License-Identifier: Apache-2.0
#include "manager/monitor.h"

namespace kvc {

void Monitor::publish() {
  Counters& c = counters_;
  c.blocks_total = c.blocks_free = c.blocks_cached = c.blocks_live = c.blocks_reserved = c.blocks_fenced =
      c.blocks_pinned = 0;
  for (size_t p = 0; p < blocks_.pool().num_pools(); ++p) {
    const PoolCounts& pool = blocks_.pool().counts(p);
    c.blocks_total += pool.size;
    c.blocks_free += pool.free + pool.stale;
    c.blocks_cached += pool.lru - pool.stale;
    c.blocks_fenced += pool.fenced;
    c.blocks_reserved += pool.reserved;
    c.blocks_pinned += pool.pinned;
    c.blocks_live += pool.held() - pool.reserved - pool.pinned;
  }
  c.live_requests = requests_.num_admitted();
  c.waiting_requests = requests_.count() - requests_.num_admitted();
  c.rejected_candidates = blocks_.tree().rejected_candidates();
  c.metadata_bytes = memory_.bytes() + own_bytes_;
  snapshot_.publish(c);
}

}  // namespace kvc
