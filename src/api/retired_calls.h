// SPDX-License-Identifier: Apache-2.0
// What calls of earlier libraries' logs mean, by today's functions. A function whose arguments change their
// meaning gets another number in calls.def, and what its old number means comes here.
#pragma once
#include <kvcache.h>

namespace kvc::retired {

// The default namespace was UINT64_MAX where 0 was all of them.
inline constexpr uint64_t kDefault = UINT64_MAX;

inline kvc_status kvc_manager_reset(kvc_manager* m, uint64_t namespace_id) {
  if (namespace_id == 0) return kvc_manager_reset_all(m);
  return kvc_manager_reset_namespace(m, namespace_id == kDefault ? 0 : namespace_id);
}

// 0 was the default one, too.
inline kvc_status kvc_manager_set_quota(kvc_manager* m, uint64_t namespace_id, uint32_t pool, uint64_t least,
                                        uint64_t most) {
  return ::kvc_manager_set_quota(m, namespace_id == kDefault ? 0 : namespace_id, pool, least, most);
}

inline uint64_t of_curve(uint64_t namespace_id) {
  return namespace_id == 0 ? KVC_ALL_NAMESPACES : namespace_id == kDefault ? 0 : namespace_id;
}
inline kvc_status kvc_manager_open_curve(kvc_manager* m, uint64_t namespace_id,
                                         const kvc_curve_config* config) {
  return ::kvc_manager_open_curve(m, of_curve(namespace_id), config);
}
inline kvc_status kvc_manager_close_curve(kvc_manager* m, uint64_t namespace_id) {
  return ::kvc_manager_close_curve(m, of_curve(namespace_id));
}

// No priority above 100 had a meaning.
inline kvc_status kvc_manager_set_prefix_priority(kvc_manager* m, const kvc_prompt* prompt,
                                                  uint64_t first_token, uint32_t priority, uint64_t until_ns,
                                                  uint64_t* num_tokens) {
  if (priority == KVC_PRIORITY_DEMOTED) --priority;
  return ::kvc_manager_set_prefix_priority(m, prompt, first_token, priority, until_ns, num_tokens);
}
inline kvc_status kvc_manager_demote_prefix(kvc_manager* m, const kvc_prompt* prompt, uint64_t first_token,
                                            uint64_t* num_tokens) {
  return ::kvc_manager_set_prefix_priority(m, prompt, first_token, KVC_PRIORITY_DEMOTED, 0, num_tokens);
}

}  // namespace kvc::retired
