// SPDX-License-Identifier: Apache-2.0
// Namespaces with quotas: what each may take, whose blocks it evicts for it, and how a quota begins and ends.
// Not used by managers without quotas.
#include "manager/blocks.h"

namespace kvc {

kvc_status Blocks::check_share(const Demand& demand, uint32_t ns, uint64_t watermark, const char* who) const {
  const uint32_t cls = class_of(ns);
  kvc_status status = KVC_OK;
  size_t pool = 0;
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    const uint64_t wanted = demand.wanted(p, watermark);
    if (wanted <= room(ns, p)) continue;
    const Quotas::Share& share = quotas_.share(cls, p);
    const uint64_t settling = share.fenced - demand.fenced_hits[p];
    const uint64_t later =
        quotas_.room_after_fences(cls, p, pool_.counts(p).available(), demand.fenced_hits[p]);
    const kvc_status reason = wanted <= later                              ? KVC_ERROR_AGAIN
                              : share.held - settling + wanted > share.max ? KVC_ERROR_OVER_QUOTA
                                                                           : KVC_ERROR_NO_SPACE;
    const auto weight = [](kvc_status s) {
      return s == KVC_OK ? 0 : s == KVC_ERROR_AGAIN ? 1 : s == KVC_ERROR_NO_SPACE ? 2 : 3;
    };
    if (weight(reason) > weight(status)) status = reason, pool = p;
  }
  if (status == KVC_OK) return KVC_OK;
  const uint64_t left = room(ns, pool);
  if (status != KVC_ERROR_OVER_QUOTA) {
    return refuse(status, demand, pool, watermark, left, who,
                  "free or preempt requests, lower the minimums of other namespaces, or enlarge the pool");
  }
  const Quotas::Share& share = quotas_.share(cls, pool);
  const uint64_t needed = demand.blocks[pool] + watermark;
  refused_pool_ = pool;
  note_shortage(needed - left);
  return fail(
      KVC_ERROR_OVER_QUOTA,
      "%s needs %llu blocks of pool %zu (watermark %llu included); the namespace holds %llu of at most "
      "%llu (%llu fenced): free or preempt its requests, or raise max_blocks of its quota",
      who, ull(needed), pool, ull(watermark), ull(share.held), ull(share.max), ull(share.fenced));
}

// At its maximum a namespace evicts its own blocks, so that its cache costs nobody else anything.
void Blocks::pop_share(uint32_t group, uint32_t ns, size_t count, BlockId* out) {
  const uint32_t pool = shape_.groups[group].pool, cls = class_of(ns);
  const uint64_t payer = payer_of(ns), max = quotas_.share(cls, pool).max;
  for (size_t i = 0; i < count; ++i) {
    if (max != Quotas::kNoMaximum) keep_to_maximum(cls, pool, max - 1);
    if (pool_.pop_free(pool, static_cast<uint8_t>(group), 1, &out[i]) == 0) {
      out[i] = victim(pool, quotas_.evictable(cls, pool));
      look_ahead(pool, out[i]);
      evict(out[i]);
      pool_.take(out[i], static_cast<uint8_t>(group));
    }
    quotas_.take(out[i], pool, cls, payer);
  }
}

// Evicts cached blocks of a class until it has `most` blocks, or none is cached.
void Blocks::keep_to_maximum(uint32_t cls, uint32_t pool, uint64_t most) {
  const Quotas::Share& share = quotas_.share(cls, pool);
  const uint64_t own = uint64_t{1} << cls;
  while (share.used() > most && share.cached != 0) {
    const BlockId stale = stale_head(pool, own);
    free_evicted(is_block(stale) ? stale : pool_.victim(pool, own));
  }
}

kvc_status Blocks::check_publication(uint32_t ns, const int32_t* blocks, size_t num_blocks) const {
  if (!quotas_.on()) return KVC_OK;
  const uint32_t cls = class_of(ns);
  uint64_t coming[kMaxPools] = {}, of_others[kMaxPools] = {};
  for (size_t i = 0; i < num_blocks; ++i) {
    if (blocks[i] == -1) continue;
    const BlockId id{blocks[i]};
    const uint32_t from = quotas_.class_of(id);
    if (from == cls) continue;
    ++coming[pool_[id].pool];
    of_others[pool_[id].pool] += from != 0;
  }
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    const Quotas::Share& share = quotas_.share(cls, p);
    if (coming[p] > share.left()) {
      return fail(KVC_ERROR_OVER_QUOTA,
                  "%llu blocks of pool %zu come to a namespace that holds %llu of at most %llu: free or "
                  "preempt its requests, or raise max_blocks of its quota",
                  ull(coming[p]), p, ull(share.held), ull(share.max));
    }
    if (of_others[p] > pool_.counts(p).available() - quotas_.lacking(p)) {
      return fail(KVC_ERROR_NO_SPACE,
                  "%llu blocks of pool %zu count for the minimum of another namespace: release them, and "
                  "acquire others",
                  ull(of_others[p]), p);
    }
  }
  return KVC_OK;
}

// An externally held block has been published in a namespace.
void Blocks::give(BlockId id, uint32_t ns) {
  const uint32_t cls = class_of(ns), pool = pool_[id].pool;
  quotas_.give(id, pool, cls, namespaces_.id(ns), List::kHeld);
  if (const uint64_t max = quotas_.share(cls, pool).max; max != Quotas::kNoMaximum)
    keep_to_maximum(cls, pool, max);
}

kvc_status Blocks::find_share(uint64_t namespace_id, uint32_t* ns) const {
  if (!quotas_.on()) {
    return fail(KVC_ERROR_UNSUPPORTED,
                "max_quotas of this manager is 0; set it to the number of namespaces that have quotas");
  }
  return find_namespace(namespace_id, ns);
}

kvc_status Blocks::set_quota(uint32_t ns, uint32_t pool, uint64_t min, uint64_t max, uint64_t admitted) {
  const PoolCounts& counts = pool_.counts(pool);
  const uint64_t most = max == 0 ? Quotas::kNoMaximum : max;
  if (min > counts.size || (max != 0 && (max > counts.size || min > max))) {
    return invalid(
        "min_blocks is %llu and max_blocks %llu; pool %u has %llu blocks: set min_blocks <= "
        "max_blocks <= %llu, or max_blocks 0 for no maximum",
        ull(min), ull(max), pool, ull(counts.size), ull(counts.size));
  }
  uint32_t cls = class_of(ns);
  uint64_t others = 0;  // minimums
  for (uint32_t c = 1; c < quotas_.num_classes(); ++c) others += c != cls ? quotas_.share(c, pool).min : 0;
  if (min > counts.size - others) {
    return invalid(
        "min_blocks is %llu, those of other namespaces sum to %llu, and pool %u has %llu blocks; "
        "set at most %llu, or lower another",
        ull(min), ull(others), pool, ull(counts.size), ull(counts.size - others));
  }
  if (cls == 0 && min == 0 && max == 0) return KVC_OK;
  if (cls == 0 && (cls = quotas_.unused_class()) == 0) {
    return fail(
        KVC_ERROR_LIMIT,
        "max_quotas, %u, namespaces have a quota; end one (min_blocks and max_blocks 0 in every pool), "
        "or raise max_quotas",
        quotas_.num_classes() - 1);
  }
  const bool is_new = class_of(ns) == 0;
  uint64_t held = is_new ? 0 : quotas_.share(cls, pool).held;
  if (is_new && min != 0) {
    for (uint64_t i = counts.first; i < pool_.first_unopened(pool); ++i) {
      const BlockId id{static_cast<int32_t>(i)};
      const List list = pool_[id].list;
      held += list != List::kFree && list != List::kLru && quotas_.payer(id) == namespaces_.id(ns);
    }
  }
  const uint64_t unmet = min > held ? min - held : 0;
  const uint64_t lacking = quotas_.lacking(pool) - (is_new ? 0 : quotas_.share(cls, pool).unmet());
  if (unmet > counts.available() - lacking) {
    return fail(KVC_ERROR_NO_SPACE,
                "min_blocks is %llu, the namespace holds %llu, and only %llu more of pool %u are not held or "
                "promised; free or preempt requests of others, retire steps, or set quotas before",
                ull(min), ull(held), ull(counts.available() - lacking), pool);
  }
  if (is_new) begin_share(ns, cls, admitted);
  quotas_.set_limits(cls, pool, min, most);
  if (max != 0) keep_to_maximum(cls, pool, max);
  bool ends = true;
  for (size_t p = 0; p < shape_.num_pools; ++p) {
    const Quotas::Share& share = quotas_.share(cls, p);
    ends = ends && share.min == 0 && share.max == Quotas::kNoMaximum;
  }
  if (ends) end_share(ns);
  return KVC_OK;
}

void Blocks::carry_quota(uint32_t ns, uint32_t cls, uint32_t pool, uint64_t min, uint64_t max) {
  if (class_of(ns) == 0) begin_share(ns, cls, 0);
  quotas_.set_limits(cls, pool, min, max);
}

// The blocks that the namespace has come to its class; cached ones keep their places among each other.
void Blocks::begin_share(uint32_t ns, uint32_t cls, uint64_t admitted) {
  const uint64_t payer = namespaces_.id(ns);
  quotas_.begin(cls, ns, admitted);
  namespaces_[ns].quota = cls;
  for (uint32_t p = 0; p < shape_.num_pools; ++p) {
    const auto per_class = static_cast<size_t>(pool_.num_lists() / quotas_.num_classes());
    for (size_t l = 0; l < per_class; ++l) {  // of class 0
      for (BlockId id = pool_.lru_head(p, l), next; !pool_.at_end(id); id = next) {
        next = pool_[id].next;
        if (quotas_.payer(id) != payer || tree_.stale(tree_[pool_[id].node])) continue;
        Place place = pool_.place_of(l);
        place.cls = cls;
        pool_.reshelve(id, place);
        quotas_.give(id, p, cls, payer, List::kLru);
      }
    }
    for (uint64_t i = pool_.counts(p).first; i < pool_.first_unopened(p); ++i) {
      const BlockId id{static_cast<int32_t>(i)};
      const List list = pool_[id].list;
      if (list != List::kFree && list != List::kLru && quotas_.payer(id) == payer)
        quotas_.give(id, p, cls, payer, list);
    }
  }
}

// Its blocks come to the common class: cached ones as if they were released now, stale ones to FREE.
void Blocks::end_share(uint32_t ns) {
  const uint32_t cls = class_of(ns);
  const auto per_class = static_cast<size_t>(pool_.num_lists() / quotas_.num_classes());
  for (uint32_t p = 0; p < shape_.num_pools; ++p) {
    for (size_t l = cls * per_class; l < (cls + 1) * per_class; ++l) {
      for (BlockId id = pool_.lru_head(p, l), next; !pool_.at_end(id); id = next) {
        next = pool_[id].next;
        if (tree_.stale(tree_[pool_[id].node])) {
          free_evicted(id);
          continue;
        }
        Place place = pool_.place_of(l);
        place.cls = 0;
        pool_.renew(id, place);
        quotas_.give(id, p, 0, quotas_.payer(id), List::kLru);
      }
    }
    for (uint64_t i = pool_.counts(p).first; i < pool_.first_unopened(p); ++i) {
      const BlockId id{static_cast<int32_t>(i)};
      const List list = pool_[id].list;
      if (list != List::kFree && list != List::kLru && quotas_.class_of(id) == cls)
        quotas_.give(id, p, 0, quotas_.payer(id), list);
    }
  }
  namespaces_[ns].quota = 0;
  quotas_.end(cls);
}

}  // namespace kvc
