// SPDX-License-Identifier: Apache-2.0
// Makes managers through the public call alone. The core's internal hook that masks the table hash is not
// part of the C API: whoever connects it sets it here, around kvc_manager_create, and lets hash_mask_works()
// return true.
#include "property/create.h"

kvc_manager* create_manager(const kvc_manager_config& config, uint64_t hash_mask) {
  (void)hash_mask;
  kvc_manager* manager = nullptr;
  return kvc_manager_create(&config, &manager) == KVC_OK ? manager : nullptr;
}

bool hash_mask_works() { return false; }
