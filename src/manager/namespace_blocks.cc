// SPDX-License-Identifier: Apache-2.0
#include "manager/namespace_blocks.h"

#include <kvcache/events.h>

namespace kvc {

kvc_status NamespaceBlocks::close_namespace(uint64_t id) {
  NamespaceId ns{};
  if (id == 0) return invalid("namespace 0, the default one, cannot be closed");
  KVC_TRY(s_.namespaces.find(id, &ns));
  Namespace& entry = s_.namespaces[ns];
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
  if (entry.quota != 0) shares_.end(ns);
  announce(KVC_EVENT_NAMESPACE_CLEARED, ns, root_of(ns));
  s_.namespaces.close(ns);
  return KVC_OK;
}

kvc_status NamespaceBlocks::reset_namespace(uint64_t id, NamespaceId* ns) {
  KVC_TRY(check_resets());
  KVC_TRY(s_.namespaces.find(id, ns));
  forget(*ns);
  ++s_.counters.epoch;
  s_.lineages.end();
  announce(KVC_EVENT_NAMESPACE_CLEARED, *ns, root_of(*ns));
  return KVC_OK;
}

kvc_status NamespaceBlocks::reset_all() {
  KVC_TRY(check_resets());
  for (size_t p = 0; p < s_.shape.num_pools; ++p) s_.pool.counts(p).stale = s_.pool.counts(p).lru;
  s_.namespaces.reset_all();
  s_.quotas.forget_all();
  ++s_.counters.epoch;
  s_.lineages.end();
  announce(KVC_EVENT_ALL_CLEARED, 0, kNoNode);
  return KVC_OK;
}

// What the namespace has in LRU counts as free from now on; blocks are detached when they are taken.
void NamespaceBlocks::forget(NamespaceId ns) {
  for (uint32_t p = 0; p < s_.shape.num_pools; ++p) {
    s_.pool.counts(p).stale += s_.namespaces.cached(ns, p);
    s_.quotas.forget(s_.class_of(ns), p, s_.namespaces.cached(ns, p));
  }
  s_.namespaces.reset_one(ns);
}

}  // namespace kvc
