// SPDX-License-Identifier: Apache-2.0
// Namespaces as far as blocks are concerned: what a reset or a closing makes of the cached ones. Under the
// manager's lock.
#pragma once
#include "manager/shares.h"

namespace kvc {

class NamespaceBlocks {
 public:
  NamespaceBlocks(BlockState& state, Shares& shares) : s_(state), shares_(shares) {}

  kvc_status open_namespace(const kvc_namespace_config& config, uint64_t* id) {
    NamespaceId ns{};
    KVC_TRY(s_.namespaces.open(config, &ns));
    *id = s_.namespaces.id(ns);
    return KVC_OK;
  }
  kvc_status close_namespace(uint64_t id);
  kvc_status reset_namespace(uint64_t id, NamespaceId* ns);
  kvc_status reset_all();
  // A namespace with users cannot be closed.
  void add_user(NamespaceId ns) { ++s_.namespaces[ns].users; }
  void drop_user(NamespaceId ns) { --s_.namespaces[ns].users; }
  // The namespace whose quota a call means. UNSUPPORTED without quotas.
  kvc_status find_share(uint64_t namespace_id, NamespaceId* ns) const {
    if (!s_.quotas.on()) {
      return fail(KVC_ERROR_UNSUPPORTED,
                  "max_quotas of this manager is 0; set it to the number of namespaces that have quotas");
    }
    return s_.namespaces.find(namespace_id, ns);
  }

 private:
  void forget(NamespaceId ns);
  kvc_status check_resets() const {
    if (s_.namespaces.may_reset()) return KVC_OK;
    return fail(KVC_ERROR_LIMIT,
                "the manager has made %llu resets, the most that it can make; create another manager",
                ull(NamespaceTable::kMaxResets));
  }
  void announce(uint32_t kind, NamespaceId ns, NodeId cleared) {
    if (s_.events.enabled()) s_.events.add(kind, s_.namespaces.epoch(ns), cleared, 0, kNoBlock);
  }

  BlockState& s_;
  Shares& shares_;
};

}  // namespace kvc
