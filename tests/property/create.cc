// SPDX-License-Identifier: Apache-2.0
// Makes managers whose table hash keeps only the bits of a mask: the internal hook through which tests make
// collisions frequent.
#include "property/create.h"

#include "api/create.h"

kvc_manager* create_manager(const kvc_manager_config& config, uint64_t hash_mask, uint64_t near_tokens) {
  kvc::Env env = kvc::default_env();
  env.table_hash_mask = hash_mask;
  env.near_tokens = static_cast<uint32_t>(near_tokens);
  kvc_manager* manager = nullptr;
  return kvc::create_manager(&config, env, &manager) == KVC_OK ? manager : nullptr;
}

bool hash_mask_works() { return true; }
