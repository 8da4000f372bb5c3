/* SPDX-License-Identifier: Apache-2.0 */
/* A backend of another version, as the loader would meet one after half an update. */
#include <backend/backend.h>

static const kvc_backend table = {
    .struct_size = sizeof table, .abi_version = KVC_BACKEND_ABI - 1, .num_devices = 1, .name = "older"};

__attribute__((visibility("default"))) kvc_status kvc_backend_entry_v1(const kvc_backend_host* host,
                                                                       const kvc_backend** backend);
kvc_status kvc_backend_entry_v1(const kvc_backend_host* host, const kvc_backend** backend) {
  (void)host;
  *backend = &table;
  return KVC_OK;
}
