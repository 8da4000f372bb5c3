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

kvc_status Room::check_pools(const Demand& demand, uint64_t watermark, const char* who) const {
  size_t short_pool = kMaxPools;
  bool again = true;
  for (size_t p = 0; p < s_.shape.num_pools; ++p) {
    const PoolCounts& pool = s_.pool.counts(p);
    const uint64_t wanted = demand.wanted(p, watermark);
    if (wanted <= pool.available()) continue;
    const bool fence_helps = wanted <= pool.available() + pool.fenced - demand.fenced_hits[p];
    if (short_pool == kMaxPools || (again && !fence_helps)) short_pool = p;  // the one that decides
    again = again && fence_helps;
  }
  if (short_pool == kMaxPools) return KVC_OK;
  const PoolCounts& pool = s_.pool.counts(short_pool);
  const char* fix = "free or preempt requests, or enlarge the pool";
  if (demand.blocks[short_pool] > pool.size && s_.shape.window_groups != 0) {
    fix = "it can never fit at once: take smaller steps (slots, kvc_step.admit_slots), or enlarge the pool";
  }
  return refuse(again ? KVC_ERROR_AGAIN : KVC_ERROR_NO_SPACE, demand, short_pool, watermark, pool.available(),
                who, fix);
}

kvc_status Room::refuse(kvc_status status, const Demand& demand, size_t pool, uint64_t watermark,
                        uint64_t room, const char* who, const char* fix) const {
  const PoolCounts& counts = s_.pool.counts(pool);
  const uint64_t wanted = demand.blocks[pool] + watermark;
  if (status == KVC_ERROR_AGAIN && demand.blocks[pool] <= counts.size)
    fix = "retire the steps in flight, then try again";
  missing_blocks = wanted - room;
  return fail(status,
              "%s needs %llu blocks of pool %zu (watermark %llu included), %llu of %llu are available and "
              "%llu fenced; %s",
              who, ull(wanted), pool, ull(watermark), ull(room), ull(counts.size), ull(counts.fenced), fix);
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

kvc_status Room::check_share(const Demand& demand, NamespaceId ns, uint64_t watermark,
                             const char* who) const {
  const ClassIndex cls = s_.class_of(ns);
  kvc_status status = KVC_OK;
  size_t pool = 0;
  for (size_t p = 0; p < s_.shape.num_pools; ++p) {
    const uint64_t wanted = demand.wanted(p, watermark);
    if (wanted <= available(ns, p)) continue;
    const Quotas::Share& share = s_.quotas.share(cls, p);
    const uint64_t settling = share.fenced - demand.fenced_hits[p];
    const uint64_t later =
        s_.quotas.room_after_fences(cls, p, s_.pool.counts(p).available(), demand.fenced_hits[p]);
    const kvc_status reason = wanted <= later                              ? KVC_ERROR_AGAIN
                              : share.held - settling + wanted > share.max ? KVC_ERROR_OVER_QUOTA
                                                                           : KVC_ERROR_NO_SPACE;
    const auto weight = [](kvc_status s) {
      return s == KVC_OK ? 0 : s == KVC_ERROR_AGAIN ? 1 : s == KVC_ERROR_NO_SPACE ? 2 : 3;
    };
    if (weight(reason) > weight(status)) status = reason, pool = p;
  }
  if (status == KVC_OK) return KVC_OK;
  const uint64_t left = available(ns, pool);
  if (status != KVC_ERROR_OVER_QUOTA) {
    return refuse(status, demand, pool, watermark, left, who,
                  "free or preempt requests, lower the minimums of other namespaces, or enlarge the pool");
  }
  const Quotas::Share& share = s_.quotas.share(cls, pool);
  const uint64_t needed = demand.blocks[pool] + watermark;
  refused_pool_ = pool;
  missing_blocks = needed - left;
  return fail(
      KVC_ERROR_OVER_QUOTA,
      "%s needs %llu blocks of pool %zu (watermark %llu included); the namespace holds %llu of at most "
      "%llu (%llu fenced): free or preempt its requests, or raise max_blocks of its quota",
      who, ull(needed), pool, ull(watermark), ull(share.held), ull(share.max), ull(share.fenced));
}

bool Room::expect_hit(BlockId id, List* was) {
  Block& block = s_.pool[id];
  *was = block.list;
  if (block.list == List::kHeld) return false;
  PoolCounts& counts = s_.pool.counts(block.pool);
  --(block.list == List::kLru ? counts.lru : counts.fenced);
  if (s_.quotas.on()) s_.quotas.hit(id, block.pool, block.list == List::kFenced);
  block.list = List::kHeld;
  return true;
}

void Room::take_back_hit(BlockId id, List was) {
  Block& block = s_.pool[id];
  PoolCounts& counts = s_.pool.counts(block.pool);
  ++(was == List::kLru ? counts.lru : counts.fenced);
  if (s_.quotas.on())
    was == List::kLru ? s_.quotas.cache_held(id, block.pool) : s_.quotas.fence(id, block.pool);
  block.list = was;
}

// FREE may count less than nothing: what is available is right, since cached blocks stand in for it.
void Room::expect_blocks(NamespaceId ns, size_t pool, uint64_t count) {
  s_.pool.counts(pool).free -= count;
  if (s_.quotas.on()) s_.quotas.expect(s_.class_of(ns), pool, count);
}

}  // namespace kvc
