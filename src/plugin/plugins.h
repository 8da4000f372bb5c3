// SPDX-License-Identifier: Apache-2.0
// Opens plug-ins (kvcache/plugin.h) and checks their tables. An open plug-in stays open for the life of the
// process. A failure is not remembered: a later call may succeed. Any thread may call.
#pragma once
#include <kvcache/plugin.h>

namespace kvc {

kvc_status open_plugin(const char* name, const char* path, const kvc_plugin** out);

// What a function of a plug-in has returned; `otherwise` if the library has no such status.
inline kvc_status checked_status(kvc_status status, kvc_status otherwise) {
  return status < KVC_OK || status > KVC_ERROR_NEVER_FITS ? otherwise : status;
}

// Its transport; null also if the plug-in is older than transports.
const kvc_transport* transport_of(const kvc_plugin& plugin);

}  // namespace kvc
