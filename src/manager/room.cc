// SPDX-License-Identifier: Apache-2.0
#include "manager/room.h"

#include <kvcache/prefix.h>

namespace kvc {
namespace {
thread_local uint64_t missing_blocks = 0;
}

void Demand::answer_probe(const uint64_t* available, size_t num_pools, uint64_t watermark,
                          kvc_probe_info* info) const {
  const auto slack = [&](size_t p) {
    return static_cast<int64_t>(available[p]) - static_cast<int64_t>(blocks[p]);
  };
  size_t tightest = 0;
  info->fits = 1;
  for (size_t p = 0; p < num_pools; ++p) {
    if (slack(p) < slack(tightest)) tightest = p;
    if (wanted(p, watermark) > available[p]) info->fits = 0;
  }
  info->blocks_needed = blocks[tightest];
  info->blocks_available = available[tightest];
}

uint64_t Room::last_shortage() { return missing_blocks; }

// The pool that decides is the first of those with the reason that weighs most.
kvc_status Room::refuse(const Demand& demand, NamespaceId ns, uint64_t watermark, const char* who) const {
  const ClassIndex cls = s_.class_of(ns);
  const auto reason = [&](size_t p, uint64_t wanted) {
    const PoolCounts& counts = s_.pool.counts(p);
    const uint64_t kept = demand.fenced_hits[p];
    const uint64_t later = s_.quotas.on() ? s_.quotas.room_after_fences(cls, p, counts.available(), kept)
                                          : counts.available() + counts.fenced - kept;
    return wanted <= later                           ? KVC_ERROR_AGAIN
           : s_.quotas.exceeds(cls, p, wanted, kept) ? KVC_ERROR_OVER_QUOTA
                                                     : KVC_ERROR_NO_SPACE;
  };
  const auto weight = [](kvc_status s) {
    return s == KVC_OK ? 0 : s == KVC_ERROR_AGAIN ? 1 : s == KVC_ERROR_NO_SPACE ? 2 : 3;
  };
  kvc_status status = KVC_OK;
  size_t pool = 0;
  for (size_t p = 0; p < s_.shape.num_pools; ++p) {
    const uint64_t wanted = demand.wanted(p, watermark);
    if (wanted <= available(ns, p)) continue;
    if (const kvc_status of_pool = reason(p, wanted); weight(of_pool) > weight(status))
      status = of_pool, pool = p;
  }
  const PoolCounts& counts = s_.pool.counts(pool);
  const uint64_t wanted = demand.blocks[pool] + watermark, left = available(ns, pool);
  missing_blocks = wanted - left;
  if (status == KVC_ERROR_OVER_QUOTA) {
    const Quotas::Share& share = s_.quotas.share(cls, pool);
    refused_pool_ = pool;
    return fail(
        status,
        "%s needs %llu blocks of pool %zu (watermark %llu included); the namespace holds %llu of at most "
        "%llu (%llu fenced): free or preempt its requests, or raise max_blocks of its quota",
        who, ull(wanted), pool, ull(watermark), ull(share.held), ull(share.max), ull(share.fenced));
  }
  const char* fix = "free or preempt requests, or enlarge the pool";
  if (s_.quotas.on()) {
    fix = "free or preempt requests, lower the minimums of other namespaces, or enlarge the pool";
  } else if (demand.blocks[pool] > counts.size && s_.shape.window_groups != 0) {
    fix = "it can never fit at once: take smaller steps (slots, kvc_step.admit_slots), or enlarge the pool";
  }
  if (status == KVC_ERROR_AGAIN && demand.blocks[pool] <= counts.size)
    fix = "retire the steps in flight, then try again";
  return fail(status,
              "%s needs %llu blocks of pool %zu (watermark %llu included), %llu of %llu are available and "
              "%llu fenced; %s",
              who, ull(wanted), pool, ull(watermark), ull(left), ull(counts.size), ull(counts.fenced), fix);
}

kvc_status Room::refuse_for_good(const Least& least, size_t pool, NamespaceId ns, const char* who) const {
  const uint64_t most = most_room(ns, pool), size = s_.pool.counts(pool).size;
  return fail(
      KVC_ERROR_NEVER_FITS,
      "%s needs %llu blocks of pool %zu at once and can never get more than %llu of its %llu: end the "
      "request, ask for less, or %s",
      who, ull(least.blocks[pool]), pool, ull(most), ull(size),
      most < size ? "change the quotas" : "enlarge the pool");
}

bool Room::expect_hit(BlockId id, List* was) {
  Block& block = s_.pool[id];
  *was = block.list;
  if (block.list == List::kHeld) return false;
  PoolCounts& counts = s_.pool.counts(block.pool);
  --(block.list == List::kLru ? counts.lru : counts.fenced);
  s_.quotas.hit(id, block.pool, block.list == List::kFenced);
  block.list = List::kHeld;
  return true;
}

void Room::take_back_hit(BlockId id, List was) {
  Block& block = s_.pool[id];
  PoolCounts& counts = s_.pool.counts(block.pool);
  ++(was == List::kLru ? counts.lru : counts.fenced);
  was == List::kLru ? s_.quotas.cache_held(id, block.pool) : s_.quotas.fence(id, block.pool);
  block.list = was;
}

}  // namespace kvc
