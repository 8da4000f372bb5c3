// SPDX-License-Identifier: Apache-2.0
// What kvc_manager_create makes of a configuration.
#pragma once
#include <kvcache/manager.h>

#include "manager/shape.h"

namespace kvc {

// The pools and groups of a model within a budget, for sequences of so many tokens.
constexpr size_t kModelGroups = 4;
struct ModelGroups {
  uint64_t tokens;
  kvc_pool_config pools[kModelGroups];
  kvc_group_config groups[kModelGroups];
};

// Puts them in the place of config->memory: config->pools and config->groups are those of *out then.
kvc_status size_by_memory(kvc_manager_config* config, ModelGroups* out);

// longest: tokens of the longest request, 0 = not told.
kvc_status read_shape(const kvc_manager_config& config, uint64_t longest, Shape* shape);

}  // namespace kvc
