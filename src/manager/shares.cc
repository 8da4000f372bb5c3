// SPDX-License-Identifier: Apache-2.0
#include "manager/shares.h"

namespace kvc {

kvc_status Shares::check_publication(NamespaceId ns, const int32_t* blocks, size_t num_blocks) const {
  if (!s_.quotas.on()) return KVC_OK;
  const ClassIndex cls = s_.class_of(ns);
  uint64_t coming[kMaxPools] = {}, of_others[kMaxPools] = {};
  for (size_t i = 0; i < num_blocks; ++i) {
    if (blocks[i] == -1) continue;
    const BlockId id{blocks[i]};
    const uint32_t from = s_.quotas.class_of(id);
    if (from == cls) continue;
    ++coming[s_.pool[id].pool];
    of_others[s_.pool[id].pool] += from != 0;
  }
  for (size_t p = 0; p < s_.shape.num_pools; ++p) {
    const Quotas::Share& share = s_.quotas.share(cls, p);
    if (coming[p] > share.left()) {
      return fail(KVC_ERROR_OVER_QUOTA,
                  "%llu blocks of pool %zu come to a namespace that holds %llu of at most %llu: free or "
                  "preempt its requests, or raise max_blocks of its quota",
                  ull(coming[p]), p, ull(share.held), ull(share.max));
    }
    if (of_others[p] > s_.pool.counts(p).available() - s_.quotas.lacking(p)) {
      return fail(KVC_ERROR_NO_SPACE,
                  "%llu blocks of pool %zu count for the minimum of another namespace: release them, and "
                  "acquire others",
                  ull(of_others[p]), p);
    }
  }
  return KVC_OK;
}

// visit(id): blocks that count as held, fenced ones too.
template <typename Visit>
void Shares::each_held(PoolIndex pool, Visit&& visit) const {
  for (uint64_t i = s_.pool.counts(pool).first; i < s_.pool.first_unopened(pool); ++i) {
    const BlockId id{static_cast<int32_t>(i)};
    if (s_.pool[id].list != List::kFree && s_.pool[id].list != List::kLru) visit(id);
  }
}

kvc_status Shares::set_quota(NamespaceId ns, PoolIndex pool, uint64_t min, uint64_t max, uint64_t admitted) {
  const PoolCounts& counts = s_.pool.counts(pool);
  const uint64_t most = max == 0 ? Quotas::kNoMaximum : max;
  if (min > counts.size || (max != 0 && (max > counts.size || min > max))) {
    return invalid(
        "min_blocks is %llu and max_blocks %llu; pool %u has %llu blocks: set min_blocks <= "
        "max_blocks <= %llu, or max_blocks 0 for no maximum",
        ull(min), ull(max), raw(pool), ull(counts.size), ull(counts.size));
  }
  ClassIndex cls = s_.class_of(ns);
  uint64_t others = 0;  // minimums
  for (uint32_t c = 1; c < s_.quotas.num_classes(); ++c)
    others += c != cls ? s_.quotas.share(c, pool).min : 0;
  if (min > counts.size - others) {
    return invalid(
        "min_blocks is %llu, those of other namespaces sum to %llu, and pool %u has %llu blocks; "
        "set at most %llu, or lower another",
        ull(min), ull(others), raw(pool), ull(counts.size), ull(counts.size - others));
  }
  if (cls == 0 && min == 0 && max == 0) return KVC_OK;
  if (cls == 0 && (cls = s_.quotas.unused_class()) == 0) {
    return fail(
        KVC_ERROR_LIMIT,
        "max_quotas, %u, namespaces have a quota; end one (min_blocks and max_blocks 0 in every pool), "
        "or raise max_quotas",
        s_.quotas.num_classes() - 1);
  }
  const bool is_new = s_.class_of(ns) == 0;
  uint64_t held = is_new ? 0 : s_.quotas.share(cls, pool).held;
  if (is_new && min != 0) {
    each_held(pool, [&](BlockId id) { held += s_.quotas.payer(id) == s_.namespaces.id(ns); });
  }
  const uint64_t unmet = min > held ? min - held : 0;
  const uint64_t lacking = s_.quotas.lacking(pool) - (is_new ? 0 : s_.quotas.share(cls, pool).unmet());
  if (unmet > counts.available() - lacking) {
    return fail(KVC_ERROR_NO_SPACE,
                "min_blocks is %llu, the namespace holds %llu, and only %llu more of pool %u are not held or "
                "promised; free or preempt requests of others, retire steps, or set quotas before",
                ull(min), ull(held), ull(counts.available() - lacking), raw(pool));
  }
  if (is_new) begin(ns, cls, admitted);
  s_.quotas.set_limits(cls, pool, min, most);
  if (max != 0) cached_.keep_to_maximum(cls, pool, max);
  bool ends = true;
  for (size_t p = 0; p < s_.shape.num_pools; ++p) {
    const Quotas::Share& share = s_.quotas.share(cls, p);
    ends = ends && share.min == 0 && share.max == Quotas::kNoMaximum;
  }
  if (ends) end(ns);
  return KVC_OK;
}

// The blocks of a class that `moves` tells of come to another one. Cached ones keep their places among each
// other in one that is new; in the common class it is as if they were released now, and stale ones are freed.
template <typename Moves>
void Shares::move(ClassIndex from, ClassIndex to, Moves&& moves) {
  const size_t per_class = s_.pool.shelves().num_lists() / s_.quotas.num_classes();
  for (uint32_t p = 0; p < s_.shape.num_pools; ++p) {
    for (size_t l = from * per_class; l < (from + 1) * per_class; ++l) {
      for (BlockId id = s_.pool.lru_head(p, l), next; !s_.pool.at_end(id); id = next) {
        next = s_.pool[id].next;
        if (!moves(id)) continue;
        if (s_.tree.stale(s_.tree[s_.pool[id].node])) {
          if (to == 0) cached_.free_evicted(id);
          continue;
        }
        Place place = s_.pool.shelves().place_of(l);
        place.cls = to;
        if (to == 0) {
          s_.pool.shelves().renew(id, place);
        } else {
          s_.pool.shelves().reshelve(id, place);
        }
        s_.quotas.give(id, p, to, s_.quotas.payer(id), List::kLru);
      }
    }
    each_held(p, [&](BlockId id) {
      if (moves(id)) s_.quotas.give(id, p, to, s_.quotas.payer(id), s_.pool[id].list);
    });
  }
}

void Shares::begin(NamespaceId ns, ClassIndex cls, uint64_t admitted) {
  const uint64_t payer = s_.namespaces.id(ns);
  s_.quotas.begin(cls, ns, admitted);
  s_.namespaces[ns].quota = cls;
  move(0, cls, [&](BlockId id) { return s_.quotas.payer(id) == payer; });
}

void Shares::end(NamespaceId ns) {
  const ClassIndex cls = s_.class_of(ns);
  move(cls, 0, [&](BlockId id) { return s_.quotas.class_of(id) == cls; });
  s_.namespaces[ns].quota = 0;
  s_.quotas.end(cls);
}

}  // namespace kvc
