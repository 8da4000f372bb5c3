/* SPDX-License-Identifier: Apache-2.0 */
/* A backend that finds nothing to work with. */
#include <backend/backend.h>

__attribute__((visibility("default"))) kvc_status kvc_backend_entry_v1(const kvc_backend_host* host,
                                                                       const kvc_backend** backend);
kvc_status kvc_backend_entry_v1(const kvc_backend_host* host, const kvc_backend** backend) {
  (void)backend;
  host->set_error("the driver is on holiday");
  return KVC_ERROR_DEVICE;
}
