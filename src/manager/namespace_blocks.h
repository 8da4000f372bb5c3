// SPDX-License-Identifier: Apache-2.0
// Namespaces as far as blocks are concerned: what a reset or a closing makes of the cached ones. Under the
// manager's lock.
#pragma once
#include "manager/shares.h"

namespace kvc {

class NamespaceBlocks {
 public:
  NamespaceBlocks(BlockState& state, Shares& shares) : s_(state), shares_(shares) {}

  kvc_status open_namespace(const kvc_namespace_config& config, uint64_t* id);
  kvc_status close_namespace(uint64_t id);
  kvc_status reset_namespace(uint64_t id, NamespaceId* ns);
  kvc_status reset_all();
  // A namespace with users cannot be closed.
  void add_user(NamespaceId ns) { ++s_.namespaces[ns].users; }
  void drop_user(NamespaceId ns) { --s_.namespaces[ns].users; }
  // The namespace whose quota a call means. UNSUPPORTED without quotas.
  kvc_status find_share(uint64_t namespace_id, NamespaceId* ns) const;

 private:
  void forget(NamespaceId ns);
  kvc_status check_resets() const;
  void announce(uint32_t kind, NamespaceId ns, NodeId cleared);

  BlockState& s_;
  Shares& shares_;
};

}  // namespace kvc
