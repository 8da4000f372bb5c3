// SPDX-License-Identifier: Apache-2.0
// kvc_manager_create with an Env of the caller's choice: how tests inject failures, randomness and hash
// collisions.
#pragma once
#include <kvcache/manager.h>

#include "base/env.h"

struct kvc_rebuild;

namespace kvc {

// The config's allocator replaces the Env's.
kvc_status create_manager(const kvc_manager_config* config, Env env, kvc_manager** manager);
kvc_status rebuild_manager(kvc_manager* old, const kvc_manager_config* config, Env env, kvc_rebuild* rebuild,
                           kvc_manager** manager);

}  // namespace kvc
