// SPDX-License-Identifier: Apache-2.0
// Functions that only logs of earlier libraries have, by today's functions. A function whose arguments change
// their meaning gets another number in calls.def, and its old number and meaning come here.
#pragma once
#include <kvcache.h>

namespace kvc::retired {

// 0 was all namespaces, and UINT64_MAX the default one.
inline kvc_status kvc_manager_reset(kvc_manager* m, uint64_t namespace_id) {
  if (namespace_id == 0) return kvc_manager_reset_all(m);
  return kvc_manager_reset_namespace(m, namespace_id == UINT64_MAX ? 0 : namespace_id);
}

}  // namespace kvc::retired
