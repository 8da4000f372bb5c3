// SPDX-License-Identifier: Apache-2.0
// Namespaces as far as blocks are concerned: what a reset or a closing makes of the cached ones. Under the
// manager's lock.
#pragma once
#include "manager/lineage.h"
#include "manager/shares.h"

namespace kvc {

class NamespaceBlocks {
 public:
  NamespaceBlocks(BlockState& state, Shares& shares, Lineages& lineages)
      : s_(state), shares_(shares), lineages_(lineages) {}

  kvc_status open_namespace(const kvc_namespace_config& config, uint64_t* id);
  kvc_status close_namespace(uint64_t id);
  kvc_status reset_namespace(uint64_t id, NamespaceId* ns);
  kvc_status reset_all();
  // A namespace with users cannot be closed.
  void add_user(NamespaceId ns) { ++s_.namespaces[ns].users; }
  void drop_user(NamespaceId ns) { --s_.namespaces[ns].users; }
  // The namespace whose quota a call means. UNSUPPORTED without quotas.
  kvc_status find_share(uint64_t namespace_id, NamespaceId* ns) const;

  // A namespace with the identity of another manager's, open as often; one of a checkpoint, and its reverse.
  kvc_status carry_namespace(const Namespace& from, NamespaceId* ns) {
    return s_.namespaces.open_like(from, ns);
  }
  kvc_status carry_namespace(const char* identity, size_t size, uint32_t opens, uint64_t epoch,
                             CarriedNamespace* out) {
    return s_.namespaces.carry(identity, size, opens, epoch, out);
  }
  void drop_namespace(const CarriedNamespace& carried) { s_.namespaces.drop(carried); }

 private:
  void forget(NamespaceId ns);
  kvc_status check_resets() const;
  void announce(uint32_t kind, NamespaceId ns, NodeId cleared);

  BlockState& s_;
  Shares& shares_;
  Lineages& lineages_;
};

}  // namespace kvc
