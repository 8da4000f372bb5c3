// SPDX-License-Identifier: Apache-2.0
// Namespaces as far as blocks are concerned: what a reset or a closing makes of the cached ones.
#include <kvcache/events.h>

#include "manager/blocks.h"

namespace kvc {

kvc_status Blocks::open_namespace(const kvc_namespace_config& config, uint64_t* id) {
  uint32_t ns = 0;
  KVC_TRY(namespaces_.open(config, &ns));
  *id = namespaces_.id(ns);
  return KVC_OK;
}

kvc_status Blocks::find_namespace(uint64_t id, uint32_t* ns) const {
  if (!namespaces_.is_open(id)) {
    if (id == KVC_ALL_NAMESPACES) {
      return fail(
          KVC_ERROR_NOT_FOUND,
          "the number of all namespaces is none of one: curves alone take it; another call resets all");
    }
    return fail(KVC_ERROR_NOT_FOUND, "no namespace %llu: it was closed, or is of another manager", ull(id));
  }
  *ns = id == 0 ? 0 : handle_index(id);
  return KVC_OK;
}

kvc_status Blocks::close_namespace(uint64_t id) {
  uint32_t ns = 0;
  if (id == 0) return invalid("namespace 0, the default one, cannot be closed");
  KVC_TRY(find_namespace(id, &ns));
  Namespace& entry = namespaces_[ns];
  if (entry.opens > 1) {
    --entry.opens;
    return KVC_OK;
  }
  if (entry.users != 0) {
    return fail(KVC_ERROR_BUSY,
                "namespace %llu has %u requests, pins and registered prompts; free them first", ull(id),
                entry.users);
  }
  forget(ns);
  if (entry.quota != 0) end_share(ns);
  announce_cleared(ns);
  namespaces_.close(ns);
  return KVC_OK;
}

kvc_status Blocks::check_resets() const {
  if (namespaces_.may_reset()) return KVC_OK;
  return fail(KVC_ERROR_LIMIT,
              "the manager has made %llu resets, the most that it can make; create another manager",
              ull(NamespaceTable::kMaxResets));
}

kvc_status Blocks::reset_namespace(uint64_t id, uint32_t* ns) {
  KVC_TRY(check_resets());
  KVC_TRY(find_namespace(id, ns));
  forget(*ns);
  ++counters_.epoch;
  end_lineage();
  announce_cleared(*ns);
  return KVC_OK;
}

kvc_status Blocks::reset_all() {
  KVC_TRY(check_resets());
  for (size_t p = 0; p < shape_.num_pools; ++p) pool_.counts(p).stale = pool_.counts(p).lru;
  namespaces_.reset_all();
  quotas_.forget_all();
  ++counters_.epoch;
  end_lineage();
  announce_all_cleared();
  return KVC_OK;
}

// What the namespace has in LRU counts as free from now on; blocks are detached when they are taken.
void Blocks::forget(uint32_t ns) {
  for (uint32_t p = 0; p < shape_.num_pools; ++p) {
    pool_.counts(p).stale += namespaces_.cached(ns, p);
    if (quotas_.on()) quotas_.forget(class_of(ns), p, namespaces_.cached(ns, p));
  }
  namespaces_.reset_one(ns);
}

void Blocks::announce_cleared(uint32_t ns) {
  if (events_.enabled())
    events_.add(KVC_EVENT_NAMESPACE_CLEARED, namespaces_.epoch(ns), root_of(ns), 0, kNoBlock);
}

void Blocks::announce_all_cleared() {
  if (events_.enabled()) events_.add(KVC_EVENT_ALL_CLEARED, namespaces_.epoch(0), kNoNode, 0, kNoBlock);
}

}  // namespace kvc
