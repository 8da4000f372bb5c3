// SPDX-License-Identifier: Apache-2.0
// The manager's miss-ratio curves.
#include <kvcache/sizing.h>

#include "manager/manager.h"

namespace kvc {

kvc_status Manager::find_curve(uint64_t namespace_id, NamespaceId* ns) const {
  if (namespace_id != KVC_ALL_NAMESPACES) return blocks_.namespaces().find(namespace_id, ns);
  *ns = Curves::kAll;
  return KVC_OK;
}

kvc_status Manager::open_curve(uint64_t namespace_id, const kvc_curve_config& config) {
  return change([&](const ManagerParts&) {
    NamespaceId ns{};
    KVC_TRY(find_curve(namespace_id, &ns));
    return requests_.curves().open(memory_, ns, config);
  });
}

kvc_status Manager::close_curve(uint64_t namespace_id) {
  return change([&](const ManagerParts&) {
    NamespaceId ns{};
    KVC_TRY(find_curve(namespace_id, &ns));
    return requests_.curves().close(ns);
  });
}

kvc_status Manager::read_curve(uint64_t namespace_id, const uint64_t* sizes, size_t num_sizes,
                               double* rates) {
  const std::lock_guard lock(monitor_.mutex());
  NamespaceId ns{};
  KVC_TRY(find_curve(namespace_id, &ns));
  return requests_.curves().read(ns, sizes, num_sizes, rates);
}

kvc_status Manager::curve_info(uint64_t namespace_id, kvc_curve_info* info) {
  const std::lock_guard lock(monitor_.mutex());
  NamespaceId ns{};
  KVC_TRY(find_curve(namespace_id, &ns));
  return requests_.curves().info(ns, info);
}

kvc_status Manager::close_namespace(uint64_t id) {
  return change([&](const ManagerParts&) {
    KVC_TRY(blocks_.namespace_blocks().close_namespace(id));
    if (!blocks_.namespaces().is_open(id)) requests_.curves().drop(handle_index(id));
    return kvc_status{KVC_OK};
  });
}

}  // namespace kvc
