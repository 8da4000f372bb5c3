// SPDX-License-Identifier: Apache-2.0
// The shares of namespaces with quotas: how a quota begins and ends, and what is counted for it. What a
// namespace may take is room.h, whose blocks leave for it cached_blocks.h. Under the manager's lock.
#pragma once
#include "manager/cached_blocks.h"

namespace kvc {

class Shares {
 public:
  Shares(BlockState& state, CachedBlocks& cached) : s_(state), cached_(cached) {}

  ClassIndex class_of(NamespaceId ns) const { return s_.class_of(ns); }
  // `admitted`: requests of the namespace that hold blocks.
  kvc_status set_quota(NamespaceId ns, PoolIndex pool, uint64_t min, uint64_t max, uint64_t admitted);
  // The namespace has a quota no more.
  void end(NamespaceId ns);
  // A namespace has a quota in a pool, whatever is held; the caller has checked its numbers.
  void carry_quota(NamespaceId ns, ClassIndex cls, PoolIndex pool, uint64_t min, uint64_t max) {
    if (s_.class_of(ns) == 0) begin(ns, cls, 0);
    s_.quotas.set_limits(cls, pool, min, max);
  }
  // What it has above its maximum, once blocks have come to it, is evicted as far as nobody holds it.
  void keep_to_quota(ClassIndex cls, PoolIndex pool) {
    if (const uint64_t max = s_.quotas.share(cls, pool).max; max != Quotas::kNoMaximum)
      cached_.keep_to_maximum(cls, pool, max);
  }
  // Whether externally held blocks may be published in a namespace: they count for it then. And one was.
  kvc_status check_publication(NamespaceId ns, const int32_t* blocks, size_t num_blocks) const;
  void give(BlockId id, NamespaceId ns) {
    if (s_.quotas.on()) [[unlikely]]
      give_share(id, ns);
  }

  // Admitted requests that the watermark of a namespace's admission looks at: `all`, or those of its class.
  uint64_t num_admitted(NamespaceId ns, uint64_t all) const {
    return s_.quotas.on() ? s_.quotas.tenant(class_of(ns)).admitted : all;
  }
  void count_admitted(NamespaceId ns, uint64_t change) {
    if (s_.quotas.on()) [[unlikely]]
      s_.quotas.tenant(class_of(ns)).admitted += change;
  }
  void count_hits(NamespaceId ns, uint64_t queries, uint64_t hits) {
    if (!s_.quotas.on()) return;
    Quotas::Tenant& tenant = s_.quotas.tenant(class_of(ns));
    tenant.block_queries += queries;
    tenant.block_hits += hits;
  }

 private:
  // An externally held block has been published in a namespace.
  [[gnu::noinline]] void give_share(BlockId id, NamespaceId ns) {
    const ClassIndex cls = s_.class_of(ns);
    const PoolIndex pool = s_.pool[id].pool;
    s_.quotas.give(id, pool, cls, s_.namespaces.id(ns), List::kHeld);
    keep_to_quota(cls, pool);
  }
  template <typename Visit>
  void each_held(PoolIndex pool, Visit&& visit) const;
  template <typename Moves>
  void move(ClassIndex from, ClassIndex to, Moves&& moves);
  void begin(NamespaceId ns, ClassIndex cls, uint64_t admitted);

  BlockState& s_;
  CachedBlocks& cached_;
};

}  // namespace kvc
